"""How the files of a recipe become text, whatever its task; and what readers advise, in words of a recipe or
of the prompt. Imports no torch.

    a reader says      pass encoding='cp1252'      pass separator=';'       pass on_error="skip"
    a recipe has       data.encoding=cp1252        data.separator=';'       data.on_error=skip
    the prompt has     --encoding cp1252           --separator ';'          (nothing of the kind)
"""

import re
from dataclasses import dataclass
from typing import Literal

from regard.text import DataError
from regard.text.charsets import check_encoding, check_separator

Asked = Literal["recipe", "prompt"]
"""Who is told what to do: somebody who wrote a recipe, or who typed options."""

_ADVICE = re.compile(
    r"(?:pass|set) (?P<another>another )?(?:data\.)?(?P<name>encoding|separator|format|on_error|names)\b"
    r"=?(?:'(?P<one>[^']*)'|\"(?P<two>[^\"]*)\"|(?P<bare>[\w.-]*\w))?"
    r"|leave such lines out with data\.(?P<skip>on_error)=skip"
)
_OPTIONS = ("encoding", "separator", "format")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFilesConfig:
    encoding: str = "utf-8"
    """Of all the files, as Python calls it: utf-8, cp1252, utf-16, ... A byte order mark is not text."""
    separator: str | None = None
    """Between the cells of a table, where it is no tab (TSV) or comma (CSV); "\\t" is a tab."""

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        object.__setattr__(self, "separator", check_separator(self.separator))


def advised(remedy: str, asked: Asked) -> str:
    """What a reader advises, or what a recipe was told, as it can be done by who asked."""

    def said(match: re.Match[str]) -> str:
        name, another = match["name"] or match["skip"], match["another"] or ""
        value = match["one"] or match["two"] or match["bare"]
        if name == "on_error":
            return "leave such lines out with data.on_error=skip" if asked == "recipe" else ""
        if asked == "recipe":
            return f"set {another}data.{name}{f'={_quoted(value)}' if value else ''}"
        if name not in _OPTIONS:
            return match[0]
        return f"give {another}--{name}{f' {_quoted(value)}' if value else ''}"

    told = _ADVICE.sub(said, remedy)
    told = re.sub(r"(?:, (fix the file))?,? or $", lambda end: f", or {end[1]}" if end[1] else "", told)
    return told.replace("fix the file or leave", "fix the file, or leave").strip(" ;,")


def _quoted(value: str) -> str:
    """As it can be typed."""
    return value if re.fullmatch(r"[\w.-]+", value) else f"'{value}'"


def told(error: DataError, asked: Asked) -> DataError:
    """The same error, with what can be done about it by who asked."""
    return DataError(error.origin, error.reason, error.particulars, advised(error.remedy, asked))
