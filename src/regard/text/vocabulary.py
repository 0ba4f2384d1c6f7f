"""Another vocabulary for a tokenizer that is trained: pieces added for new text, pieces dropped that a text
never uses.

    extended   words that fall apart, and characters that are not known, get pieces of their own
    reduced    what the text does not use goes; the rest is numbered anew, in its order

Text that has none of the new pieces is cut as before: new merges of BPE come after all old ones. Of each new
piece it is said of which old ones it was made: a model's row for it is the mean of theirs.

A SentencePiece model has its pieces in a file that is left as it is. It takes no new ones; the vocabulary
beside it can lose some, which are unknown then.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from regard.text.sentencepieces import is_pieces
from regard.text.specials import BYTES
from regard.text.tokenizer import Tokenizer

Ids = tuple[int, ...]
CONTROLS = ("<s>", "<pad>", "</s>", "<unk>")
"""Of SentencePiece: M2M100 counts on their ids, whatever their roles."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """A tokenizer, and for each of its ids the ids of the one before that it stands for: one, or several that
    became one."""

    tokenizer: Tokenizer
    made_of: tuple[Ids, ...]

    @property
    def were_unknown(self) -> list[int]:
        """Ids of new pieces that were not known before, as a whole or in part."""
        own = self.tokenizer.ids.unknown
        if own is None:
            return []
        (unknown,) = self.made_of[own]
        return [id for id, ids in enumerate(self.made_of) if unknown in ids and id != own]

    @property
    def kept(self) -> list[int]:
        """Ids of the one before whose pieces are still there, special tokens left out."""
        new = {*self.were_unknown, *(self.tokenizer.vocabulary[token] for token in self.tokenizer.specials)}
        ids = sorted({*self.tokenizer.vocabulary.values()} - new)
        return [self.made_of[id][0] for id in ids if len(self.made_of[id]) == 1]

    def then(self, later: "Renewed") -> "Renewed":
        """Both changes, as one."""
        made_of = tuple(tuple(old for id in ids for old in self.made_of[id]) for ids in later.made_of)
        return Renewed(later.tokenizer, made_of)


def unchanged(tokenizer: Tokenizer) -> Renewed:
    return Renewed(tokenizer, tuple((id,) for id in range(len(tokenizer))))


def extended(tokenizer: Tokenizer, texts: Iterable[str], *, most: int, minimum: int = 2) -> Renewed:
    """With at most so many new pieces, for what stands in the texts at least `minimum` times: those first
    that make the texts shortest."""
    state = deepcopy(dict(tokenizer.state))
    kind = state["model"]["type"]
    if is_pieces(state):
        raise ValueError(
            "a SentencePiece model takes no new pieces: fine-tune it with those it has, or only drop some "
            "(--add 0 --drop-unused)"
        )
    words = Counter(word for text in texts for word in tokenizer.words(text))
    if kind == "BPE":
        return _extended_bpe(tokenizer, words, most, minimum)
    cut = {word: tokenizer.pieces(word) for word in words}
    unknown = tokenizer.ids.unknown
    gains = {
        word: count * (len(cut[word]) - 1 + (unknown in cut[word]))
        for word, count in words.items()
        if count >= minimum and word not in tokenizer.vocabulary
    }
    chosen = sorted((word for word in gains if gains[word] > 0), key=lambda word: (-gains[word], word))[:most]
    model, made_of = state["model"], [*unchanged(tokenizer).made_of]
    if kind == "Unigram":
        _check_listed(tokenizer, state)
        scores = [score for _, score in model["vocab"]]
        for word in chosen:
            # as likely as its pieces, and a little more: it is taken where they would be, and nowhere else
            score = sum(scores[id] for id in cut[word]) if unknown not in cut[word] else min(scores)
            model["vocab"].append([word, score + 1e-3])
    else:
        model["vocab"] |= {word: len(tokenizer) + place for place, word in enumerate(chosen)}
    made_of += [cut[word] for word in chosen]
    return Renewed(Tokenizer(json.dumps(state)), tuple(made_of))


def _check_listed(tokenizer: Tokenizer, state: Mapping[str, Any]) -> None:
    if len(tokenizer) != len(state["model"]["vocab"]):
        raise ValueError(
            f"a Unigram tokenizer of {len(state['model']['vocab'])} pieces with special tokens behind them, "
            f"up to {len(tokenizer) - 1}: no piece can be added between; train a tokenizer anew"
        )


def _extended_bpe(tokenizer: Tokenizer, words: Counter[str], most: int, minimum: int) -> Renewed:
    """Characters first; then merges are learned on from where the training of the tokenizer ended (Sennrich
    et al. 2016): each time, of the two pieces that stand side by side most often."""
    state = deepcopy(dict(tokenizer.state))
    model, made_of = state["model"], [*unchanged(tokenizer).made_of]
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise ValueError("a BPE tokenizer that marks the insides or ends of words: it takes no new pieces")
    vocabulary: dict[str, int] = model["vocab"]

    def add(piece: str, ids: Ids) -> None:
        if piece not in vocabulary:
            vocabulary[piece] = len(made_of)
            made_of.append(ids)

    strange = {id for id in (tokenizer.ids.unknown,) if id is not None}
    strange |= {tokenizer.vocabulary[byte] for byte in BYTES if byte in tokenizer.vocabulary}
    characters: Counter[str] = Counter()
    for word, count in words.items():
        if strange.intersection(tokenizer.pieces(word)):
            characters.update({sign: count for sign in word if sign not in vocabulary})
    for sign, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        if count >= minimum and len(made_of) < len(tokenizer) + most:
            add(sign, tokenizer.pieces(sign))
    known = Tokenizer(json.dumps(state))
    strange |= {known.vocabulary[token] for token in known.specials}
    cut = {word: [known.token(id) for id in known.pieces(word)] for word in words}
    whole = {word: pieces for word, pieces in cut.items() if not strange.intersection(known.pieces(word))}
    spaced = bool(model["merges"]) and isinstance(model["merges"][0], str)
    for left, right in _merges(whole, words, len(tokenizer) + most - len(made_of), minimum):
        add(left + right, (*made_of[vocabulary[left]], *made_of[vocabulary[right]]))
        model["merges"].append(f"{left} {right}" if spaced else [left, right])
    return Renewed(Tokenizer(json.dumps(state)), tuple(made_of))


def _merges(
    cut: dict[str, list[str]], words: Mapping[str, int], most: int, minimum: int
) -> Iterable[tuple[str, str]]:
    """The pairs that are merged next, at most so many; `cut` is merged with them."""
    pairs: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, str], set[str]] = {}

    def count(word: str, sign: int) -> None:
        for pair in zip(cut[word], cut[word][1:], strict=False):
            pairs[pair] += sign * words[word]
            places.setdefault(pair, set()).add(word)

    for word in cut:
        count(word, 1)
    for _ in range(most):
        if not pairs:
            return
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < minimum:
            return
        yield best
        for word in sorted(places.pop(best)):
            count(word, -1)
            cut[word] = _merged(cut[word], best)
            count(word, 1)
        del pairs[best]


def _merged(pieces: Sequence[str], pair: tuple[str, str]) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(pieces):
        both = tuple(pieces[place : place + 2]) == pair
        found.append("".join(pair) if both else pieces[place])
        place += 2 if both else 1
    return found


def reduced(tokenizer: Tokenizer, texts: Iterable[str]) -> Renewed:
    """With the pieces alone that these texts are cut into, what those are merged from, and what every text
    may need: special tokens, bytes, and where words are cut but there are no bytes, single characters."""
    state = deepcopy(dict(tokenizer.state))
    model = state["model"]
    sides = [tokenizer] if tokenizer.target is tokenizer else [tokenizer, tokenizer.target]
    lines = [*texts]
    kept = {id for side in sides for ids in side.encode_batch(lines) for id in ids}
    kept |= {token["id"] for token in state["added_tokens"]}
    spelled = {*BYTES} if model.get("byte_fallback") else set()
    cuts = model["type"] != "WordLevel" and model.get("merges") != []
    if cuts and not spelled:
        spelled = {token for token in tokenizer.vocabulary if len(token.removeprefix("##")) == 1}
    if is_pieces(state):
        spelled |= {*BYTES, *CONTROLS}
    kept |= {tokenizer.vocabulary[token] for token in spelled if token in tokenizer.vocabulary}
    if model["type"] == "BPE":
        kept = _with_parts(kept, tokenizer.vocabulary, [_pair(merge) for merge in model["merges"]])
    order = sorted(kept)
    number = {old: new for new, old in enumerate(order)}
    if model["type"] == "Unigram":
        _check_listed(tokenizer, state)
        model["vocab"] = [model["vocab"][id] for id in order]
        model["unk_id"] = None if model["unk_id"] is None else number[model["unk_id"]]
    else:
        model["vocab"] = {token: number[id] for token, id in model["vocab"].items() if id in number}
    if model["type"] == "BPE":
        vocabulary = model["vocab"]
        model["merges"] = [
            merge
            for merge in model["merges"]
            if all(piece in vocabulary for piece in (*_pair(merge), "".join(_pair(merge))))
        ]
    for token in state["added_tokens"]:
        token["id"] = number[token["id"]]
    _renumber(state["post_processor"], lambda id: number[id])
    return Renewed(Tokenizer(json.dumps(state)), tuple((id,) for id in order))


def _pair(merge: str | Sequence[str]) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _with_parts(kept: set[int], vocabulary: Mapping[str, int], merges: list[tuple[str, str]]) -> set[int]:
    """And all that they can be merged from. Backwards: what a piece is made of was there before it."""
    for left, right in reversed(merges):
        if vocabulary[left + right] in kept:
            kept = kept | {vocabulary[left], vocabulary[right]}
    return kept


def _renumber(processor: Any, number: Callable[[int], int]) -> None:
    """The special tokens that are set around a text."""
    if not isinstance(processor, dict):
        return
    for inner in processor.get("processors", ()):
        _renumber(inner, number)
    for token in processor.get("special_tokens", {}).values():
        if "ids" in token:
            token["ids"] = [number(id) for id in token["ids"]]
    for name in ("sep", "cls"):
        if isinstance(processor.get(name), list):
            processor[name][1] = number(processor[name][1])
