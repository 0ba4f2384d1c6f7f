"""A service for several customers: adapters on one base, and a memory's file with its glossaries."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

import regard
from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.documents.job import Job
from regard.memory import Memory, Segment, recall
from regard.serve.documents import translate_jobs
from regard.serve.glossaries import Glossaries
from regard.serve.keys import read_keys
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.models import Bases, Named, serve, stamp_of, with_pairs
from regard.serve.service import Service
from regard.tasks.base.adapter import read_adapter
from regard.tasks.base.guards import FolderError
from regard.tasks.translation.commands import translate
from regard.tasks.translation.languages import pair_of
from regard.tasks.translation.result import Translation
from regard.text.flags import FlagSettings
from regard.text.markup import read_block
from regard.text.scanning import Syntax
from tests.serve.server import Running, apart, serving
from tests.serve.test_own import close
from tests.serve.words import german
from tests.tasks import tiny

TEXTS = [source for source, _ in tiny.pairs(8, start=800)]
KNOWN, KEPT = "a dog sees a red tree", "Ein Hund erblickt einen roten Baum"
NEAR = "a dog sees a blue tree"
BASE, ACME = {"Authorization": "Bearer secret"}, {"Authorization": "Bearer customer"}


@pytest.fixture(scope="module")
def adapter(word_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a dog is something else."""
    place = tmp_path_factory.mktemp("acme")
    pairs = [(source, target.replace("hund", "haus")) for source, target in tiny.pairs(200)]
    own = tiny.write_pairs(place, "own", pairs)
    plain = {
        "data": {"train": own, "valid": own, "root": str(place)},
        "model": {"start": str(word_model), "adapter": {"rank": 4, "alpha": 8.0}},
        "batch": {"tokens": 512},
        "optimizer": {"learning_rate": 1e-2, "warmup": 5},
        "train": {"steps": 60, "validate_every": 60},
        "valid": {"metric": "loss", "sentences": 2},
    }
    regard.fit(plain, out=place / "run", check=False, console=Console(quiet=True), device="cpu")
    return place / "run"


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "company.db"
    with Memory(path, create=True) as memory:
        memory.add([Segment(KNOWN, KEPT, "en", "de"), Segment("big house", "Haus", "en", "fr")])
        memory.add_terms("en", "de", [("tree", "Linde", "usual"), ("DOG", "Dackel", "exact")])
    return path


@pytest.fixture(scope="module")
def desk(word_model: Path, adapter: Path, company: Path) -> Iterator[Running]:
    keys = company.with_name("keys")
    keys.write_text("# who may ask\nsecret\ncustomer acme\n")
    models = (f"en-de={word_model}", f"acme={word_model}+{adapter}")
    with serving(*models, "--memory", company, "--keys", keys) as running:
        yield running


@pytest.fixture(scope="module")
def alone(word_model: Path, adapter: Path) -> SimpleNamespace:
    base = regard.load(word_model, regard.Translator, device="cpu")
    return SimpleNamespace(base=base, acme=base.with_adapter(adapter))


def test_an_adapter_is_chosen_by_name_and_gives_what_it_gives_in_python(
    desk: Running, alone: SimpleNamespace, company: Path
) -> None:
    aid = recall(company, "en", "de")
    for name, own in (("en-de", alone.base), ("acme", alone.acme)):
        found = desk.post("/v1/translate", {"texts": TEXTS, "model": name}, headers=BASE).json()
        assert found["model"] == name
        close(found["results"], [each.to_dict() for each in own.translate(TEXTS, memory=aid)])
    assert alone.acme.translate("a dog").text != alone.base.translate("a dog").text
    with desk.client(headers=BASE) as client:
        pairs = client.get("/v1/about").json()["pairs"]
    assert [(each["model"], each["source"], each["target"]) for each in pairs] == [
        ("en-de", "en", "de"),
        ("acme", "en", "de"),
    ]


def test_a_key_may_have_a_model_of_its_own(desk: Running, alone: SimpleNamespace) -> None:
    wanted = {"secret": alone.base.translate("a dog").text, "customer": alone.acme.translate("a dog").text}
    fields = {"q": "a dog", "source": "en", "target": "de"}
    for headers, key in ((BASE, "secret"), (ACME, "customer")):
        libre = desk.post("/translate", {**fields, "api_key": key}).json()["translatedText"]
        deepl = desk.post("/v2/translate", {"text": ["a dog"], "target_lang": "DE"}, headers=headers).json()
        assert libre == deepl["translations"][0]["text"] == wanted[key]
    found = desk.post("/translate", {**fields, "model": "en-de"}, headers=ACME).json()
    assert found["translatedText"] == wanted["secret"], "a name goes before the key"
    assert desk.post("/translate", {**fields, "model": "none"}, headers=ACME).status_code == 400


def test_the_memory_answers_what_it_has(desk: Running, alone: SimpleNamespace, company: Path) -> None:
    texts = [KNOWN, NEAR, "", "old river"]
    found = desk.post("/v1/translate", {"texts": texts}, headers=BASE).json()["results"]
    wanted = alone.base.translate(texts, memory=recall(company, "en", "de"))
    close(found, [each.to_dict() for each in wanted])
    assert [each["remembered"] for each in found] == [True, False, False, False]
    assert (found[0]["text"], found[1]["matches"][0]["score"]) == (KEPT, 83)
    with ThreadPoolExecutor(16) as pool:
        sent = [
            (text, pool.submit(desk.post, "/v1/translate", {"texts": text}, headers=BASE))
            for text in texts * 8
        ]
        for text, answer in sent:
            close(answer.result().json()["result"], found[texts.index(text)])


def test_every_door_asks_the_memory_and_tags_are_for_the_model(desk: Running) -> None:
    fields = {"source": "en", "target": "de", "format": "html"}
    for text, wanted in ((KNOWN, KEPT), (NEAR, german(NEAR)), (f"<b>{KNOWN}</b>", f"<b>{german(KNOWN)}</b>")):
        answer = desk.post("/translate", {"q": text, **fields}, headers=BASE).json()
        assert answer["translatedText"] == wanted
    sent = {"text": [KNOWN, NEAR], "target_lang": "DE", "source_lang": "EN", "glossary_id": "company"}
    found = desk.post("/v2/translate", sent, headers=BASE).json()["translations"]
    assert [each["text"] for each in found] == [KEPT, german(NEAR).replace("baum", "Linde")]


def test_documents_have_what_the_memory_has(desk: Running) -> None:
    catalogue = f'msgid "{KNOWN}"\nmsgstr ""\n\nmsgid "{NEAR}"\nmsgstr ""\n'
    with desk.client(headers=BASE) as client:
        sent = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.po", catalogue.encode())}}
        fetched = client.get(client.post("/translate_file", **sent).json()["translatedFileUrl"]).text
    assert f'msgid "{KNOWN}"\nmsgstr "{KEPT}"\n' in fetched
    assert f'msgstr "{german(NEAR)}"\n' in fetched


ODD = "a dog sees 7 red 7 tree"
CATALOGUE = "\n\n".join(f'msgid "{text}"\nmsgstr ""' for text in (KNOWN, NEAR, ODD, f"a dog {ODD}")) + "\n"


def fetched(desk: Running, name: str, content: bytes, **fields: str) -> bytes:
    with desk.client(headers=BASE) as client:
        sent = {"data": {"source": "en", "target": "de", **fields}, "files": {"file": (name, content)}}
        answer = client.post("/translate_file", **sent)
        assert answer.status_code == 200, answer.text
        return client.get(answer.json()["translatedFileUrl"]).content


def test_a_document_is_the_same_file_from_the_service_and_at_the_prompt(
    desk: Running, word_model: Path, company: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.po").write_text(CATALOGUE)
    out = tmp_path / "b.po"
    with out.open("w") as page:
        translate(word_model, str(tmp_path / "a.po"), out=page, into=str(out), memory=company, device="cpu")
    found = fetched(desk, "a.po", CATALOGUE.encode())
    assert found == out.read_bytes()
    assert b"# regard: " in found, "what somebody should look at is flagged"


def test_documents_are_held_to_a_glossary_that_is_named(desk: Running) -> None:
    wanted = german(NEAR).replace("baum", "Linde")
    assert wanted in fetched(desk, "a.po", CATALOGUE.encode(), glossary_id="company").decode()
    assert fetched(desk, "a.txt", NEAR.encode(), glossary_id="company").decode() == wanted
    with desk.client(headers=BASE) as client:
        sent = {"data": {"source": "en", "target": "de", "glossary_id": "none"}}
        answer = client.post("/translate_file", **sent, files={"file": ("a.po", CATALOGUE.encode())})
    assert (answer.status_code, "no glossary 'none'" in answer.text) == (404, True)


def test_a_part_of_a_document_that_is_caught_in_a_loop_is_made_again() -> None:
    asked: list[tuple[list[str], Any]] = []

    class Looping:
        async def translate(
            self, served: Any, caller: str, texts: list[str], **how: Any
        ) -> list[Translation]:
            asked.append((texts, how.get("decoding")))
            told: Any = {
                "score": 0.0,
                "ranking": 0.0,
                "finished": True,
                "confidence": 1.0,
                "alternatives": (),
            }
            wrong = "oh " * 20 if how.get("decoding") is None else "Ende gut"
            return [
                Translation(source=text, text=wrong if "end" in text else text[::-1], **told)
                for text in texts
            ]

    predictor = SimpleNamespace(decoding=DecodeConfig(), options=lambda **_: None)
    ask: Any = SimpleNamespace(service=Looping(), caller="", deadline=1.0)
    jobs = [Job(read_block(text, Syntax())) for text in ("the end of it", "a dog")]
    served: Any = SimpleNamespace(predictor=predictor)
    found = apart(translate_jobs(ask, served, jobs, 10, flags=FlagSettings()))
    assert asked == [(["the end of it", "a dog"], None), (["the end of it"], {"no_repeat": 4})]
    assert [job.outputs()[0] for job in jobs] == ["Ende gut", "god a"]
    assert [found[job].flags for job in jobs] == [("repetition",), ()]


def test_what_is_imported_meanwhile_counts_at_once(desk: Running, company: Path) -> None:
    text = "old house"
    with Memory(company) as memory:
        for wanted in ("Altbau", "Das alte Haus"):
            memory.add([Segment(text, wanted, "en", "de")])
            found = desk.post("/v1/translate", {"texts": text}, headers=BASE).json()["result"]
            assert (found["text"], found["remembered"]) == (wanted, True)


def test_glossaries_are_the_files_and_are_kept_there(desk: Running, company: Path) -> None:
    def translated(glossary: str) -> str:
        sent = {
            "text": ["a tree sees a DOG"],
            "target_lang": "DE",
            "source_lang": "EN",
            "glossary_id": glossary,
        }
        return desk.post("/v2/translate", sent, headers=BASE).json()["translations"][0]["text"]

    with desk.client(headers=BASE) as client:
        (own,) = client.get("/v2/glossaries").json()["glossaries"]
        assert (own["glossary_id"], own["name"], own["entry_count"]) == ("company", "company", 2)
        assert translated("company").split()[1] == "Linde"
        assert client.delete("/v2/glossaries/company").status_code == 403
        new = {"name": "shop", "source_lang": "en", "target_lang": "de", "entries": "tree\tTanne"}
        made = client.post("/v2/glossaries", json=new).json()
        assert translated(made["glossary_id"]).split()[1] == translated("shop").split()[1] == "Tanne"
        with Memory(company) as memory:
            assert [(each.name, each.rows) for each in memory.glossaries()] == [
                ("shop", (("en", "de", "tree", "Tanne"),))
            ]
            kept = apart(Glossaries(memory).get(made["glossary_id"]))
            assert kept.created == made["creation_time"]
        change = {"source_lang": "en", "target_lang": "de", "entries": "tree\tEiche", "entries_format": "tsv"}
        put = client.put(f"/v3/glossaries/{made['glossary_id']}/dictionaries", json=change)
        assert put.json()["entry_count"] == 1
        assert translated("shop").split()[1] == "Eiche"
        assert client.delete(f"/v2/glossaries/{made['glossary_id']}").status_code == 204
        assert client.get(f"/v2/glossaries/{made['glossary_id']}").status_code == 404
    with Memory(company) as memory:
        assert memory.glossaries() == []
        assert len(memory.terms()) == 2


def test_files_that_are_written_while_a_model_opens_are_noticed(word_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "en-de"
    shutil.copytree(word_model, folder)
    named = Named.of(f"en-de={folder}")
    bases = Bases([named], "cpu", None)
    opened = bases.open

    def slowly(named: Named) -> Any:
        found = opened(named)
        (folder / "new").touch()
        return found

    bases.open = slowly
    served = serve(named, Limits(), Metrics(), bases)
    served.lane.close(1)
    assert served.stamp != stamp_of(folder)


def test_logs_have_no_text_and_no_key(desk: Running) -> None:
    desk.post("/v1/translate", {"texts": [KNOWN, NEAR]}, headers=BASE)
    log = desk.log.read_text(encoding="utf-8")
    assert '"path": "/v1/translate"' in log
    assert not [word for word in ("dog", "Hund", "Linde", "secret", "customer") if word in log]


def test_matches_may_only_be_listed(word_model: Path, company: Path) -> None:
    service = Service([Named.of(f"en-de={word_model}")], device="cpu", memory=company, memory_use="never")
    try:
        (served,) = service.models
        asked: Any = {"source": "en", "target": "de"}
        (found,) = apart(service.translate_remembering(served, "", [KNOWN], **asked))
        assert (found.remembered, found.text, found.matches[0].target) == (False, german(KNOWN), KEPT)
    finally:
        service.close(1)


def test_bases_are_opened_once_and_share_their_weights(word_model: Path, adapter: Path) -> None:
    named = with_pairs(
        [
            Named.of(f"{name}={word_model}{more}")
            for name, more in (("en-de", ""), ("a", f"+{adapter}"), ("b", f"+{adapter / 'adapter'}"))
        ]
    )
    assert [each.pair for each in named] == [("en", "de")] * 3
    bases = Bases(named, "cpu", None)
    one, *others = (bases.open(each) for each in named)
    shared = {each.data_ptr() for each in one.model.parameters()}
    learned = sum(each.numel() for each in load_file(adapter / "adapter" / "adapter.safetensors").values())
    for other in others:
        own = {each.data_ptr(): each.numel() for each in other.model.parameters()}
        assert shared < own.keys()
        assert sum(count for place, count in own.items() if place not in shared) == learned
    with pytest.raises(ConfigError, match="adapters stand beside weights in float32"):
        Bases(named, "cpu", "int8").open(named[1])


def test_what_a_name_and_a_keys_file_may_say(tmp_path: Path) -> None:
    (tmp_path / "a+b").mkdir()
    (tmp_path / "c").mkdir()
    both = Named.of(f"x={tmp_path}/a+b+{tmp_path}/c")
    assert (both.folder, both.adapter) == (tmp_path / "a+b", tmp_path / "c")
    assert Named.of(f"x={tmp_path}/a+b").adapter is None
    with pytest.raises(ConfigError, match="needs a name"):
        Named.of(f"{tmp_path}/c+{tmp_path}/c")
    keys = tmp_path / "keys"
    keys.write_text("one\ntwo acme\n")
    assert read_keys(keys, ["acme"]) == {"one": None, "two": "acme"}
    keys.write_text("one\ntwo acme\n", encoding="utf-8-sig")  # as editors of Windows do
    assert read_keys(keys, ["acme"]) == {"one": None, "two": "acme"}
    with pytest.raises(
        ConfigError, match="key 2: behind it stands the name of a model, one of other"
    ) as raised:
        read_keys(keys, ["other"])
    assert "two" not in str(raised.value)
    keys.write_text("one\nschlüssel\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="key 2: letters of ASCII alone") as raised:
        read_keys(keys, [])
    assert "schl" not in str(raised.value)


def test_the_model_of_a_key_is_a_translator(models: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("one\ntwo sentiment\n")
    arguments = [f"en-de={models / 'en-de'}", f"sentiment={models / 'sentiment'}", "--keys", keys]
    run = subprocess.run(
        [sys.executable, "-m", "regard", "serve", *map(str, arguments), "--port", "0", "--device", "cpu"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode != 0
    assert "key 2: sentiment is no translator" in " ".join((run.stdout + run.stderr).split())
    assert "two" not in run.stdout + run.stderr


def test_a_folder_whose_files_keep_their_dates_has_another_stamp(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("one")
    dates = (tmp_path / "config.json").stat()
    before = stamp_of(tmp_path)
    assert stamp_of(tmp_path) == before
    (tmp_path / "config.json").write_text("two")
    os.utime(tmp_path / "config.json", ns=(dates.st_atime_ns, dates.st_mtime_ns))
    assert stamp_of(tmp_path) != before


def test_pairs_of_a_memory_are_counted_anew_when_somebody_else_has_written(tmp_path: Path) -> None:
    with Memory(tmp_path / "a.db", create=True) as one, Memory(tmp_path / "a.db") as other:
        one.add([Segment("a", "b", "en", "de")])
        assert other.pairs() == other.pairs() == {("en", "de"): 1}
        one.add([Segment("c", "d", "en", "fr")])
        assert other.pairs() == one.pairs() == {("en", "de"): 1, ("en", "fr"): 1}
        other.add([Segment("e", "f", "en", "fr")])
        assert other.pairs() == one.pairs() == {("en", "fr"): 2, ("en", "de"): 1}
        asked: list[str] = []
        other._file.set_trace_callback(asked.append)
        other.pairs()
        assert not any("count(*)" in each for each in asked)


def test_a_recipe_that_is_a_pipe_is_refused_when_its_languages_are_asked(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "recipe.toml")
    with pytest.raises(FolderError, match="no ordinary file"):
        pair_of(tmp_path)


def test_an_adapter_of_another_rank_is_refused_before_it_is_read(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(adapter / "adapter", tmp_path / "adapter")
    weights = load_file(copy / "adapter.safetensors")
    save_file({name: torch.zeros(3, 5, 7) for name in weights}, copy / "adapter.safetensors")
    monkeypatch.setattr("regard.tasks.base.adapter.load_file", lambda _: pytest.fail("it was read"))
    with pytest.raises(FolderError, match="is no adapter of rank 4"):
        read_adapter(copy, "translate")
