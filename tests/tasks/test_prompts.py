"""Words before a source: they are read, and are not the user's text."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import regard
from regard.cli import build
from regard.tasks import run
from regard.tasks.base.folder import FolderError
from regard.tasks.registry import as_recipe
from regard.tasks.translation.check import check_recipe
from regard.tasks.translation.encoding import encode_sources, prompt_ids
from regard.tasks.translation.pieces import number_sources
from regard.tasks.translation.prompts import read_prompts, with_prompt
from tests.serve.server import serving
from tests.tasks import tiny

TEXTS = [source for source, _ in tiny.pairs(20, start=700)]
PROMPT = "dog big: "
"""Of words that the tokenizer knows, but for the colon."""


def fit(plain: dict[str, Any], out: Path) -> Path:
    run.fit(plain, out=out, device="cpu", check=False, console=Console(file=io.StringIO()))
    return out


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("prompted")
    plain = tiny.recipe(place / "corpus", data={"prompt": PROMPT}, train={"steps": 20})
    return fit(plain, place / "model")


def opened(folder: Path) -> regard.Translator:
    return regard.load(folder, regard.Translator, device="cpu", precision="float32")


def ids_of(translator: regard.Translator, text: str, **how: Any) -> list[list[int]]:
    sources = number_sources([text], translator.languages_of(None, 1), [""], None, 1)
    return [piece.ids for piece in translator.plan(sources, translator.options(**how))]


def test_a_model_keeps_the_prompt_that_it_was_trained_with(prompted: Path) -> None:
    mine = opened(prompted)
    assert (dict(mine.prompts), mine.default_prompt) == ({"dog big": PROMPT}, "dog big")
    before = prompt_ids(mine.tokenizer, PROMPT)
    assert mine.tokenizer.ids.unknown not in before  # it was learned from, too
    [text] = mine.tokenizer.encode_batch([TEXTS[0]])
    assert ids_of(mine, TEXTS[0]) == [[*before, *text, mine.tokenizer.require("end")]]
    assert ids_of(mine, TEXTS[0], prompt="") == [[*text, mine.tokenizer.require("end")]]
    assert mine.encode([TEXTS[0]], None) == ids_of(mine, TEXTS[0])
    assert mine.longest >= len(before) + 7
    again = opened(prompted).with_model(mine.model)
    assert (again.prompts, again.default_prompt) == (mine.prompts, mine.default_prompt)
    both = [mine.translate(TEXTS, prompt=name) for name in (None, "dog big")]
    assert both[0] == both[1]
    assert [each.score for each in mine.translate(TEXTS, prompt="")] != [each.score for each in both[0]]
    assert [*mine.stream(TEXTS, prompt="")] == mine.translate(TEXTS, prompt="")


def test_an_unknown_prompt_is_refused_with_those_that_there_are(prompted: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="prompt='x' is no prompt of this model: it has dog big"):
        opened(prompted).translate("a", prompt="x")
    plain = fit(tiny.recipe(tmp_path / "corpus", train={"steps": 2}), tmp_path / "plain")
    with pytest.raises(ValueError, match="it has none"):
        opened(plain).translate("a", prompt="x")
    config = json.loads((plain / "config.json").read_text())
    for wrong in ({"prompts": 3}, {"prompts": {"a": 1}}, {"default_prompt": "b"}, {"default_prompt": 1}):
        (plain / "config.json").write_text(json.dumps({**config, **wrong}))
        with pytest.raises(FolderError, match="prompt"):
            opened(plain)


def test_each_part_of_a_long_text_has_the_prompt(prompted: Path) -> None:
    mine = opened(prompted)
    before, frame = prompt_ids(mine.tokenizer, PROMPT), mine.longest
    text = ". ".join(TEXTS) + "."
    parts = ids_of(mine, text)
    assert len(parts) > 3
    assert all(ids[: len(before)] == before and len(ids) <= frame for ids in parts)
    assert sum(len(ids) - len(before) - 1 for ids in parts) == len(mine.tokenizer.encode(text))
    [whole] = ids_of(mine, TEXTS[0], split="never")
    assert whole[: len(before)] == before
    assert ids_of(mine, "  ") == []


def test_alignment_and_what_is_unknown_are_of_the_text_alone(prompted: Path) -> None:
    mine = opened(prompted)
    [found] = mine.translate(["a red xyz"], align=True)
    assert found.unknown == 1
    assert {source for source, _ in found.alignment} <= {0, 1, 2}
    assert found.source == "a red xyz"
    given = mine.align("a red house", "ein rot haus")
    assert given.weights.shape == (3, 3)
    assert np.allclose(given.weights.sum(1), 1)
    mine.prompts = {"dog big": "xyz: "}  # which it does not know
    assert mine.translate("a red house").unknown == 0


def test_ids_of_the_text_do_not_hang_on_the_prompt(prompted: Path) -> None:
    mine = opened(prompted)
    (alone,), (behind,) = (
        encode_sources(mine.tokenizer, [TEXTS[0]], prompt=prompt) for prompt in ("", PROMPT)
    )
    assert behind[-len(alone) :] == alone


def test_prompts_are_called_as_they_read() -> None:
    known = {"summarization": "summarize: "}
    assert with_prompt(known, "", None) == (known, "")
    assert with_prompt(known, "summarization", None) == (known, "summarization")
    assert with_prompt(known, "summarization", "") == (known, "")
    assert with_prompt(known, "", "summarize: ") == (known, "summarization")
    assert with_prompt(known, "", "simplify: ") == ({**known, "simplify": "simplify: "}, "simplify")
    assert read_prompts({}) == {"prompts": {}, "default_prompt": ""}


def test_a_fine_tuning_goes_on_with_the_prompt_of_its_start(prompted: Path, tmp_path: Path) -> None:
    plain = tiny.recipe(tmp_path / "corpus", train={"steps": 2})
    del plain["tokenizer"]
    plain["model"] = {"start": str(prompted)}
    tuned = opened(fit(plain, tmp_path / "tuned"))
    assert (tuned.prompts, tuned.default_prompt) == ({"dog big": PROMPT}, "dog big")
    plain["data"]["prompt"] = ""
    assert opened(fit(plain, tmp_path / "bare")).default_prompt == ""
    plain["data"]["prompt"] = "old: "
    plain["model"]["adapter"] = {"rank": 2}
    adapted = fit(plain, tmp_path / "adapted")
    mine = opened(prompted).with_adapter(adapted)
    assert (mine.prompts, mine.default_prompt) == ({"dog big": PROMPT, "old": "old: "}, "old")
    for one, other in zip(mine.translate(TEXTS), opened(adapted).translate(TEXTS), strict=True):
        assert one.text == other.text


def test_commands_take_a_prompt_by_its_name(prompted: Path, tmp_path: Path) -> None:
    def said(*arguments: str) -> Any:
        return CliRunner().invoke(build(), [*arguments], env={"COLUMNS": "300"})

    mine = opened(prompted)
    for name in ("dog big", ""):
        found = said("translate", str(prompted), TEXTS[0], "--prompt", name, "--scores", "--device", "cpu")
        assert found.exit_code == 0, found.output
        assert found.stdout.split("\t")[0] == f"{mine.translate(TEXTS[0], prompt=name).score:.4f}"
    refused = said("translate", str(prompted), TEXTS[0], "--prompt", "x", "--device", "cpu")
    assert refused.exit_code != 0
    assert "prompt='x' is no prompt of this model: it has dog big" in str(refused.exception)
    names = [str(tmp_path / name) for name in tiny.write_pairs(tmp_path, "test", tiny.pairs(20, start=700))]
    files = ["--source", names[0], "--reference", names[1], "--json", "--device", "cpu"]
    scored = [said("evaluate", str(prompted), *files, *more) for more in ((), ("--prompt", "dog big"))]
    assert [each.exit_code for each in scored] == [0, 0]
    assert scored[0].stdout == scored[1].stdout


def simplified(folder: Path, **data: Any) -> dict[str, Any]:
    pairs = [(source, " ".join(source.split()[:2]) if i % 3 else source)
             for i, (source, _) in enumerate(tiny.pairs(300))]  # fmt: skip
    files = tiny.write_pairs(folder, "train", pairs)
    return {"data": {"train": files, "root": str(folder), **data}}


def test_pairs_of_one_language_are_not_taken_for_bad_translations(tmp_path: Path) -> None:
    found = [check_recipe(as_recipe(simplified(tmp_path, same_language=same))) for same in (False, True)]
    names = [{each.name for each in report.findings} for report in found]
    assert "copies" in names[0]
    assert not names[1] & {
        "copies",
        "length ratio",
        "misaligned",
        "source untranslated",
        "target untranslated",
    }


def test_a_service_takes_a_prompt_in_its_request(prompted: Path) -> None:
    mine = opened(prompted)
    with serving(f"en-de={prompted}") as running:
        for name in (None, "dog big", ""):
            asked = {"texts": TEXTS[:3]} if name is None else {"texts": TEXTS[:3], "prompt": name}
            found = running.post("/v1/translate", asked).json()["results"]
            wanted = mine.translate(TEXTS[:3], prompt=name)
            assert [each["text"] for each in found] == [each.text for each in wanted]
            assert [each["score"] for each in found] == pytest.approx(
                [each.score for each in wanted], abs=1e-4
            )
