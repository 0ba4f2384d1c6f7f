"""Models that are told what they read, as M2M100 and NLLB are, behind every door."""

import importlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import regard
from regard.cli import main
from regard.serve.app import build_app
from regard.serve.languages import own_code
from regard.serve.models import Named
from regard.serve.service import Service
from regard.text.languages import base, same, script
from regard.text.tmx import same_language
from tests.hub.marians import ENGLISH, GERMAN, m2m

TEXT = ENGLISH[3]


@pytest.fixture(scope="module", params=["m2m100", "nllb"])
def told(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Any]]:
    """A service of one folder, and the same model in Python, by two-letter codes."""
    folder = tmp_path_factory.mktemp(request.param)
    m2m(importlib.import_module("transformers"), folder, kind=request.param, seed=1, ends=0.2)
    service = Service([Named.of(f"many={folder}")], device="cpu")
    service.warm()
    mine = regard.load(folder, regard.Translator, device="cpu")

    def alone(source: str, target: str, **how: Any) -> str:
        codes = [own_code(mine.languages, each) for each in (source, target)]
        return mine.translate(TEXT, to=codes[1], source_language=codes[0], **how).text

    with TestClient(build_app(lambda: service), base_url="http://localhost") as client:
        yield client, alone
    service.close()


@pytest.fixture(scope="module")
def untold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A folder that does not say what it reads unless it is told."""
    folder = tmp_path_factory.mktemp("untold")
    m2m(importlib.import_module("transformers"), folder, seed=3)
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    del settings["src_lang"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    service = Service([Named.of(f"many={folder}")], device="cpu")
    service.warm()
    with TestClient(build_app(lambda: service), base_url="http://localhost") as client:
        yield client
    service.close()


def test_each_door_reads_the_language_that_it_is_told(told):
    client, alone = told
    pairs = [("en", "de"), ("cs", "de"), ("ru", "cs")]
    assert len({alone(*pair) for pair in pairs}) > 1
    for source, target in pairs:
        wanted = alone(source, target)
        asked: dict[str, Any] = {"texts": TEXT, "source": source, "target": target}
        assert client.post("/v1/translate", json=asked).json()["result"]["text"] == wanted
        asked = {"q": TEXT, "source": source, "target": target}
        assert client.post("/translate", json=asked).json() == {"translatedText": wanted}
        asked = {"text": [TEXT], "source_lang": source.upper(), "target_lang": target.upper()}
        (found,) = client.post("/v2/translate", json=asked).json()["translations"]
        assert found == {"detected_source_language": source.upper(), "text": wanted}


def test_a_page_is_told_what_can_be_read_the_models_own_language_first(told):
    client, _ = told
    about = client.get("/v1/about").json()
    (model,) = about["models"]
    assert base(model["reads"][0]) == "en"
    assert {*model["reads"]} == {each["target"] for each in about["pairs"]}


def test_files_are_read_in_their_own_language(told):
    client, alone = told
    sent = {"source": "cs", "target": "de"}
    file = {"file": ("a.txt", TEXT.encode(), "text/plain")}
    found = client.post("/translate_file", data=sent, files=file).json()
    assert client.get(found["translatedFileUrl"]).text == alone("cs", "de")
    file = {"file": ("a.json", json.dumps({"a": TEXT}).encode(), "application/json")}
    found = client.post("/translate_file", data=sent, files=file).json()
    assert client.get(found["translatedFileUrl"]).json() == {"a": alone("cs", "de", flags=True)}


def test_a_language_that_a_model_does_not_read_is_refused(told):
    client, _ = told
    for path, asked in (
        ("/v1/translate", {"texts": TEXT, "source": "xx", "target": "de"}),
        ("/translate", {"q": TEXT, "source": "xx", "target": "de"}),
        ("/v2/translate", {"text": [TEXT], "source_lang": "XX", "target_lang": "DE"}),
    ):
        answer = client.post(path, json=asked)
        assert answer.status_code == 400, path
        assert "xx" in answer.text.lower()


def test_a_folder_that_does_not_say_what_it_reads_is_told_by_the_request(untold):
    asked = {"texts": TEXT, "target": "de"}
    answer = untold.post("/v1/translate", json=asked)
    assert answer.status_code == 400
    assert "say from which language" in answer.json()["error"]
    assert untold.post("/v1/translate", json={**asked, "source": "en"}).status_code == 200
    assert untold.post("/translate", json={"q": TEXT, "source": "en", "target": "de"}).status_code == 200


def test_codes_of_two_and_of_three_letters_are_of_one_language():
    for one, other in (
        ("de", "deu_Latn"),
        ("DE", "ger"),
        ("de-AT", "deu"),
        ("ar", "arb_Arab"),
        ("zh", "cmn"),
    ):
        assert same(one, other)
        assert base(other) == base(one)
    assert not same("de", "den")
    assert not same("ace_Latn", "ac")
    assert same_language("deu_Latn", "de")
    assert not same_language("de-AT", "deu-CH")
    chinese = ["zho_Hans", "zho_Hant"]
    assert [own_code(chinese, code) for code in ("zh", "zh-TW", "zh-CN", "ZH-HANT")] == [
        "zho_Hans", "zho_Hant", "zho_Hans", "zho_Hant",
    ]  # fmt: skip
    assert script("deu_Latn") == "latn"
    assert script("de-AT") is None


def test_evaluate_says_from_which_language(tmp_path: Path, monkeypatch, capsys):
    folder = tmp_path / "model"
    m2m(importlib.import_module("transformers"), folder, seed=3)
    for name, lines in (("a", ENGLISH), ("b", GERMAN)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    asked = ["evaluate", str(folder), "--source", str(tmp_path / "a"), "--reference", str(tmp_path / "b")]
    scores = []
    for code in ("en", "cs"):
        how = ["--to", "de", "--from", code, "--json", "--device", "cpu"]
        monkeypatch.setattr("sys.argv", ["regard", *asked, *how])
        capsys.readouterr()
        with suppress(SystemExit):
            main()
        scores.append(json.loads(capsys.readouterr().out)["scores"]["chrf"]["value"])
    assert scores[0] != scores[1]
