"""Parallel text as a translator reads it: its tokenizer, and the token stores. Imports no torch.

source   [<2de>] [prompt] ids <eos>    or, with a near match, ... ids <match> ids <eos>; terms are inside the
                                       ids
target   <sos> ids <eos>        the model reads it up to the last, and predicts it from the second on

M2M100 and NLLB are told both languages: [__en__] ids <eos>, and <eos> [__de__] ids <eos>.
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import to_dict
from regard.data.mixing import JoinedColumn
from regard.data.store import Store, fingerprint, id_type, open_or_build
from regard.disk import write_text
from regard.tasks.base.pairs import Corpus, settings_of, texts_to_learn
from regard.tasks.base.recipe import Written
from regard.tasks.base.splits import Split
from regard.tasks.base.tokens import settled_tokenizer
from regard.tasks.translation.encoding import encode_sources, language_token, match_token, with_match
from regard.tasks.translation.fuzzy import Find, fuzzy_of, memory_paths, near_matches
from regard.tasks.translation.inline import FindTerms, glossary_paths, terms_of, training_terms, with_terms
from regard.tasks.translation.recipe import TranslateRecipe
from regard.text import DataError, Origin, Skipped, Tokenizer
from regard.text.splitting import sentences

STORES: dict[Split, str] = {"train": "tokens", "valid": "tokens.valid"}
MIXED = "tokens.mix"

Pairs = Store | Mapping[str, JoinedColumn]
"""Columns "source" and "target"."""


@dataclass(frozen=True, slots=True)
class PairCounts:
    """What became of the pairs of the files."""

    read: int
    used: int
    empty: int
    """A side had nothing on it."""
    long: int
    """A side had more tokens than `longest`."""
    skipped: int
    """Broken lines."""
    why: str
    """Which, and where the first of them stand."""
    longest: tuple[int, ...]
    """The most tokens on each side that are used, near matches not counted."""
    several: int | None = None
    """Used pairs whose source holds several sentences; None in older token stores, which did not count."""
    matched: int = 0
    """Used pairs whose source has a near match behind it."""
    longest_matched: int = 0
    """The most tokens of such a source, with its match."""
    annotated: int = 0
    """Used pairs whose source has terms inside."""
    longest_annotated: int = 0
    """The most tokens of such a source, with its terms."""

    @property
    def share_of_several(self) -> float | None:
        return None if self.several is None else round(self.several / self.used, 4)


def ahead(written: Written[TranslateRecipe], folder: Path) -> None:
    """What `prepare` will look for in the folder, before there is torch; a start brings its own tokenizer."""
    if written.checked.model.start:
        return
    corpus = Corpus(written.checked.data, written.where)
    sizes = epoch_of(corpus, target_words(corpus), written.checked.data.mix.share)
    recipe = written.completed(*sizes, cuda=False)
    settle_text(recipe, corpus, folder, begun=False, prompt=recipe.data.prompt or "")


def target_words(corpus: Corpus) -> int:
    return sum(len(pair.target.split()) for pair, _ in corpus.pairs("train"))


def epoch_of(corpus: Corpus, words: int, mixed: float) -> tuple[int, int]:
    """Pairs, and target words of an epoch, with so large a share mixed in to the own ones."""
    if corpus.general is None:
        return corpus.size, words
    return corpus.size + corpus.general.size, round(words / (1 - mixed))


def settle_text(
    recipe: TranslateRecipe,
    corpus: Corpus,
    folder: Path,
    *,
    begun: bool,
    own: Tokenizer | None = None,
    reads: str | None = None,
    prompt: str = "",
) -> None:
    """The tokenizer, which may be a start's `own`, and the token stores, in the folder; a run that is `begun`
    has its tokenizer already."""
    tokenizer = _tokenizer(recipe, corpus, own, folder, begun=begun)
    for split, name in STORES.items():
        build_store(corpus, split, tokenizer, folder / name, reads=reads, prompt=prompt)
    if corpus.general is not None:
        build_store(corpus.general, "train", tokenizer, folder / MIXED, reads=reads, prompt=prompt)


def _tokenizer(
    recipe: TranslateRecipe, corpus: Corpus, own: Tokenizer | None, folder: Path, *, begun: bool
) -> Tokenizer:
    """The start's; or the one in the folder if it was learned from the same text with the same settings."""
    text = settings_of(replace(recipe.data, test=()))
    settings = [to_dict(recipe.tokenizer), text, *([] if own is None else [own.fingerprint()])]
    # of what it is validated on as well: figures of other text cannot be compared
    paths = [*corpus.paths("train"), *corpus.paths("valid")]
    paths += [] if corpus.general is None else corpus.general.paths("train")
    paths += [*memory_paths(corpus), *glossary_paths(corpus)]

    def make() -> Tokenizer:
        if own is not None:
            return own
        told = repeat(recipe.data.prompt, corpus.size) if recipe.data.prompt else ()
        return Tokenizer.train(chain(texts_to_learn(corpus), told), recipe.tokenizer)

    return settled_tokenizer(folder, fingerprint(paths, json.dumps(settings)), begun=begun, make=make)


def build_store(
    corpus: Corpus,
    split: Split,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    reads: str | None = None,
    prompt: str = "",
) -> tuple[Store, PairCounts]:
    """The pairs of a split as ids, on disk; built only if the one there is not of the same text and
    settings. `reads` is the language of the sources, for a model that is told it, and the one to write before
    the target; `prompt` stands before every source."""
    config = corpus.config
    beside = folder.with_name(f"{folder.name}.json")
    fuzzy = fuzzy_of(corpus) if split == "train" else None
    terms = terms_of(corpus) if split == "train" else None

    def rows() -> Iterator[Mapping[str, Any]]:
        with nullcontext() if fuzzy is None else near_matches(corpus, fuzzy) as find:
            yield from encoded(find, None if terms is None else training_terms(corpus, terms))

    def encoded(find: Find | None, find_terms: FindTerms | None) -> Iterator[Mapping[str, Any]]:
        skipped, seen = Skipped(), {"read": 0, "empty": 0, "long": 0, "several": 0}
        if find is not None:
            seen |= {"matched": 0, "longest_matched": 0, "longest_alone": 0}
        if find_terms is not None:
            seen |= {"annotated": 0, "longest_annotated": 0, "longest_alone": 0}
        written = tokenizer.target
        start, end = written.require("start"), written.require("end")
        for chunk in corpus.chunks(split, skipped):
            told = [to for _, to in chunk] if reads is None else reads
            sources = encode_sources(tokenizer, [pair.source for pair, _ in chunk], told, prompt=prompt)
            targets = written.encode_batch([pair.target for pair, _ in chunk])
            if reads is not None:
                marks = [language_token(written, to) for _, to in chunk]
                targets = [[*mark, *ids] for mark, ids in zip(marks, targets, strict=True)]
            near = [""] * len(chunk) if find is None else [find(*each) for each in chunk]
            matches = tokenizer.encode_batch(near)
            for (pair, to), source, match, target in zip(chunk, sources, matches, targets, strict=True):
                seen["read"] += 1
                if not pair.source.strip() or not pair.target.strip():
                    seen["empty"] += 1
                elif max(len(source), len(target) + 1) > config.longest:
                    seen["long"] += 1
                else:
                    seen["several"] += len(sentences(pair.source)) > 1
                    if "longest_alone" in seen:
                        seen["longest_alone"] = max(seen["longest_alone"], len(source))
                    if find_terms is not None and (own := find_terms(pair, to)):
                        longer, added = with_terms(tokenizer, source, pair.source, own)
                        if added and len(longer) <= config.longest:
                            source = longer
                            seen["annotated"] += 1
                            seen["longest_annotated"] = max(seen["longest_annotated"], len(source))
                    if match and len(source) + 1 + len(match) <= config.longest:
                        source = with_match(source, match_token(tokenizer), match)
                        seen["matched"] += 1
                        seen["longest_matched"] = max(seen["longest_matched"], len(source))
                    yield {"source": source, "target": [start, *target, end]}
        counts = {"of": wanted, **seen, "skipped": skipped.total, "why": str(skipped)}
        write_text(beside, json.dumps(counts))  # before the store is whole, so that no store is without

    kind = id_type(max(len(tokenizer), len(tokenizer.target)))
    paths = corpus.paths("train" if split == "valid" and not config.valid else split)
    settings = json.dumps(settings_of(config))  # the same text elsewhere is the same
    beside_text = [*memory_paths(corpus), *glossary_paths(corpus)]
    own = (*(() if reads is None else (reads,)), *((f"prompt {prompt}",) if prompt else ()))
    wanted = fingerprint([*paths, *beside_text], tokenizer.fingerprint(), split, settings, *own)
    store = open_or_build(folder, wanted, {"source": kind, "target": kind}, rows)
    known = _counts(beside)
    if known.pop("of", None) != wanted:  # of a run that was killed before its store was whole
        deque(rows(), maxlen=0)
        known = _counts(beside)
        del known["of"]
    if not len(store):
        origin = Origin(str(paths[0]))
        what = f"none of {known['read']} pairs can be used for {split}"
        why = f"({known['empty']} empty, {known['long']} over data.longest={config.longest} tokens)"
        raise DataError(origin, what, why, remedy="mend the files, or raise data.longest")
    of_source, of_target = (int(lengths.max()) for lengths in pair_lengths(store))
    longest = known.pop("longest_alone", of_source), of_target
    return store, PairCounts(**known, used=len(store), longest=longest)


def _counts(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def pair_lengths(store: Pairs) -> list[np.ndarray]:
    """Tokens of each pair on both sides, as a plan takes them."""
    return [store["source"].lengths, store["target"].lengths - 1]


def least_tokens(lengths: list[np.ndarray]) -> int:
    """The smallest budget of a batch that has room for every pair: slots of both sides are in proportion."""
    most = max(int(side.sum()) for side in lengths)
    return max(-(-int(side.max()) * most // max(int(side.sum()), 1)) for side in lengths)
