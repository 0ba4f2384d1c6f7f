"""What is settled before the first step."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from regard.nn.stacks import is_static
from regard.settings.models import Seq2SeqConfig
from regard.settings.shape import TranslatorConfig
from regard.tasks.base.feed import in_pieces
from regard.tasks.registry import as_recipe
from regard.tasks.translation.batches import PairFeed
from regard.tasks.translation.train import Prepared, Validator, read_corpus, spread_out
from regard.train.ranks import Ranks
from tests.tasks import tiny


def prepared(folder: Path) -> Prepared:
    ranks = Ranks(rank=0, count=1, device=torch.device("cpu"))
    recipe = as_recipe(tiny.recipe(folder / "corpus"))
    return read_corpus(recipe, folder / "out", ranks, Console(file=io.StringIO()))


def test_the_first_rank_has_all_text_ready_before_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would all write the same files otherwise, each under the other's hands."""
    found: set[str] = set()
    monkeypatch.setattr(Ranks, "wait", lambda _: found.update(path.name for path in tmp_path.glob("out/*")))
    prepared(tmp_path)
    assert {"tokens", "tokens.json", "tokens.valid", "tokens.valid.json", "tokenizer.json"} <= found


@pytest.mark.parametrize(("count", "most"), [(1, 5), (5, 5), (9, 5), (1999, 1000), (2001, 1000)])
def test_sentences_to_validate_on_come_from_everywhere(count: int, most: int) -> None:
    chosen = spread_out(range(count), most)
    assert len(chosen) == len(set(chosen)) == min(count, most)
    gaps = [end - start for start, end in zip([-1, *chosen], [*chosen, count], strict=True)]
    assert max(gaps) <= -(-count // most) + 1
    assert chosen == sorted(chosen)


def test_only_a_pass_that_does_not_go_by_lengths_has_static_batches() -> None:
    def may_be_static(shape: Seq2SeqConfig) -> bool:
        return is_static(shape.encoder.body) and is_static(shape.decoder.body)

    plain = TranslatorConfig(preset="tiny")
    assert may_be_static(plain.build(50))
    assert not may_be_static(replace(plain, score="additive").build(50))
    assert may_be_static(replace(plain, attention_dropout=0.1, positions="alibi").build(50))
    assert not may_be_static(TranslatorConfig(preset="recurrent").build(50))
    for side in ("encoder", "decoder"):
        equation = replace(plain, **{side: {"body": {"attention": {"kernel": "equation"}}}})
        assert not may_be_static(equation.build(50))


def test_a_validation_that_is_short_of_memory_does_the_same_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = prepared(tmp_path)
    own.model.eval()
    validator = Validator(own, tmp_path / "out")
    with torch.no_grad():
        whole, _ = validator()
    parts = PairFeed.parts

    def small_parts(own: PairFeed, step: int, split: int = 1) -> Any:
        if split < 2:
            raise torch.OutOfMemoryError("injected")
        return parts(own, step, split)

    monkeypatch.setattr(PairFeed, "parts", small_parts)
    with torch.no_grad():
        found, _ = validator()
    assert found == pytest.approx(whole)


def test_work_that_no_cutting_helps_is_given_up() -> None:
    tried = []

    def work(split: int) -> None:
        tried.append(split)
        raise torch.OutOfMemoryError("injected")

    with pytest.raises(torch.OutOfMemoryError):
        in_pieces(work)
    assert tried == [1, 2, 4, 8, 16, 32, 64]


def test_a_tokenizer_that_does_not_give_back_its_text_is_told_of(tmp_path: Path) -> None:
    ranks = Ranks(rank=0, count=1, device=torch.device("cpu"))

    def said(kind: str) -> str:
        plain = tiny.recipe(tmp_path / "corpus", tokenizer={"kind": kind, "vocabulary": 60})
        for side in ("en", "de"):
            path = tmp_path / "corpus" / f"train.{side}"
            path.write_text("".join(f"{line.replace(' ', '_')}\n" for line in path.read_text().splitlines()))
        out = io.StringIO()
        read_corpus(as_recipe(plain), tmp_path / kind, ranks, Console(file=out, width=500))
        return out.getvalue()

    assert "target texts do not come back as they were, like" in said("words")
    assert "choose tokenizer.kind=whitespace" in said("words")
    assert "come back" not in said("whitespace")
