"""The data doctor on the files of a recipe, with the tokenizer that the recipe would train."""

from pathlib import Path
from typing import Any

from regard.tasks.pairs import Corpus, Split, texts
from regard.tasks.recipe import Written
from regard.text import Tokenizer
from regard.text.doctor import Report, examine

SPLITS: tuple[Split, ...] = ("train", "valid", "test")


def check_recipe(written: Written, *, examples: int = 3, tokens: bool = True) -> Report:
    """Everything that is wrong with the text of a recipe. With `tokens`, its tokenizer is learned too, to see
    what it does not know and which lines become too long."""
    corpus = Corpus(written.checked.data, written.where)
    splits: dict[str, Any] = {split: corpus.readers(split) for split in SPLITS if corpus.files(split)}
    found = examine(splits, examples=examples)
    if not found.ok or not tokens:
        return found  # text that is not fit may not even be readable to learn a tokenizer from
    recipe = written.completed(corpus.size, 1, cuda=False)
    tokenizer = Tokenizer.train(texts(corpus, "train"), recipe.tokenizer)
    longest = written.checked.data.longest - 2  # the end, and the start or a language token
    return examine(splits, tokenizer=tokenizer, longest=longest, examples=examples)


def check_pairs(source: Path, target: Path, *, examples: int = 3) -> Report:
    return examine({"train": [(source, target)]}, examples=examples)
