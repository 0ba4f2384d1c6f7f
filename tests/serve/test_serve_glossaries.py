"""Glossaries of a service: no change is lost, and nobody waits for those of others."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from regard.memory import Memory, Segment
from regard.serve.glossaries import WAITING, Dictionary, Glossaries, Glossary
from regard.serve.line import BusyError
from tests.serve.server import Running, apart, serving

DELETING = 100


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "company.db"
    with Memory(path, create=True) as memory:
        memory.add([Segment("a dog sees a red tree", "Ein Hund", "en", "de")])
        memory.add_terms("en", "de", [("tree", "Linde", "usual")])
    return path


@pytest.fixture(scope="module")
def desk(word_model: Path, company: Path) -> Iterator[Running]:
    with serving(f"en-de={word_model}", "--memory", company) as running:
        yield running


def dictionary(entries: str) -> dict[str, str]:
    return {"source_lang": "en", "target_lang": "de", "entries": entries, "entries_format": "tsv"}


def test_no_change_of_a_glossary_is_lost(desk: Running) -> None:
    """Sixteen at a time, and then one that deletes it in the middle of others."""
    with desk.client() as client:
        made = client.post("/v3/glossaries", json={"name": "g", "dictionaries": [dictionary("tree\tBaum")]})
        path = f"/v3/glossaries/{made.json()['glossary_id']}"

        def change(number: int) -> int:
            if number == DELETING:
                return client.delete(path).status_code
            new = {"dictionaries": [dictionary(f"word{number}\tWort{number}")]}
            return client.patch(path, json=new).status_code

        with ThreadPoolExecutor(16) as pool:
            assert [*pool.map(change, range(16))] == [200] * 16
        assert client.get(path).json()["dictionaries"][0]["entry_count"] == 17
        with ThreadPoolExecutor(16) as pool:
            found = [*pool.map(change, range(DELETING - 8, DELETING + 8))]
        assert found[8] == 204
        assert {*found} <= {200, 204, 404}
        assert client.get(path).status_code == 404


def test_changes_that_wait_for_another_writer_hold_up_nobody(desk: Running, company: Path) -> None:
    new = {"name": "late", **dictionary("tree\tTanne")}
    other = sqlite3.connect(company, isolation_level=None)
    with ThreadPoolExecutor(12) as pool, desk.client() as client:
        other.execute("BEGIN IMMEDIATE")
        try:
            waiting = [pool.submit(client.post, "/v2/glossaries", json=new) for _ in range(12)]
            for path, fields in (
                ("/detect", {"q": "Guten Morgen"}),
                ("/v1/translate", {"texts": "a dog"}),
                ("/v2/translate", {"text": ["a tree"], "source_lang": "EN", "target_lang": "DE"}),
                ("/translate", {"q": "Where is the dog? " * 400, "source": "auto", "target": "de"}),
            ):
                assert desk.post(path, fields).status_code == 200
            assert client.get("/v2/glossaries").status_code == 200
            assert not any(each.done() for each in waiting)
        finally:
            other.execute("COMMIT")
            other.close()
        for each in waiting:
            made = each.result()
            assert made.status_code == 201
            client.delete(f"/v2/glossaries/{made.json()['glossary_id']}")


def test_a_line_of_changes_is_bounded(tmp_path: Path) -> None:
    async def many(glossaries: Glossaries) -> list[Any]:
        hold = threading.Event()
        first = asyncio.create_task(glossaries.change("a", lambda _: hold.wait(60)))
        others = [asyncio.create_task(glossaries.change("a", lambda _: None)) for _ in range(WAITING)]
        await asyncio.sleep(0)
        await asyncio.wait([others[-1]])
        hold.set()
        return [await first, *await asyncio.gather(*others, return_exceptions=True)]

    glossaries = Glossaries()
    apart(glossaries.add(Glossary("a", [Dictionary("en", "de", {"tree": "Baum"})])))
    found = apart(many(glossaries))
    assert found[:-1] == [True, *[None] * (WAITING - 1)]
    assert isinstance(found[-1], BusyError)
    glossaries.close()


def test_glossaries_are_made_again_only_when_they_have_changed(tmp_path: Path) -> None:
    path = tmp_path / "many.db"
    with Memory(path, create=True) as memory:
        memory.add_terms("en", "de", [("tree", "", "usual"), ("DOG", "Dackel", "exact"), ("x", "y", "any")])
        for name in ("one", "two"):
            memory.put_glossary(Glossary(name, [Dictionary("en", "de", {"tree": name})], id=name).kept())
    glossaries = Glossaries(Memory(path))

    def known() -> dict[str, Any]:
        return {each.id: each.dictionaries[0].terms for each in apart(glossaries.all())}

    before = known()
    assert [*before] == ["many", "one", "two"]
    with Memory(path) as memory:
        memory.add([Segment("a", "b", "en", "de")])
        assert all(terms is before[id] for id, terms in known().items())
        memory.put_glossary(Glossary("two", [Dictionary("en", "de", {"tree": "2"})], id="two").kept())
        assert [id for id, terms in known().items() if terms is not before[id]] == ["two"]
        memory.add_terms("en", "de", [("tree", "Linde", "usual")])
        assert [id for id, terms in known().items() if terms is not before[id]] == ["many", "two"]
    assert apart(glossaries.get("many")).dictionaries[0].entries["tree"] == "Linde"
    glossaries.close()
