"""What is settled before the first step."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from regard.models.shape import TranslatorConfig
from regard.tasks.recipe import as_recipe
from regard.tasks.translate import may_be_static, prepare, spread_out
from regard.train.ranks import Ranks
from tests.tasks import tiny


def test_the_first_rank_has_all_text_ready_before_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would all write the same files otherwise, each under the other's hands."""
    found: set[str] = set()
    monkeypatch.setattr(Ranks, "wait", lambda _: found.update(path.name for path in tmp_path.glob("out/*")))
    ranks = Ranks(rank=0, count=1, device=torch.device("cpu"))
    prepare(
        as_recipe(tiny.recipe(tmp_path / "corpus")),
        tmp_path / "out",
        ranks,
        Console(file=io.StringIO()),
    )
    assert {"tokens", "tokens.json", "tokens.valid", "tokens.valid.json", "tokenizer.json"} <= found


@pytest.mark.parametrize(("count", "most"), [(1, 5), (5, 5), (9, 5), (1999, 1000), (2001, 1000)])
def test_sentences_to_validate_on_come_from_everywhere(count: int, most: int) -> None:
    chosen = spread_out(range(count), most)
    assert len(chosen) == len(set(chosen)) == min(count, most)
    gaps = [end - start for start, end in zip([-1, *chosen], [*chosen, count], strict=True)]
    assert max(gaps) <= -(-count // most) + 1
    assert chosen == sorted(chosen)


def test_only_a_pass_that_does_not_go_by_lengths_has_static_batches() -> None:
    plain = TranslatorConfig(preset="tiny")
    assert may_be_static(plain.build(50))
    assert may_be_static(replace(plain, attention_dropout=0.1, positions="alibi").build(50))
    assert not may_be_static(TranslatorConfig(preset="recurrent").build(50))
    for side in ("encoder", "decoder"):
        equation = replace(plain, **{side: {"body": {"attention": {"kernel": "equation"}}}})
        assert not may_be_static(equation.build(50))
