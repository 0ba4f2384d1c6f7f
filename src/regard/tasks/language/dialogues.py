"""Dialogues to learn from: lines of JSON with messages, as the model's own template writes them.

    text       <|im_start|>user\\nHello<|im_end|>\\n<|im_start|>assistant\\nGood day.<|im_end|>\\n
    learned                                                             ===================

Only what the assistant says is learned, and the token that ends it; or what the template itself marks, by
`{% generation %}`. A dialogue is a document of the stream: its tokens see no other. A line is
{"messages": [...]}, or a pair of an instruction and its answer.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import to_dict
from regard.data import Store, fingerprint, id_type, open_or_build
from regard.tasks.base.documents import DocumentCorpus
from regard.tasks.base.files import told
from regard.tasks.base.splits import Split
from regard.tasks.language.dialogue import Message, check_messages, render, render_marked
from regard.tasks.language.template_bounds import ChatError
from regard.text import DataError, Origin, Tokenizer
from regard.text.conventions import Conventions

PAIRS = (("instruction", "output"), ("prompt", "completion"), ("question", "answer"))
"""Names of an instruction and its answer."""
BORDER = 2
"""Tokens that may differ where an answer begins: its first letters may make one with what is before it."""
Example = tuple[list[int], list[int]]
"""Ids, and 1 for each that is learned."""


def build_dialogues(
    corpus: DocumentCorpus, split: Split, tokenizer: Tokenizer, conventions: Conventions, folder: Path
) -> Store:
    """As `build_stream`, with one more number for each token: whether it is learned. A row is an example; one
    without tokens stands for a dialogue that was left out."""
    config = corpus.config
    paths = corpus.paths("train" if split == "valid" and not config.valid else split)
    settings = json.dumps([{**to_dict(config), "root": ""}, conventions.to_dict()])
    wanted = fingerprint(paths, tokenizer.fingerprint(), split, settings, "dialogues 2")

    def rows() -> Iterator[dict[str, Any]]:
        document = 0
        for number, passage in enumerate(corpus.passages(split)):
            [line] = passage.lines
            examples: list[Example] = [([], [])]
            try:
                examples = encoded(messages_of(line), tokenizer, conventions)
            except ChatError as error:
                if config.on_error == "raise":
                    origin = passage.origin or Origin(str(paths[0]))
                    raise told(DataError(origin, "no dialogue", f"({error})"), "recipe") from error
            for place, (ids, learned) in enumerate(examples):
                yield {
                    "ids": ids,
                    "learned": learned,
                    "document": document,
                    "dialogue": number,
                    "bytes": 0 if place else len(line.encode()),
                    "words": 0 if place else len(line.split()),
                }
                document += 1

    number = np.dtype(np.int64)
    columns = {"ids": id_type(len(tokenizer)), "learned": np.dtype(np.uint8)}
    columns |= {"document": number, "dialogue": number, "bytes": number, "words": number}
    store = open_or_build(folder, wanted, columns, rows)
    if not np.asarray(store["learned"].values).any():
        raise DataError(
            Origin(str(paths[0])), f"no dialogues for {split}", remedy="name files that have some"
        )
    return store


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a store of dialogues."""

    dialogues: int
    examples: int
    refused: int
    """Dialogues that the chat template takes no example from, and that are left out."""

    @classmethod
    def of(cls, store: Store) -> "Counts":
        kept = store["ids"].lengths > 0
        dialogues = np.unique(np.asarray(store["dialogue"].values)[kept])
        return cls(len(dialogues), int(kept.sum()), int((~kept).sum()))


def check_dialogue(line: str) -> None:
    """That a line is a dialogue with an answer, whatever a template makes of it."""
    _check_answers(messages_of(line))


def messages_of(line: str) -> list[dict[str, Any]]:
    """Of one line of JSON."""
    try:
        table = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ChatError(f"no JSON ({error}); a line is a dialogue") from error
    if isinstance(table, list):
        return check_messages(table)
    if not isinstance(table, Mapping):
        raise ChatError('no table: a line is {"messages": [{"role": ..., "content": ...}, ...]}')
    if "messages" in table:
        return check_messages(table["messages"])
    for asked, answered in PAIRS:
        if isinstance(table.get(asked), str) and isinstance(table.get(answered), str):
            more = table.get("input") if asked == "instruction" else ""
            said = f"{table[asked]}\n{more}" if isinstance(more, str) and more else table[asked]
            before = [{"role": "system", "content": table["system"]}] if table.get("system") else []
            answer = {"role": "assistant", "content": table[answered]}
            return check_messages([*before, {"role": "user", "content": said}, answer])
    known = ", ".join(f"{asked} and {answered}" for asked, answered in PAIRS)
    raise ChatError(f"neither messages nor {known}: its keys are {', '.join(map(str, table))[:80]}")


def encoded(messages: Sequence[Message], tokenizer: Tokenizer, conventions: Conventions) -> list[Example]:
    """What is learned of a dialogue: one example or, where the template writes an answer otherwise when more
    follows (Qwen3 leaves out what was thought), one for each answer, as the model will be asked for it."""
    _check_answers(messages)
    template = conventions.chat_template
    ids, marked = render_marked(template, tokenizer, messages)
    if marked is not None:
        if not any(marked):
            raise ChatError("the chat template marks no answer, so there is nothing to learn")
        return [(ids, marked)]
    ends = {tokenizer.ids.end, *conventions.ends}
    learned, apart, whole = [0] * len(ids), list[Example](), True
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = render(template, tokenizer, messages[:number]).ids
        after = render(template, tokenizer, messages[: number + 1], answer=False).ids
        begin = _begin(before, after)
        end = next((at for at in range(begin, len(after)) if after[at] in ends), len(after) - 1)
        apart.append((after, [int(begin <= at <= end) for at in range(len(after))]))
        learned[begin : end + 1] = [1] * (end + 1 - begin)
        whole = whole and ids[: len(after) - 1] == after[:-1]
    return [(ids, learned)] if whole else apart


def _begin(before: Sequence[int], ids: Sequence[int]) -> int:
    """Where an answer begins in what has it, by what is written before it."""
    found = next((at for at, id in enumerate(before) if at >= len(ids) or ids[at] != id), len(before))
    if len(before) - found > BORDER:
        raise ChatError(
            "the chat template writes what is before an answer otherwise when the answer is there, so nobody "
            "can tell which tokens are the answer's"
        )
    return found


def _check_answers(messages: Sequence[Message]) -> None:
    answers = [number for number, each in enumerate(messages) if each["role"] == "assistant"]
    if not answers:
        raise ChatError("no message of the assistant, so there is nothing to learn")
    if answers[0] == 0:
        raise ChatError("the assistant speaks first, to nobody: let a user begin")
