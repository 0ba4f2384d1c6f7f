"""What a language model's texts are like, beyond its tokenizer: how they begin and end, and how messages
become one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST = 2**20
"""Characters that a template may have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conventions:
    begins: bool | None = None
    """Whether the start token stands before every text. None: where it is not the end token too."""
    ends: tuple[int, ...] = ()
    """Further tokens that end a text, beside the tokenizer's end."""
    chat_template: str | None = None
    """The Jinja template that makes a text of messages."""

    def __post_init__(self) -> None:
        if self.begins is not None and not isinstance(self.begins, bool):
            raise ValueError(f"begins={self.begins!r:.60} must be true or false")
        if any(type(each) is not int or each < 0 for each in self.ends):
            raise ValueError(f"ends={self.ends!r:.60} must be ids, 0 or more")
        template = self.chat_template
        if template is not None and (not isinstance(template, str) or len(template) > MOST):
            raise ValueError(f"chat_template={template!r:.60} must be a text of {MOST:,} characters at most")

    def to_dict(self) -> dict[str, Any]:
        """What is said; nothing of what is not."""
        said = {"begins": self.begins, "ends": [*self.ends] or None, "chat_template": self.chat_template}
        return {name: value for name, value in said.items() if value is not None}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> "Conventions":
        """The same back; other keys of the table are not looked at."""
        ends = table.get("ends") or []
        if not isinstance(ends, list):
            raise ValueError(f"ends={ends!r:.60} must be a list of ids")
        return cls(begins=table.get("begins"), ends=tuple(ends), chat_template=table.get("chat_template"))
