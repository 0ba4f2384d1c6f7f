"""Masks, filled in: a text in parts that can be masked, and candidates for each of its masks."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Literal

from regard.look.explorer.explorer import Answer, Call, Explorer, check_text
from regard.tasks.pretraining.filler import MASK, Candidate, Filler
from regard.text import Tokenizer

TOP = 10
"""Candidates that the page asks for."""
MASKED = 40
"""A saved page can hide each word of a text of so many."""

Part = tuple[str, Literal["word", "mask", "gap"]]


def fill(explorer: Explorer, *, text: str, top: int = TOP) -> Answer:
    """The parts of a text, which make it up when they are joined; for each mask among them the likeliest
    words; and the text with the first of these put in. A text without masks is in parts only. [MASK] stands
    for the mask, however the tokenizer spells it."""
    task: Filler = explorer.require("fill", "fills no masks in: look at a masked language model")
    check_text(text)
    mask = str(explorer.tokenizer.specials.mask)
    own = text.replace(MASK, mask)
    found = parts(explorer.tokenizer, own)
    plain = [[part.replace(mask, MASK), kind] for part, kind in found]
    answer: Answer = {"parts": plain, "masks": [], "filled": text}
    if any(kind == "mask" for _, kind in found):
        filled = task.fill(text, top=min(top, int(task.words.sum())))
        answer["filled"] = filled.text
        ends = accumulate(len(part) for part, _ in found)
        masks = [end - len(part) for (part, kind), end in zip(found, ends, strict=True) if kind == "mask"]
        answer["masks"] = [
            [_plain(each, own, start, mask) for each in every]
            for start, every in zip(masks, filled.candidates, strict=True)
        ]
    return answer


def _plain(candidate: Candidate, text: str, start: int, mask: str) -> Answer:
    """`joins`: it goes on where the word before the mask ends."""
    apart = start == 0 or not text[start - 1].isspace() or candidate.text[start - 1].isspace()
    return {
        "word": candidate.word,
        "joins": not apart,
        "share": candidate.probability,
        "text": candidate.text.replace(mask, MASK),
    }


def parts(tokenizer: Tokenizer, text: str) -> list[Part]:
    """A text, cut into words, masks and what is between."""
    encoding = tokenizer.encode(text, specials_in_text=True)
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for place, (id, word, (start, end)) in enumerate(
        zip(encoding.ids, encoding.words, encoding.offsets, strict=True)
    ):
        if id == tokenizer.ids.mask:
            spans["mask", place] = (start, end)
        elif word is not None:
            first, last = spans.get(("word", word), (start, end))
            spans["word", word] = (min(first, start), max(last, end))
    found: list[Part] = []
    done = 0
    for (kind, _), (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        own = text[start:end].strip()
        start = text.find(own, start)
        if start < done or not own:
            continue
        if start > done:
            found.append((text[done:start], "gap"))
        found.append((own, "mask" if kind == "mask" else "word"))
        done = start + len(own)
    if done < len(text):
        found.append((text[done:], "gap"))
    return found


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Call]:
    """What the page may ask about one text: as it is, and with each of its words masked."""
    if "fill" not in explorer.views:
        return
    yield "fill", {"text": text, "top": TOP}
    found = explorer.ask("fill", {"text": text, "top": TOP})["parts"]
    words = [place for place, (_, kind) in enumerate(found) if kind == "word"]
    for hidden in words[:MASKED]:
        masked = "".join(MASK if place == hidden else part for place, (part, _) in enumerate(found))
        yield "fill", {"text": masked, "top": TOP}


QUESTIONS = {"fill": fill}
