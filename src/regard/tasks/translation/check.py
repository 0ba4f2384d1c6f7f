"""The data doctor on the files of a recipe, with the tokenizer that the recipe would train."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.tasks.base.pairs import Corpus, texts
from regard.tasks.base.recipe import Written
from regard.tasks.base.splits import Split
from regard.tasks.translation.recipe import TranslateRecipe
from regard.text import DataError, Tokenizer
from regard.text.doctor import Report, examine

SPLITS: tuple[Split, ...] = ("train", "valid", "test")


def check_recipe(written: Written[Any], *, examples: int = 3, tokens: bool = True) -> Report:
    """Everything that is wrong with the text of a recipe. With `tokens`, its tokenizer is learned too, to see
    what it does not know and which lines become too long."""
    data = written.checked.data
    corpus = Corpus(data, written.where)
    splits: dict[str, Any] = {split: corpus.readers(split) for split in SPLITS if corpus.files(split)}
    tokenizer = _tokenizer(written) if tokens else None
    longest = None if tokenizer is None else data.longest - 2  # the end, and the start or a language token
    report = examine(splits, tokenizer=tokenizer, longest=longest, examples=examples)
    if data.on_error == "skip":
        return report
    # Training will stop at the first of them.
    findings = [
        replace(each, severity="error") if each.name == "broken lines" else each for each in report.findings
    ]
    findings.sort(key=lambda finding: finding.severity != "error")
    return replace(report, findings=tuple(findings))


def _tokenizer(written: Written[TranslateRecipe]) -> Tokenizer | None:
    """None where there is no text to learn one from: the doctor says why."""
    whole = Corpus(replace(written.checked.data, on_error="skip"), written.where)
    try:
        recipe = written.completed(whole.size, 1, cuda=False)
        return Tokenizer.train(texts(whole, "train"), recipe.tokenizer)
    except DataError:
        return None


def check_pairs(source: Path, target: Path, *, examples: int = 3) -> Report:
    return examine({"train": [(source, target)]}, examples=examples)
