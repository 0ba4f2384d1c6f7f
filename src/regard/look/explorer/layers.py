"""What each layer would predict at each position: its states, taken as if they were the last.

    next, masked          softmax(Head(norm(x))) of each layer's x: the logit lens     nostalgebraist 2020
    tags, label, several, number            the same, by the head of a tagger or of a classifier
    nearest               where no head scores tokens: those whose input embeddings have the largest
                          cosine with x

Positions come in pages: a whole vocabulary is scored for each of them, in every layer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.look.explorer.explorer import Answer, Call, Explorer, Refused, floats
from regard.look.explorer.reading import sides
from regard.look.kept import wide
from regard.look.parts import Side, model_of
from regard.look.passes import Run
from regard.look.texts import TracedText
from regard.models.heads import ClassifyHead, TagHead
from regard.nn.stacks import Stack
from regard.tasks.classification.data import Problem

PAGE = 40
"""Positions of an answer."""
LISTED = 5
"""Candidates of each position and layer."""
LABELS = 10
"""Of a classifier, which has one position."""

How = Literal["next", "masked", "nearest", "tags", "label", "several", "number"]


@dataclass(frozen=True, slots=True)
class Lens:
    how: How
    score: Callable[[Tensor, Run], Tensor]
    """From states to shares of the choices: probabilities, cosines, or a number."""
    name: Callable[[int], str]
    listed: int


def layers(
    explorer: Explorer,
    *,
    text: str,
    second: str | None = None,
    to: str | None = None,
    side: Side | None = None,
    start: int = 0,
) -> Answer:
    """The likeliest at each of some positions, in every layer, the embedding first. Where there is a right
    answer (the token that follows, or the token itself), its share and its rank, which counts from 1."""
    traced = explorer.traced(text, second, to)
    able = sorted(explorer.parts.sides)  # what the model predicts first
    side = able[0] if side is None else side
    if side not in able:
        raise Refused(f"there is no {side} in this model, only: {', '.join(able)}")
    lens, run = lens_of(explorer, side), traced.trace.shown.runs[side]
    one = lens.how in ("label", "several", "number")
    tokens = sides(traced)[side]
    count = 1 if one else len(tokens)
    if not 0 <= start < count:
        raise Refused(f"start={start}, where positions go from 0 to {count - 1}")
    stop = min(start + PAGE, count)
    with explorer.task.ready():
        every = [lens.score(x if one else x[start:stop], run) for x in states(run)]
    shares = torch.stack(every)  # [layers, positions, choices]
    best = shares.topk(min(lens.listed, shares.shape[-1]), dim=-1)
    known = [*dict.fromkeys(best.indices.flatten().tolist())]
    numbers = {choice: number for number, choice in enumerate(known)}
    rights: list[int | None] = [None] if one else right_ids(explorer, traced, side, lens.how)[start:stop]
    return {
        "how": lens.how,
        "side": side,
        "sides": able,
        "start": start,
        "page": PAGE,
        "count": count,
        "tokens": [""] if one else list(tokens.tokens[start:stop]),
        "special": [True] if one else [owner is None for owner in tokens.owners[start:stop]],
        "names": [lens.name(choice) for choice in known],
        "best": [[[numbers[c] for c in place] for place in layer] for layer in best.indices.tolist()],
        "shares": floats(best.values),
        "rights": [None if right is None else lens.name(right) for right in rights],
        **_right_shares(shares, rights),
    }


def lens_of(explorer: Explorer, side: Side) -> Lens:
    task, parts = explorer.task, explorer.parts
    model, token = model_of(task), lambda id: token_name(explorer, id)
    if parts.decoder is not None and side == "decoder":
        return Lens("next", _softmax(explorer, side, parts.decoder.head), token, LISTED)
    if parts.masked is not None:
        return Lens("masked", _softmax(explorer, side, parts.masked), token, LISTED)
    head, labels = getattr(model, "head", None), task.about().get("labels", [])
    if isinstance(head, TagHead) and not labels:
        raise Refused(
            "this tagger gives words numbers: there is no choice of tags to follow through its layers"
        )
    if isinstance(head, TagHead):
        return Lens("tags", _softmax(explorer, side, head), lambda tag: labels[tag], LISTED)
    if isinstance(head, ClassifyHead):
        return _classify_lens(explorer, head, labels, task.about().get("problem", "single"))
    embeddings = parts.sides[side].embedding.tokens.weight.detach()
    directions = F.normalize(wide(embeddings), dim=-1)
    known = torch.zeros(len(directions), dtype=torch.bool)
    known[[id for id in explorer.tokenizer.vocabulary.values() if id < len(known)]] = True
    absent = ~known.to(directions.device)

    def cosines(x: Tensor, run: Run) -> Tensor:
        return (F.normalize(wide(x), dim=-1) @ directions.T).masked_fill(absent, -1.0)

    return Lens("nearest", cosines, token, LISTED)


def _classify_lens(explorer: Explorer, head: ClassifyHead, labels: list[str], problem: Problem) -> Lens:
    normed = _norm(explorer, "encoder")
    hows: dict[str, How] = {"single": "label", "multi": "several", "number": "number"}

    def score(x: Tensor, run: Run) -> Tensor:
        scores = wide(head(normed(x), run.layout))
        if problem == "number":
            return scores
        return scores.softmax(dim=-1) if problem == "single" else scores.sigmoid()

    name = (lambda _: "") if problem == "number" else (lambda number: labels[number])
    return Lens(hows[problem], score, name, LABELS)


def _softmax(explorer: Explorer, side: Side, head: torch.nn.Module) -> Callable[[Tensor, Run], Tensor]:
    normed = _norm(explorer, side)
    return lambda x, run: wide(head(normed(x))).softmax(dim=-1)


def _norm(explorer: Explorer, side: Side) -> Callable[[Tensor], Tensor]:
    """A stream as the head wants it: through the final norm, if there is one, as wide as the weights."""
    body = explorer.parts.sides[side].body
    norm = body.final_norm if isinstance(body, Stack) else None
    kind = next(body.parameters()).dtype
    return lambda x: x.to(kind) if norm is None else norm(x.to(kind))


def states(run: Run) -> list[Tensor]:
    """The stream after the embedding and after each layer, [tokens, d_model]."""
    return [cast(Tensor, run.inputs), *(run.stream[layer] for layer in sorted(run.stream))]


def right_ids(explorer: Explorer, traced: TracedText, side: Side, how: How) -> list[int | None]:
    """What should come of each position, where anybody knows: of a decoder, the token that follows; else the
    token itself, but for a mask."""
    ids: list[int | None] = [*traced.trace.ids(side)]
    match how:
        case "next":
            last = None if explorer.parts.encoder is None else explorer.tokenizer.require("end")
            return [*ids[1:], last]
        case "masked" | "nearest":
            mask = explorer.tokenizer.ids.mask
            return [None if id == mask else id for id in ids]
    return [None] * len(ids)


def _right_shares(shares: Tensor, rights: list[int | None]) -> Answer:
    """[layers, positions] of the right ones; rank 0 where nobody knows."""
    given = torch.tensor([0 if right is None else right for right in rights], device=shares.device)
    own = shares.gather(2, given.expand(len(shares), -1).unsqueeze(2))
    ranks = 1 + (shares > own).sum(dim=2)
    unknown = torch.tensor([right is None for right in rights], device=shares.device)
    return {
        "right_shares": floats(own.squeeze(2).masked_fill(unknown, 0.0)),
        "ranks": ranks.masked_fill(unknown, 0).tolist(),
    }


def token_name(explorer: Explorer, id: int) -> str:
    """As the vocabulary spells it; a row of the matrix that stands for no token has a number."""
    try:
        return explorer.tokenizer.token(id)
    except KeyError:
        return f"#{id}"


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Call]:
    """What the page may ask about one text."""
    for side in sorted(explorer.parts.sides):
        given = {"text": text, "second": second, "to": to, "side": side, "start": 0}
        count = explorer.ask("layers", given)["count"]
        for start in range(0, count, PAGE):
            yield "layers", {**given, "start": start}


QUESTIONS = {"layers": layers}
