"""Translating on the page: a sentence, its alignment, the beam as a tree, and other ways to go on.

A beginning can be forced, in tokens, and what follows is searched for anew. Scores are those of the whole
translation all the same, the forced tokens among them, so that they compare.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.packing import pack
from regard.decode import Hypothesis
from regard.decode.beam import BeamStep, watched
from regard.look.explorer.explorer import Answer, Call, Explorer, Refused, check_text, shares
from regard.look.words import Tokens, merge_words
from regard.tasks.translation.alignment import check_attention
from regard.tasks.translation.pieces import Piece, number_sources, own_weights
from regard.tasks.translation.translator import Translator
from regard.text import Tokenizer

WIDEST = 8
"""The widest beam that the page follows."""
OTHERS = 5
"""Other ways that are given for a word. More first tokens are tried, since some come to the same."""


def translate(
    explorer: Explorer,
    *,
    text: str,
    to: str | None = None,
    beam: int | None = None,
    prefix: list[int] | None = None,
) -> Answer:
    """The translation that a beam search finds, its words with what they were read from, the runners-up, and
    the search as a tree. `prefix` is what it must begin with, in ids; unless a beam is given, it is the
    translator's own."""
    asked = Search.of(explorer, text, to, beam, prefix)
    with watched() as searches:
        [hypotheses] = asked.search([asked.piece.prefix])
    tokenizer, ids, forced = asked.translator.tokenizer, hypotheses[0].ids, len(asked.piece.prefix)
    writes = tokenizer.target
    each_step = asked.scores(ids)[range(len(ids)), [*ids]].tolist()
    before = math.fsum(each_step[:forced])
    read = Words.of(Tokens.of(tokenizer.encode(asked.piece.source), asked.piece.source), asked.piece.source)
    written = Words.written(writes, ids)
    known = [id != tokenizer.ids.unknown for id in tokenizer.encode(asked.piece.source).ids]
    best = [
        {
            "text": writes.decode(each.ids).strip(),
            "score": before + each.score,
            "ranking": each.ranking,
            "finished": each.finished,
        }
        for each in hypotheses
    ]
    return {
        "beam": asked.beam,
        "forced": forced,
        "best": best,
        "source": read.plain(lambda places: {"known": all(known[place] for place in places)}),
        "target": written.plain(
            lambda places: {
                "probability": math.exp(math.fsum(each_step[place] for place in places)),
                "chosen": forced - 1 in places,
            }
        ),
        "alignment": asked.alignment(ids, written, read),
        "tree": tree(writes, hypotheses, searches[0], each_step[:forced]),
    }


def alternatives(
    explorer: Explorer,
    *,
    text: str,
    to: str | None = None,
    beam: int | None = None,
    prefix: list[int] | None = None,
    word: int,
) -> Answer:
    """Other ways to begin a word of the translation, given what stands before it: how likely each first
    token is, and what the whole becomes with it. `translate` takes the `prefix` of each."""
    asked = Search.of(explorer, text, to, beam, prefix)
    [[hypothesis, *_]] = asked.search([asked.piece.prefix])
    tokenizer, ids = asked.translator.tokenizer.target, hypothesis.ids
    words = Words.written(tokenizer, ids).each
    if not 0 <= word < len(words):
        raise Refused(f"word={word}: the translation has {len(words)} words, counted from 0")
    place = words[word].places[0]
    likely = asked.scores(ids)[place]
    chosen = float(likely[ids[place]])
    likely[[*asked.translator.never_written, tokenizer.require("end"), ids[place]]] = -math.inf
    values, tried = (each.tolist() for each in likely.topk(min(2 * OTHERS, len(likely))))
    begun = [[*ids[:place], id] for value, id in zip(values, tried, strict=True) if value > -math.inf]
    others: list[Answer] = []
    texts = {tokenizer.decode(ids).strip()}
    for beginning, [found, *_] in zip(begun, asked.search(begun), strict=True):
        whole = Words.written(tokenizer, found.ids)
        own = whole.holding(place)
        if whole.text in texts or own is None or len(others) == OTHERS:
            continue
        texts.add(whole.text)
        chance = math.exp(float(likely[beginning[-1]]))
        more = {"probability": chance, "finished": found.finished, "prefix": beginning}
        others.append({**whole.around(own), **more})
    return {"word": words[word].name, "probability": math.exp(chosen), "others": others}


@dataclass(frozen=True, slots=True)
class Search:
    """A text as the translator takes it, and how it is searched."""

    translator: Translator
    piece: Piece
    """With the forced beginning."""
    beam: int

    @classmethod
    def of(
        cls, explorer: Explorer, text: str, to: str | None, beam: int | None, prefix: Sequence[int] | None
    ) -> "Search":
        translator: Translator = explorer.require("translate", "does not translate: look at a translator")
        check_text(text)
        wide = min(translator.decoding.beam, WIDEST) if beam is None else beam
        if not 1 <= wide <= WIDEST:
            raise Refused(f"beam={beam}: choose from 1 to {WIDEST}")
        languages = translator.languages_of(to, 1)
        [ids] = translator.encode([text.strip()], languages)
        if len(ids) > translator.longest:
            raise Refused(
                f"the text has {len(ids):,} tokens with its marks, but the model was trained on "
                f"{translator.longest:,} at most: translate it sentence by sentence"
            )
        sources = number_sources([text], languages, [""], None, 1)
        pieces = translator.plan(sources, translator.options(too_long="error", split="never"))
        if not pieces:
            raise Refused("the model's tokenizer finds nothing to read in this text")
        forced = [*(prefix or ())]
        allowed = set(translator.tokenizer.target.vocabulary.values()) - {
            *translator.never_written,
            translator.end,
        }
        if unknown := [id for id in forced if id not in allowed]:
            raise Refused(f"prefix has {unknown[0]}, which is no token that is written")
        return cls(translator, replace(pieces[0], prefix=forced), wide)

    def search(self, prefixes: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        """As the translator decodes, but by a beam, with all that it finds."""
        translator = self.translator
        decoding = replace(translator.decoding, method="beam", beam=self.beam, n_best=self.beam)
        options = translator.options(decoding, too_long="error")
        pieces = [translator.limited(replace(self.piece, prefix=[*each]), decoding) for each in prefixes]
        most = translator.limited(replace(self.piece, prefix=[]), decoding).maximum
        if any(len(piece.prefix) >= most for piece in pieces):
            raise Refused(f"the translation may have {most} tokens, and all of them are given already")
        with translator.ready():
            return [found.hypotheses for found in translator.decode(pieces, options)]

    def scores(self, ids: Sequence[int]) -> Tensor:
        """[tokens + 1, vocabulary]: the log-probabilities at each token of a translation, and of its end."""
        translator = self.translator
        source = pack([self.piece.ids]).to(translator.device)
        target = pack([[translator.start, *self.piece.mark, *ids]]).to(translator.device)
        with translator.ready():
            states = translator.model(source.ids, source.layout, target.ids, target.layout)
            states = states[len(self.piece.mark) :]
            return translator.model.decoder.head(states).double().log_softmax(dim=1).cpu()

    def alignment(self, ids: Sequence[int], written: "Words", read: "Words") -> str | None:
        """[target words, source words], rows summing to 1; None for a model that does not look at its source
        while it writes."""
        try:
            check_attention(self.translator.model)
        except ValueError:
            return None
        if not (written.each and read.each):
            return shares(torch.zeros(0))
        with self.translator.ready():
            [weights] = self.translator.attention([self.piece.ids], [[*ids]], marks=[self.piece.mark])
        weights = own_weights(self.piece, weights)
        found = merge_words(torch.from_numpy(weights), written.tokens, read.tokens, specials="spread")
        return shares(found.weights)


@dataclass(frozen=True, slots=True)
class Word:
    gap: str
    """What stands between the word before and this one."""
    name: str
    places: tuple[int, ...]
    """Of its tokens."""


@dataclass(frozen=True, slots=True)
class Words:
    """A text in words that have tokens; with the gaps, nothing of it is lost."""

    tokens: Tokens
    each: tuple[Word, ...]
    tail: str

    @classmethod
    def of(cls, tokens: Tokens, text: str) -> "Words":
        # White space can be a token, but is no word.
        owners = [None if owner is None or not tokens.words[owner] else owner for owner in tokens.owners]
        tokens = replace(tokens, owners=tuple(owners))
        text, end, found = text.strip(), 0, []
        for name, places in tokens.units("drop"):
            start = max(text.find(name, end), end)
            found.append(Word(text[end:start], name, tuple(places)))
            end = start + len(name)
        return cls(tokens, tuple(found), text[end:])

    @classmethod
    def written(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> "Words":
        """Of what a model wrote."""
        return cls.of(Tokens.written(tokenizer, ids), tokenizer.decode(ids))

    @property
    def text(self) -> str:
        return "".join(each.gap + each.name for each in self.each) + self.tail

    def holding(self, place: int) -> int | None:
        """The number of the word that a token is part of."""
        return next((number for number, each in enumerate(self.each) if place in each.places), None)

    def around(self, number: int) -> Answer:
        """What stands before a word, the word, and what comes after it."""
        before = "".join(each.gap + each.name for each in self.each[:number]) + self.each[number].gap
        name = self.each[number].name
        return {"before": before, "word": name, "after": self.text[len(before) + len(name) :]}

    def plain(self, more: Callable[[tuple[int, ...]], Answer]) -> Answer:
        """With what there is to say about the tokens of each."""
        words = [{"gap": each.gap, "word": each.name, **more(each.places)} for each in self.each]
        return {"words": words, "tail": self.tail}


def tree(
    tokenizer: Tokenizer, best: Sequence[Hypothesis], steps: Sequence[BeamStep], forced: Sequence[float]
) -> list[Answer]:
    """The hypotheses that the search followed or finished, as nodes behind their parents: first those of the
    forced beginning, with their scores, then step by step, the best of each step first.

    token    what it adds to the text; an end adds nothing
    step     its log-probability, and `total` that of all up to here
    place    for the last node of one of the `best`, which
    """
    nodes: list[Answer] = []
    paths: list[tuple[int, ...]] = []

    def add(path: tuple[int, ...], parent: int, total: float, end: bool, time: int) -> int:
        step = total - (nodes[parent]["total"] if parent >= 0 else 0.0)
        nodes.append({"parent": parent, "time": time, "step": step, "total": total, "end": end})
        paths.append(path)
        return len(nodes) - 1

    last = -1
    for time in range(len(forced)):
        last = add(best[0].ids[: time + 1], last, math.fsum(forced[: time + 1]), False, time)
    before, rows = math.fsum(forced), [last]
    for time, step in enumerate(steps, len(forced)):
        alive = []
        for place in (step.ended | step.alive)[0].nonzero()[:, 0].tolist():
            parent, end = rows[int(step.rows[0, place])], bool(step.ended[0, place])
            path = paths[parent] if parent >= 0 else ()
            path = path if end else (*path, int(step.tokens[0, place]))
            number = add(path, parent, before + float(step.scores[0, place]), end, time)
            if not end:
                alive.append(number)
        rows = alive
    _spell(tokenizer, nodes, paths)
    for place, hypothesis in enumerate(best):
        for node, path in zip(nodes, paths, strict=True):
            if path == hypothesis.ids and node["end"] == hypothesis.finished:
                node["place"] = place
    return nodes


def _spell(tokenizer: Tokenizer, nodes: Sequence[Answer], paths: Sequence[tuple[int, ...]]) -> None:
    texts = tokenizer.decode_batch(paths)
    for node, path, text in zip(nodes, paths, texts, strict=True):
        before = texts[node["parent"]] if node["parent"] >= 0 else ""
        added = text[len(before) :] if text.startswith(before) else tokenizer.token(path[-1])
        node["token"] = "" if node["end"] else added or tokenizer.token(path[-1])


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Call]:
    """What the page may ask about one text: its translation, and one other way at any of its words."""
    if "translate" not in explorer.views:
        return
    given = {"text": text, "to": to}
    yield "translate", given
    try:
        found = explorer.ask("translate", given)
    except Refused:  # too long to be translated at once, though it can be read
        return
    for word in range(len(found["target"]["words"])):
        yield "alternatives", {**given, "word": word}
        for other in explorer.ask("alternatives", {**given, "word": word})["others"]:
            yield "translate", {**given, "prefix": other["prefix"]}


QUESTIONS = {"translate": translate, "alternatives": alternatives}
