"""The data doctor on the files of a recipe, with the tokenizer that the recipe would train."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from regard.config import ConfigError
from regard.tasks.base.doctor import SPLITS, strict
from regard.tasks.base.formats import only_lines
from regard.tasks.base.pairs import Corpus, texts_to_learn
from regard.tasks.base.recipe import Written
from regard.tasks.translation import fuzzy, inline
from regard.tasks.translation.encoding import prompt_ids
from regard.tasks.translation.recipe import TranslateRecipe
from regard.text import DataError, Tokenizer, read_pairs
from regard.text.doctor import Report, Vectors, examine


def check_recipe(written: Written[Any], *, examples: int = 3, tokens: bool = True) -> Report:
    """Everything that is wrong with the text of a recipe. With `tokens`, its tokenizer is learned too, to see
    what it does not know and which lines become too long."""
    data = written.checked.data
    corpus = Corpus(data, written.where)
    splits: dict[str, Any] = {split: corpus.readers(split) for split in SPLITS if corpus.files(split)}
    if corpus.general is not None:
        splits["train"] += corpus.general.readers("train")
    tokenizer, notes = _tokenizer(written) if tokens else (None, ())
    prompt = prompt_ids(tokenizer, data.prompt or "") if tokenizer is not None else []
    # without the end, and the start or a language token
    longest = None if tokenizer is None else max(data.longest - 2 - len(prompt), 1)
    how: Any = {"longest": longest, "examples": examples, "same_language": data.same_language}
    report = strict(examine(splits, tokenizer=tokenizer, **how), data)
    lenient = Corpus(replace(data, on_error="skip"), written.where)
    return replace(report, notes=(*notes, *(_expected(lenient) if tokens else ())))


def _expected(corpus: Corpus) -> tuple[str, ...]:
    return (*fuzzy.expected(corpus), *inline.expected(corpus))


def _tokenizer(written: Written[TranslateRecipe]) -> tuple[Tokenizer | None, tuple[str, ...]]:
    """And what is to be said of the model that it comes from, if it does. None where there is no text to
    learn one from: the doctor says why."""
    if written.checked.model.start:
        from regard.tasks.translation.start import described, find_start  # with torch

        start, _ = find_start(written.checked, written)
        if start is not None:
            return start.tokenizer, (described(start, written.checked.model.start),)
    whole = Corpus(replace(written.checked.data, on_error="skip"), written.where)
    try:
        recipe = written.completed(whole.size, 1, cuda=False)
        return Tokenizer.train(texts_to_learn(whole), recipe.tokenizer), ()
    except DataError:
        return None, ()


def doctor(written: Written[Any], *, examples: int = 3, vectors: Vectors | None = None) -> Report:
    """Pairs have no labels that vectors could doubt."""
    if vectors is not None:
        raise ConfigError("--model is for labelled text, and these are pairs: leave it out")
    return check_recipe(written, examples=examples)


def check_pairs(source: Path, target: Path, *, encoding: str = "utf-8", examples: int = 3) -> Report:
    for path in (source, target):
        only_lines(path)
    read = partial(read_pairs, source, target, encoding=encoding)
    return examine({"train": [read]}, examples=examples)
