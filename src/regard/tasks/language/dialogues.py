"""Dialogues to learn from: lines of JSON with messages, as the model's own template writes them.

    text       <|im_start|>user\\nHello<|im_end|>\\n<|im_start|>assistant\\nGood day.<|im_end|>\\n
    learned                                                             ===================

Only what the assistant says is learned, and the token that ends it. A dialogue is a document of the stream:
its tokens see no other. A line is {"messages": [...]}, or a pair of an instruction and its answer.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import to_dict
from regard.data import Store, fingerprint, id_type, open_or_build
from regard.tasks.base.documents import DocumentCorpus
from regard.tasks.base.splits import Split
from regard.tasks.language.dialogue import Message, check_messages, render
from regard.tasks.language.templates import ChatError
from regard.text import DataError, Origin, Tokenizer
from regard.text.conventions import Conventions

PAIRS = (("instruction", "output"), ("prompt", "completion"), ("question", "answer"))
"""Names of an instruction and its answer."""
BORDER = 2
"""Tokens that may differ where an answer begins: its first letters may make one with what is before it."""


def build_dialogues(
    corpus: DocumentCorpus, split: Split, tokenizer: Tokenizer, conventions: Conventions, folder: Path
) -> Store:
    """As `build_stream`, with one more number for each token: whether it is learned."""
    config = corpus.config
    paths = corpus.paths("train" if split == "valid" and not config.valid else split)
    settings = json.dumps([{**to_dict(config), "root": ""}, conventions.to_dict()])
    wanted = fingerprint(paths, tokenizer.fingerprint(), split, settings, "dialogues 1")

    def rows() -> Iterator[dict[str, Any]]:
        for number, passage in enumerate(corpus.passages(split)):
            line = "\n".join(passage.lines)
            try:
                ids, learned = encoded(messages_of(line), tokenizer, conventions)
            except ChatError as error:
                where = f"dialogue {number + 1} of {split}, {line!r:.60}"
                raise DataError(Origin(str(paths[0])), f"{where}: {error}") from error
            text = len(line.encode())
            yield {
                "ids": ids,
                "learned": learned,
                "document": number,
                "bytes": text,
                "words": len(line.split()),
            }

    number = np.dtype(np.int64)
    columns = {"ids": id_type(len(tokenizer)), "learned": np.dtype(np.uint8)}
    columns |= {"document": number, "bytes": number, "words": number}
    store = open_or_build(folder, wanted, columns, rows)
    if not np.asarray(store["learned"].values).any():
        raise DataError(
            Origin(str(paths[0])), f"no dialogues for {split}", remedy="name files that have some"
        )
    return store


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


def encoded(
    messages: Sequence[Message], tokenizer: Tokenizer, conventions: Conventions
) -> tuple[list[int], list[int]]:
    """The ids of a dialogue, and 1 for each that is learned."""
    template = conventions.chat_template
    ids = render(template, tokenizer, messages, answer=False).ids
    learned = [0] * len(ids)
    ends = {tokenizer.ids.end, *conventions.ends}
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        if number == 0:
            raise ChatError("the assistant speaks first, to nobody: let a user begin")
        before = render(template, tokenizer, messages[:number]).ids
        after = render(template, tokenizer, messages[: number + 1], answer=False).ids
        begin = next((at for at, id in enumerate(before) if at >= len(ids) or ids[at] != id), len(before))
        if len(before) - begin > BORDER or ids[: len(after) - 1] != after[:-1]:
            raise ChatError(
                "the chat template writes earlier messages otherwise when others follow, so nobody can tell "
                "which tokens are an answer's: give dialogues of one answer"
            )
        end = next((at for at in range(begin, len(after)) if ids[at] in ends), len(after) - 1)
        learned[begin : end + 1] = [1] * (end + 1 - begin)
    if not any(learned):
        raise ChatError("no message of the assistant, so there is nothing to learn")
    return ids, learned
