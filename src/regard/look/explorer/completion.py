"""A text, continued token by token: how likely each one was, what else was, and what may come next.

What was written goes along as ids: its text need not be split into the same tokens again. What is shown are
the model's own probabilities, whatever the temperature of a sample.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from regard.data.packing import pack
from regard.decode import DecodeConfig
from regard.look.explorer.explorer import TOKENS, Answer, Call, Explorer, Refused, check_text, floats
from regard.look.explorer.layers import token_name
from regard.look.kept import wide
from regard.tasks.language.continuation import BROKEN, spelled
from regard.tasks.language.generator import Generator

LISTED = 10
"""Candidates of each place."""
MOST = 200
"""Tokens that are written at once."""
STEP = 20
"""As many as the page writes at first."""
ROWS = 64
"""Positions whose vocabularies are scored at once."""


def complete(
    explorer: Explorer,
    *,
    text: str,
    kept: int | None = None,
    ids: list[int] | None = None,
    count: int = 0,
    method: Literal["greedy", "sample"] = "greedy",
    temperature: float = 1.0,
    top_p: float = 1.0,
    seed: int = 0,
) -> Answer:
    """The tokens of a text (of which `kept` are kept), those behind it (`ids`), and `count` new ones, fewer
    where the model ends the text or its context is full. For each its probability and its rank, and what was
    likely in its place; last, what may come next."""
    task: Generator = explorer.require("continue", "does not complete a text: look at a language model")
    check_text(text)
    ids = ids or []
    prompt = _prompt(explorer, task, text, kept)
    closed = {*task.never_written, explorer.tokenizer.ids.end}
    for id in ids:
        if not 0 <= id < task.model.config.vocabulary or id in closed:
            raise Refused(f"id {id} cannot be written: it stands for no text")
    before, most = [*prompt, *ids], min(task.longest or TOKENS, TOKENS)
    room = most - len(before)
    if not 0 <= count <= MOST:
        raise Refused(f"count={count}: at most {MOST} tokens are written at once")
    if room < 0 or (count > 0 and room < 1):
        raise Refused(f"the context is full: {len(before):,} tokens, and {most:,} are read here")
    new: list[int] = []
    if count:
        decoding = DecodeConfig(method=method, temperature=temperature, top_p=top_p, seed=seed)
        [new] = task.generate_ids(
            [before],
            end=explorer.tokenizer.ids.end,
            decoding=decoding if method == "sample" else DecodeConfig(method="greedy"),
            max_tokens=min(count, room),
            suppressed=task.never_written,
            keys=[len(before)],  # going on twice is another draw than the first time
        )
    written = [*ids, *new]
    likely = _likely(explorer, task, [*prompt, *written])
    began = text if kept is None else explorer.tokenizer.decode(prompt)
    return {
        "prompt": len(prompt),
        "front": len(prompt) - len(_text_ids(explorer, text, kept)),
        "written": written,
        "text": began + spelled(explorer.tokenizer, prompt, written),
        "new": len(new),
        "ended": len(new) < min(count, room),
        "room": room - len(new),
        **likely,
        "closed": [id in closed for id in likely["ids"]],
    }


def _text_ids(explorer: Explorer, text: str, kept: int | None) -> list[int]:
    ids = [*explorer.tokenizer.encode(text).ids]
    if kept is not None and not 0 <= kept <= len(ids):
        raise Refused(f"kept={kept} of a text of {len(ids)} tokens")
    return ids[:kept]


def _prompt(explorer: Explorer, task: Generator, text: str, kept: int | None) -> list[int]:
    """As the generator reads it."""
    own, start = _text_ids(explorer, text, kept), explorer.tokenizer.ids.start
    found = [start, *own] if start is not None and (task.begins or not own) else own
    if not found:
        raise Refused("nothing is left to go on from, and this model has no start token: keep a word")
    return found


def _likely(explorer: Explorer, task: Generator, every: list[int]) -> Answer:
    """Row i of the candidates is for place i, which the tokens before it led to; nothing led to the first."""
    packed = pack([every]).to(task.device)
    vocabulary = task.model.config.vocabulary
    listed = min(LISTED, vocabulary)
    best, shares = [torch.zeros(1, listed, dtype=torch.long)], [torch.zeros(1, listed)]
    own, ranks = [torch.zeros(1)], [torch.zeros(1, dtype=torch.long)]
    with task.ready():
        states = task.model(packed.ids, packed.layout)
        for start in range(0, len(every), ROWS):
            chances = wide(task.model.head(states[start : start + ROWS])).softmax(dim=-1).cpu()
            top = chances.topk(listed, dim=-1)
            best.append(top.indices)
            shares.append(top.values)
            came = torch.tensor(every[start + 1 : start + ROWS + 1], dtype=torch.long)
            share = chances[: len(came)].gather(1, came.unsqueeze(1))
            own.append(share.squeeze(1))
            ranks.append(1 + (chances[: len(came)] > share).sum(dim=1))
    rows: Tensor = torch.cat(best)
    known = sorted({*every, *rows.flatten().tolist()})
    numbers = {id: number for number, id in enumerate(known)}
    return {
        "tokens": [numbers[id] for id in every],
        "chances": floats(torch.cat(own)),
        "ranks": torch.cat(ranks).tolist(),
        "likely": [[numbers[id] for id in row] for row in rows.tolist()],
        "shares": floats(torch.cat(shares)),
        "names": pieces(explorer, known),
        "ids": known,
    }


def pieces(explorer: Explorer, ids: Sequence[int]) -> list[str]:
    """Tokens as they read behind another: with a space in front, if they begin a word. Special ones, and
    parts of characters, as the vocabulary spells them."""
    tokenizer = explorer.tokenizer
    known = {*tokenizer.vocabulary.values()}
    real = [id for id in ids if id in known]
    once, twice = (tokenizer.decode_batch([[id] * times for id in real]) for times in (1, 2))
    read = {id: both[len(one) :] for id, one, both in zip(real, once, twice, strict=True)}
    return [token_name(explorer, id) if not read.get(id) or BROKEN in read[id] else read[id] for id in ids]


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Call]:
    """What the page may ask about one text: as it is, and how it goes on."""
    if "continue" not in explorer.views:
        return
    yield "complete", {"text": text, "ids": []}
    if explorer.ask("complete", {"text": text, "ids": []})["room"] > 0:
        yield "complete", {"text": text, "ids": [], "count": STEP, "method": "greedy"}


QUESTIONS = {"complete": complete}
