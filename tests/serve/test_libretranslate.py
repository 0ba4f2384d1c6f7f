"""LibreTranslate's door, asked by its client and as Mastodon, Weblate and NeMo Curator ask."""

import asyncio
import io
import json
import re
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

from regard.serve import detect
from regard.serve.app import build_app
from regard.serve.limits import Limits
from regard.serve.models import Named
from regard.serve.service import Service
from tests.serve.server import Running, apart, serving
from tests.serve.words import german

TREE, DOG = "a dog sees a red tree?", "old dog sees big house."


def test_its_client_is_served(translating):
    client = LibreTranslateAPI(translating.url)
    assert client.translate(TREE, "en", "de") == german(TREE)
    assert client.detect("Where is the old station, and where is the hotel?")[0]["language"] == "en"
    assert {each["code"]: each["targets"] for each in client.languages()} == {
        "en": ["de", "en"],
        "de": ["de"],
    }
    assert {each["name"] for each in client.languages()} == {"English", "German"}


def test_a_list_gives_lists_and_a_text_gives_one(translating):
    fields = {"q": [TREE, DOG, ""], "source": "en", "target": "de"}
    assert translating.post("/translate", fields).json() == {
        "translatedText": [german(TREE), german(DOG), ""]
    }
    found = translating.post("/translate", {**fields, "q": DOG, "source": "auto", "alternatives": 2}).json()
    assert found["translatedText"] == german(DOG)
    assert found["detectedLanguage"]["language"] == "en"
    assert 0 <= found["detectedLanguage"]["confidence"] <= 100
    assert 1 <= len(found["alternatives"]) <= 2
    assert german(DOG) not in found["alternatives"]
    found = translating.post("/translate", {**fields, "alternatives": 1}).json()
    assert [len(each) for each in found["alternatives"]] == [1, 1, 0]


def test_a_form_is_read_as_json_is(translating):
    with translating.client() as client:
        sent = {"q": "a tree.\n\n  old dog sees a house.", "source": "en", "target": "de", "api_key": "x"}
        wanted = {"translatedText": "ein baum.\n\n  alt hund sieht ein haus."}
        assert client.post("/translate", data=sent).json() == wanted
        assert (
            client.post("/translate", files={key: (None, value) for key, value in sent.items()}).json()
            == wanted
        )
        raw = "q=schläft schläft&source=de&target=de".encode()  # as curl -d sends it
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = client.post("/translate", content=raw, headers=form).json()
    assert answer == {"translatedText": "schläft schläft"}


def docx(body: str) -> bytes:
    out, kind = io.BytesIO(), "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    types = f'<Override PartName="/word/document.xml" ContentType="{kind}.main+xml"/>'
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        space = "http://schemas.openxmlformats.org/package/2006/content-types"
        file.writestr("[Content_Types].xml", f'<Types xmlns="{space}">{types}</Types>')
        space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        file.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>',
        )
    return out.getvalue()


def test_a_small_document_that_unpacks_to_much_is_refused_at_once(translating):
    bombs, before = [docx("<w:p/>" * (size * 2**20 // 6)) for size in (5, 60)], translating.memory
    assert len(bombs[1]) < 100_000
    sent = {"source": "en", "target": "de"}
    with translating.client() as client:
        for bomb in bombs:
            began = time.monotonic()
            answer = client.post("/translate_file", data=sent, files={"file": ("a.docx", bomb)})
            assert answer.status_code == 400
            assert "more than" in answer.json()["error"]
            assert time.monotonic() - began < 1
        text = f"<w:p><w:r><w:t>{TREE}</w:t></w:r></w:p>"
        answer = client.post("/translate_file", data=sent, files={"file": ("a.docx", docx(text))})
        fetched = client.get(answer.json()["translatedFileUrl"]).content
    assert translating.memory - before < 100
    with zipfile.ZipFile(io.BytesIO(fetched)) as file:
        assert german(TREE) in file.read("word/document.xml").decode()


@pytest.mark.parametrize("source", ["auto", "de", "de-AT"])
def test_a_document_in_the_target_language_stays_as_it_is(translating: Running, source: str) -> None:
    """As a text does."""
    text = "Der alte Hund schläft heute im Garten, und die Katze sitzt auf dem Dach des Hauses."
    for name, raw in (("a.docx", docx(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")), ("a.txt", text.encode())):
        sent = {"source": source, "target": "de"}
        with translating.client() as client:
            answer = client.post("/translate_file", data=sent, files={"file": (name, raw)})
            assert answer.status_code == 200, answer.text
            assert client.get(answer.json()["translatedFileUrl"]).content == raw


def test_what_is_opened_keeps_its_time_and_nobody_else_waits(word_model, monkeypatch):
    """A document that takes long to open is given up, and texts of others are translated meanwhile."""
    began = threading.Event()

    def slow(*given, **more):
        began.set()
        time.sleep(1.5)
        raise AssertionError

    monkeypatch.setattr("regard.serve.doors.libretranslate.open_document", slow)
    service = Service([Named.of(f"en-de={word_model}")], limits=Limits(seconds=1.0), device="cpu")
    service.warm()
    with TestClient(build_app(lambda: service), base_url="http://localhost") as client:
        sent: dict[str, Any] = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.docx", b"x")}}
        with ThreadPoolExecutor(4) as pool:
            late = [pool.submit(client.post, "/translate_file", **sent) for _ in range(3)]
            assert began.wait(5)
            asked = {"q": TREE, "source": "en", "target": "de"}
            assert client.post("/translate", json=asked).json() == {"translatedText": german(TREE)}
            assert {each.result().status_code for each in late} == {503}
    service.close()


def test_mastodon_is_served(translating):
    """A list of HTML, with its own shape of the detected languages."""
    texts = [
        '<p>a dog sees a <a href="https://a.org/x?y=1&amp;z=2" rel="nofollow">red tree</a>?</p>',
        '<p>a <b>dog</b> <span translate="no">:smile:</span> sees a river.<br>a tree.</p>',
        "",
    ]
    fields = {"q": texts, "source": "auto", "target": "de", "format": "html", "api_key": None}
    found = translating.post("/translate", fields).json()
    assert found["translatedText"][0] == (
        '<p>ein hund sieht ein <a href="https://a.org/x?y=1&amp;z=2" rel="nofollow">rot baum</a>?</p>'
    )
    assert found["translatedText"][1] == (
        '<p>ein <b>hund</b> <span translate="no">:smile:</span> sieht ein fluss.<br>ein baum.</p>'
    )
    assert found["translatedText"][2] == ""
    assert [each["language"] for each in found["detectedLanguage"]] == ["en"] * 3
    targets = {each["code"]: each["targets"] for each in translating.get("/languages").json()}
    assert "de" in targets["en"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a [X0X] dog sees a tree.", "ein [X0X] hund sieht ein baum."),
        ("[X4X] a dog sees a tree? [X30X]", "[X4X] ein hund sieht ein baum? [X30X]"),
        ("a dog[X7X] sees a tree [X12X].", "ein hund[X7X] sieht ein baum [X12X]."),
        ("a dog ([X1X][X2X] %(name)s) sees a tree", None),
        ("[X0X]", "[X0X]"),
        ("unheard of: [X1X] (or [X2X])!", None),
    ],
)
def test_weblates_placeholders_survive(translating, text, wanted):
    sent = {"q": text, "source": "en", "target": "de"}
    found = translating.post("/translate", sent).json()["translatedText"]
    pattern = r"\[X\d+X\]|%\(name\)s"
    assert sorted(re.findall(pattern, found)) == sorted(re.findall(pattern, text))
    assert wanted in (None, found)


def test_weblates_check_passes(translating):
    assert translating.post("/translate", {"q": "test", "source": "en", "target": "de"}).json()[
        "translatedText"
    ]


def test_nemo_curator_is_served_by_the_same_path(translating):
    found = translating.post("/translate", {"texts": [TREE, DOG], "src_lang": "en", "tgt_lang": "de"})
    assert found.json() == {"translations": [german(TREE), german(DOG)]}
    assert translating.get("/health").json() == {"status": "ok"}


def test_detection_is_honest(translating):
    def detected(text: str) -> list[dict[str, object]]:
        return translating.post("/detect", {"q": text}).json()

    assert detected("Wo ist denn hier der alte Bahnhof, bitte?")[0]["language"] == "de"
    french = detected("Où est la gare, s'il vous plaît, madame ?")
    assert french[0]["language"] == "fr"
    assert french[0]["confidence"] > 90
    short = detected("Hello")[0]
    assert short["language"] in ("en", "de")  # what is served
    assert short["confidence"] < 50
    assert [*short] == ["language", "confidence"]


def test_what_is_in_the_target_language_stays_and_what_is_in_none_is_refused(translating):
    german = "Wo ist denn hier der alte Bahnhof, bitte?"
    found = translating.post("/translate", {"q": german, "source": "auto", "target": "de"}).json()
    assert found["translatedText"] == german
    assert found["detectedLanguage"]["language"] == "de"
    french = "Où est la gare, s'il vous plaît, madame ?"
    found = translating.post("/translate", {"q": french, "source": "auto", "target": "de"})
    assert found.status_code == 400
    assert "French" in found.json()["error"]


@pytest.mark.parametrize(
    ("text", "served", "told"),
    [
        ("Hunden sover ikke i hagen i dag, fordi det regner ute.", ("dan_Latn", "nob_Latn"), "nob_Latn"),
        ("Hunden sover ikke i hagen i dag, fordi det regner ute.", ("da", "no"), "no"),
        ("Ang aso ay natutulog sa bahay at ayaw lumabas dahil umuulan.", ("en", "fil"), "fil"),
        (
            "Rafu ndo wona thi, no ngacooka ũhoro wa mũndũ ũcio mwega mũno.",
            ("eng_Latn", "kik_Latn"),
            "kik_Latn",
        ),
    ],
)
def test_a_language_is_told_by_the_code_that_its_model_has(text, served, told):
    (found,) = asyncio.run(detect.sources([text], "de", served))
    assert found.language == told


def test_files_are_translated_and_fetched(translating):
    with translating.client() as client:
        for name, text, wanted in (
            ("letter.txt", "a tree.\n\na dog sees a house.\n", "ein baum.\n\nein hund sieht ein haus.\n"),
            ("notes.txt", "\ufeffa dog sees\r\n", "\ufeffein hund sieht\r\n"),
            ("a/page.html", "<p>a <i>dog</i> sees a tree</p>", "<p>ein <i>hund</i> sieht ein baum</p>"),
        ):
            sent = {"source": "en", "target": "de"}
            answer = client.post("/translate_file", data=sent, files={"file": (name, text.encode())})
            fetched = client.get(answer.json()["translatedFileUrl"])
            assert fetched.content.decode() == wanted
            assert fetched.headers["content-disposition"].endswith(f"_de.{name.rpartition('.')[2]}")
        refused = client.post("/translate_file", data=sent, files={"file": ("a.exe", b"x")})
        assert refused.status_code == 400
        assert ".exe" in refused.json()["error"]
        assert ".txt" in refused.json()["error"]
        latin = client.post("/translate_file", data=sent, files={"file": ("a.txt", "süß".encode("latin-1"))})
        assert "UTF-8" in latin.json()["error"]
        assert client.get("/download_file/none").status_code == 404


def test_files_of_translators_are_translated_whole(translating):
    unit = "<trans-unit id='{}'><source>{}</source></trans-unit>"
    body = unit.format(1, "a <g id='1'>dog</g> sees a tree") + unit.format(2, "%s: 1")
    xliff = f"<xliff version='1.2'><file source-language='en'><body>{body}</body></file></xliff>"
    catalogue = 'msgid "a tree"\nmsgstr ""\n\nmsgid "a dog"\nmsgstr "Hund"\n'
    with translating.client() as client:
        for name, text, source, wanted in (
            ("a.xlf", xliff, "auto", ">ein <g id='1'>hund</g> sieht ein baum</target>"),
            (
                "a.po",
                catalogue,
                "en",
                '#, fuzzy\nmsgid "a tree"\nmsgstr "ein baum"\n\nmsgid "a dog"\nmsgstr "Hund"\n',
            ),
        ):
            sent = {"source": source, "target": "de"}
            answer = client.post("/translate_file", data=sent, files={"file": (name, text.encode())})
            fetched = client.get(answer.json()["translatedFileUrl"])
            assert wanted in fetched.content.decode()
        sent = {"source": "en", "target": "de"}
        broken = client.post("/translate_file", data=sent, files={"file": ("a.xlf", b"<xliff>\n<")})
        assert broken.status_code == 400
        assert "a.xlf:2: not well-formed XML" in broken.json()["error"]
        french = xliff.replace("source-language='en'", "source-language='en' target-language='fr'").encode()
        other = client.post("/translate_file", data=sent, files={"file": ("a.xlf", french)})
        assert "is to be in 'fr', not 'de'" in other.json()["error"]
        assert ".xlf" in client.get("/frontend/settings").json()["supportedFilesFormat"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"q": "a", "source": "en"}, "target is missing"),
        ({"source": "en", "target": "de"}, "q should be"),
        ({"q": "a", "source": "fr", "target": "de"}, "fr-de=FOLDER"),
        ({"q": "a", "source": "auto", "target": "xx"}, "en-de"),
        ({"q": "a", "source": "en", "target": "auto"}, "target"),
        ({"q": "a", "source": "../x", "target": "de"}, "not the code"),
        ({"q": "a", "source": "en", "target": "de", "format": "pdf"}, "pdf"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": 99}, "alternatives"),
    ],
)
def test_errors_say_what_is_wrong(translating, fields, told):
    answer = translating.post("/translate", fields)
    assert answer.status_code == 400
    assert [*answer.json()] == ["error"]
    assert told in answer.json()["error"]


def test_settings_are_those_of_the_service(translating):
    found = translating.get("/frontend/settings").json()
    assert found["language"] == {
        "source": {"code": "en", "name": "English"},
        "target": {"code": "de", "name": "German"},
    }
    assert found["keyRequired"] is False
    assert found["filesTranslation"] is True
    assert ".html" in found["supportedFilesFormat"]


def test_keys_are_asked_for_where_there_are_some(word_model, tmp_path):
    """By both doors; LibreTranslate's languages take none, since clients send none."""
    keys = tmp_path / "keys"
    keys.write_text("secret\n", encoding="utf-8")
    with serving(f"en-de={word_model}", "--keys", keys) as server:
        assert LibreTranslateAPI(server.url, "secret").translate(DOG, "en", "de") == german(DOG)
        assert len(LibreTranslateAPI(server.url).languages()) == 2
        assert server.get("/frontend/settings").json()["keyRequired"] is True
        with pytest.raises(HTTPError) as refused:
            LibreTranslateAPI(server.url, "other").translate(DOG, "en", "de")
        with refused.value as error:
            assert error.code == 403
            assert "key" in json.loads(error.read())["error"]
        sent = {"text": [DOG], "target_lang": "DE", "source_lang": "EN"}
        with server.client() as client:
            key = {"Authorization": "DeepL-Auth-Key secret"}
            assert client.post("/v2/translate", json=sent, headers=key).status_code == 200
            key = {"Authorization": "DeepL-Auth-Key other"}
            refused_too = client.post("/v2/translate", json=sent, headers=key)
        assert refused_too.status_code == 403
        assert [*refused_too.json()] == ["message"]


def test_a_request_has_one_deadline_however_often_it_asks(
    word_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service([Named.of(f"en-de={word_model}")], device="cpu")
    asked: list[float | None] = []
    translate = service.translate

    async def noted(*given: Any, deadline: float | None = None, **settings: Any) -> Any:
        asked.append(deadline)
        return await translate(*given, deadline=deadline, **settings)

    monkeypatch.setattr(service, "translate", noted)
    try:
        client = TestClient(build_app(lambda: service))
        text = "a {dog} sees a <b>red [X1X] tree</b>. %s river? "
        began = time.monotonic()
        for path, sent in (
            ("/translate", {"json": {"q": text * 4, "source": "en", "target": "de", "format": "html"}}),
            ("/v1/translate", {"json": {"texts": "a dog", "target": "de"}}),
            (
                "/translate_file",
                {
                    "data": {"source": "en", "target": "de"},
                    "files": {"file": ("a.po", f'msgid "{text}"\nmsgstr ""\n'.encode())},
                },
            ),
        ):
            asked.clear()
            assert client.post(path, **sent).status_code == 200
            assert len(asked) > (path != "/v1/translate")
            assert len({*asked}) == 1
            assert asked[0] is not None
            assert began < asked[0] - service.limits.seconds < time.monotonic()
    finally:
        service.close(1)


ENGLISH, GERMAN = "Where is the old station, and the hotel?", "Wo ist der alte Bahnhof, und wo das Hotel?"
FRENCH = "Où est la gare, s'il vous plaît, madame la directrice ?"


def test_languages_are_told_beside_the_loop_and_of_equal_texts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many short texts, which are taken together, as of one."""
    real, read = detect._identifier(), []

    def rank(text: str) -> Any:
        read.append((text, threading.current_thread()))
        return real.rank(text)

    monkeypatch.setattr(detect, "_identifier", lambda: SimpleNamespace(rank=rank))

    async def told() -> list[Any]:
        loop = threading.current_thread()
        found = [await detect.sources(["Hello"] * 200 + [ENGLISH] * 50, "de", ["en"])]
        found.append(await detect.candidates(GERMAN, ["en", "de"]))
        assert loop not in {thread for _, thread in read}
        return found

    sources, candidates = apart(told())
    assert [each.language for each in sources] == ["en"] * 250
    assert candidates[0].language == "de"
    assert len(read) == 3


def test_languages_are_told_rightly_however_many_ask() -> None:
    asked = [[ENGLISH, GERMAN, "Hello"], [FRENCH], [GERMAN, FRENCH], ["Hello", ENGLISH]] * 8

    async def together() -> list[Any]:
        return await asyncio.gather(*(detect.sources(texts, "es", None) for texts in asked))

    alone = [apart(detect.sources(texts, "es", None)) for texts in asked[:4]]
    assert [each.language for each in alone[2]] == ["de", "fr"]
    assert apart(together()) == alone * 8
