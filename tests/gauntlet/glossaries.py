"""How well a glossary is held to, and what it costs: terms that are there, and BLEU.

python tests/gauntlet/glossaries.py MODEL DATA [--terms FILE] [--rarest 30]

MODEL is a translator from English to German, DATA a folder with Multi30k's train.en.gz, train.de.gz and
test_2016_flickr.{en,de}.gz. The glossary is made of the test set's own references: nouns of theirs that come
at most `--rarest` times in the training text, with the one English word that they are the translation of.
Words are linked by how often they come together in the training text (Dice's coefficient); an English word
with several translations in the test set is left out. A model that was trained with `data.terms` is also
measured as it writes what it is told, without a second search.
"""

import argparse
import gzip
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import sacrebleu

import regard
from regard.memory import Glossary
from regard.tasks.translation.aids import Aids, aided
from regard.tasks.translation.glossary import Holding
from regard.tasks.translation.pieces import number_sources
from regard.text.terms import held

WORD = re.compile(r"\w+")
ALIKE = 0.4
"""Dice's coefficient from which two words are taken for translations of each other."""


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def nouns(text: str) -> Iterator[str]:
    """Of German: words with a capital, but for the first of a sentence."""
    for found in WORD.finditer(text):
        before = text[: found.start()].rstrip()
        if found[0][0].isupper() and found[0].isalpha() and before and before[-1] not in ".!?":
            yield found[0]


def make_glossary(data: Path, rarest: int) -> dict[str, str]:
    """English words and the rare German nouns that are their translations in the references."""
    train = [*zip(lines(data / "train.en.gz"), lines(data / "train.de.gz"), strict=True)]
    test = [*zip(lines(data / "test_2016_flickr.en.gz"), lines(data / "test_2016_flickr.de.gz"), strict=True)]
    english, german, together = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for source, target in [*train, *test]:
        read, written = set(WORD.findall(source.lower())), set(WORD.findall(target))
        english.update(read)
        german.update(written)
        together.update((one, other) for one in read for other in written if other[0].isupper())
    seen = Counter(word for _, target in train for word in set(WORD.findall(target)))
    found: dict[str, set[str]] = defaultdict(set)
    for source, target in test:
        read = set(WORD.findall(source.lower()))
        for noun in nouns(target):
            if seen[noun] > rarest:
                continue
            scores = {one: 2 * together[one, noun] / (english[one] + german[noun]) for one in read}
            best = max(scores, key=lambda one: (scores[one], one))
            if scores[best] >= ALIKE and len(best) > 2:
                found[best].add(noun)
    return {one: next(iter(own)) for one, own in sorted(found.items()) if len(own) == 1}


def bleu(texts: list[str], references: list[str]) -> float:
    return sacrebleu.corpus_bleu(texts, [references]).score


def measure(
    translator: regard.Translator, data: Path, glossary: dict[str, str]
) -> dict[str, dict[str, float]]:
    """For each way: shares of terms that are there as the glossary has them, and in any form; BLEU;
    seconds."""
    sources = lines(data / "test_2016_flickr.en.gz")
    references = lines(data / "test_2016_flickr.de.gz")
    terms = Glossary.of(glossary).terms
    wanted = [terms.find(source) for source in sources]
    affected = [i for i, own in enumerate(wanted) if own]
    found: dict[str, dict[str, float]] = {}

    def note(name: str, texts: list[str], seconds: float) -> None:
        exact, any_form, total = 0, 0, sum(map(len, wanted))
        for text, own in zip(texts, wanted, strict=True):
            exact += sum(each == "exact" for each in held(text, own))
            any_form += sum(each is not None for each in held(text, own, inflected=True))
        found[name] = {
            "terms": 100 * exact / total,
            "inflected too": 100 * any_form / total,
            "BLEU": bleu(texts, references),
            "BLEU of texts with terms": bleu([texts[i] for i in affected], [references[i] for i in affected]),
            "seconds": seconds,
        }

    begun = time.perf_counter()
    plain = [each.text for each in translator.translate(sources)]
    note("no glossary", plain, time.perf_counter() - begun)
    numbered = number_sources(sources, [None] * len(sources), [""] * len(sources), None, 1)
    if translator.inline is not None:
        begun = time.perf_counter()
        told = [replace(each, terms=tuple(own)) for each, own in zip(numbered, wanted, strict=True)]
        texts = translator.searched(told, translator.options(), None)
        note("told, no second search", [each.text for each in texts], time.perf_counter() - begun)
    ways = {
        "replaced": Holding(terms, inflected=False, way="replace"),
        "replaced, inflected forms count": Holding(terms, inflected=True, way="replace"),
        "decoded": Holding(terms, inflected=False),
        "decoded, inflected forms count": Holding(terms, inflected=True),
    }
    for name, holding in ways.items():
        begun = time.perf_counter()
        texts = aided(translator, numbered, translator.options(), None, Aids(holding=holding))
        note(name, [each.text for each in texts], time.perf_counter() - begun)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--terms", type=Path, help="write the glossary here, as TSV")
    parser.add_argument("--rarest", type=int, default=30)
    given = parser.parse_args()
    glossary = make_glossary(given.data, given.rarest)
    if given.terms is not None:
        text = "".join(f"{term}\t{translation}\n" for term, translation in glossary.items())
        given.terms.write_text(f"term\ttranslation\n{text}", encoding="utf-8")
    found = measure(regard.load(given.model, regard.Translator), given.data, glossary)
    print(json.dumps({"terms": len(glossary), "ways": found}, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
