"""A memory: what is found is what a scan over everything finds; imports are whole or nothing."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.memory import Match, Memory, MemoryFileError, Segment, lookup
from regard.memory.words import normal, occurrences, score, words
from regard.text.phrasebook.corpus import phrases


def naive_distance(one: list[str], other: list[str]) -> int:
    row = [*range(len(other) + 1)]
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


@given(st.text("abA .,漢字é", max_size=30), st.text("abA .,漢字é", max_size=30))
def test_the_score_is_the_share_of_words_that_need_no_edit(one, other):
    first, second = words(one), words(other)
    if normal(one) == normal(other):
        expected = 100 if normal(one) else 0
    elif not (first and second):
        expected = 0
    else:
        longest = max(len(first), len(second))
        expected = min(100 * (longest - naive_distance(first, second)) // longest, 99)
    assert score(one, other) == expected
    assert score(one, other) == score(other, one)


def test_words_are_runs_of_letters_signs_and_single_characters_of_scripts_without_spaces():
    assert words("Don't stop—Ever!  駅はどこ a1") == [
        "don",
        "'",
        "t",
        "stop",
        "—",
        "ever",
        "!",
        *"駅はどこ",
        "a1",
    ]
    assert words("駅abc駅") == ["駅", "abc", "駅"]
    assert words("हिन्दी भाषा अच्छी है") == ["हिन्दी", "भाषा", "अच्छी", "है"]
    assert score("हिन्दी भाषा अच्छी है", "हिन्दी भाषा सुन्दर है") == 75
    assert words("รักกรุง") == ["รั", "ก", "ก", "รุ", "ง"]
    assert words("❤\ufe0fabc") == ["❤\ufe0f", "abc"]


def test_a_word_that_comes_again_is_another_token():
    assert occurrences([5, 7, 5, 5]) == [5, 7, 5 | 1 << 24, 5 | 2 << 24]


def filled(path: Path, segments: list[Segment], **how: bool) -> Memory:
    memory = Memory(path, create=True)
    memory.add(segments, **how)
    return memory


def pair(source: str, target: str = "x", **more: str) -> Segment:
    return Segment(source, target, more.pop("own", "en"), more.pop("other", "de"), **more)


def brute_force(sources: list[str], text: str, at_least: int) -> list[tuple[int, str]]:
    """Scores in the order of a search: best first, of equals what came first."""
    scored = [(score(text, each), each) for each in sources]
    return sorted([each for each in scored if each[0] >= at_least], key=lambda each: -each[0])


def edited(text: str, others: list[str], chance: random.Random) -> str:
    own = text.split()
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(own))
        match chance.randrange(3):
            case 0:
                own[place] = chance.choice(chance.choice(others).split())
            case 1 if len(own) > 1:
                del own[place]
            case _:
                own.insert(place, chance.choice(chance.choice(others).split()))
    return " ".join(own)


@pytest.mark.parametrize("at_least", [1, 50, 70, 85, 100])
def test_a_search_finds_all_that_a_scan_finds(tmp_path, at_least):
    chance = random.Random(0)
    sources = [*dict.fromkeys(each.source for each in phrases("train", 400, seed=1))]
    sources += [*{edited(each, sources, chance) for each in sources} - set(sources)]
    with filled(tmp_path / "m.db", [pair(each, each.upper()) for each in sources]) as memory:
        for text in chance.sample(sources, 40) + [edited(each, sources, chance) for each in sources[:80]]:
            found = memory.search(text, "en", "de", at_least=at_least, limit=10_000)
            assert [(each.score, each.source) for each in found] == brute_force(sources, text, at_least)
            few = memory.search(text, "en", "de", at_least=at_least, limit=3)
            assert few == found[:3]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab c", min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=30), st.data()
)
def test_any_texts_however_alike_are_all_found(tmp_path_factory, texts, data):
    sources = [*dict.fromkeys(normal(each) for each in texts)]
    at_least = data.draw(st.integers(1, 100))
    query = data.draw(st.text("ab cd", max_size=12))
    with filled(tmp_path_factory.mktemp("m") / "m.db", [pair(each) for each in sources]) as memory:
        found = memory.search(query, "en", "de", at_least=at_least, limit=1000)
    assert [(each.score, each.source) for each in found] == brute_force(sources, query, at_least)


def test_lists_in_several_parts_are_read_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.memory.writing.BLOCK", 7)
    monkeypatch.setattr("regard.memory.writing.SMALL", 12)
    sources = [f"word {i % 5} and {i % 7} of number {i}" for i in range(200)]
    with Memory(tmp_path / "m.db", create=True) as memory:
        for i in range(0, 200, 23):
            memory.add(pair(each) for each in sources[i : i + 23])
        for text in sources[::9]:
            found = memory.search(text, "en", "de", limit=1000)
            assert [(each.score, each.source) for each in found] == brute_force(sources, text, 70)


def test_a_text_of_very_many_words_is_found_if_it_is_the_same(tmp_path):
    long = "very " * 400 + "long"
    with filled(tmp_path / "m.db", [pair(long, "lang"), pair("a b c")]) as memory:
        assert memory.search(long, "en", "de")[0].score == 100
        assert memory.search(long + " indeed", "en", "de") == []


def test_languages_match_as_their_codes_do(tmp_path):
    segments = [
        pair("Hello world", "Hallo Welt", own="en-US", other="de-AT"),
        pair("Hello world", "Bonjour", own="en_us", other="FR"),
        pair("Hello world", "Servus", own="en-GB", other="de"),
    ]
    with filled(tmp_path / "m.db", segments) as memory:
        assert memory.search("Hello world", "en-US", "de")[0].target == "Hallo Welt"
        assert {each.target for each in memory.search("Hello world", "en", "de")} == {"Hallo Welt", "Servus"}
        assert memory.search("hello world", "en", "fr")[0].target == "Bonjour"
        assert memory.search("Hello world", "en-AU", "de") == []
        assert memory.search("Hello brave world", "it", "de", at_least=10) == []
        assert memory.pairs() == {("en-gb", "de"): 1, ("en-us", "de-at"): 1, ("en-us", "fr"): 1}


def test_the_newest_translation_stays(tmp_path):
    new, old = "20240101T000000Z", "20200101T000000Z"
    with filled(tmp_path / "m.db", [pair("Hello", "Hallo", date=new)]) as memory:
        assert memory.add([pair("Hello", "Tag", date=old)]).known == 1
        assert memory.exact("Hello", "en", "de") == Match("Hello", "Hallo", 100, "en", "de", new)
        assert memory.add([pair(" Hello ", "Moin", date=new)]).replaced == 1
        assert memory.exact("Hello", "en", "de").target == "Moin"
        memory.add([pair("Hello", "Servus"), pair("Hello", "Moin", date=old)], keep_all=True)
        assert {each.target for each in memory.search("Hello", "en", "de")} == {"Moin", "Servus"}
        assert memory.exact("Hello", "en", "de").target == "Servus", "it is as new as its import"
        assert len(memory) == 2


def test_a_correction_without_a_date_is_as_new_as_its_import(tmp_path):
    new, old = "20240101T000000Z", "20200101T000000Z"
    with filled(tmp_path / "m.db", [pair("Hello", "Halo", date=new)]) as memory:
        assert memory.add([pair("Hello", "Hallo")]).replaced == 1
        assert memory.add([pair("Hello", "Tag", date=old)]).known == 1
        assert [each.target for each in memory.segments()] == ["Hallo"]
        assert next(memory.segments()).date == "", "nobody knows it"
        memory.add([pair("Bye", "Tschüss", date=old, author="Anna")])
        assert memory.add([pair("Bye", "Tschüss")]).known == 1
        assert memory.exact("Bye", "en", "de").author == "Anna", "what is known stays"


def test_the_newest_alone_stays_where_all_were_kept(tmp_path):
    with filled(tmp_path / "m.db", [pair("Hello", "A"), pair("Hello", "B")], keep_all=True) as memory:
        assert memory.add([pair("Hello", "C")]).replaced == 1
        assert [each.target for each in memory.segments()] == ["C"]
        memory.add([pair("Hello", "D")], keep_all=True)
        assert memory.add([pair("Hello", "C")]).replaced == 1
        assert [each.target for each in memory.segments()] == ["C"]


def test_of_equal_texts_the_language_as_spelled_comes_first_then_the_newest(tmp_path):
    segments = [
        pair("Hello", "British", own="en-GB", date="20100101T000000Z"),
        pair("Hello", "plain", own="en", date="20050101T000000Z"),
        pair("Hello", "American", own="en-US", date="20240101T000000Z"),
    ]
    with filled(tmp_path / "m.db", segments) as memory:
        for code, expected in (("en", "plain"), ("en-gb", "British"), ("EN_US", "American")):
            assert memory.exact("Hello", code, "de").target == expected
            assert memory.search("Hello", code, "de", limit=1)[0].target == expected
        found = [each.target for each in memory.search("Hello", "en", "de")]
        assert found == ["plain", "American", "British"]


def test_lookup_gives_the_best_match_or_none(tmp_path):
    with filled(tmp_path / "m.db", [pair("Where is the station?", "Wo ist der Bahnhof?")]) as memory:
        near, exact = lookup(memory, "en", "de"), lookup(memory, "en", "de", at_least=100)
        assert near("Where is the station?").exact
        assert near("Where is the hotel?").score == 80
        assert near("Something else entirely") is None
        assert exact("Where is the hotel?") is None
        assert exact("Where  is the station?").target == "Wo ist der Bahnhof?"
        assert near("") is None


def test_an_import_that_fails_leaves_nothing(tmp_path):
    def broken():
        yield pair("one two three")
        raise KeyError("in the midst")

    with filled(tmp_path / "m.db", [pair("zero one two")]) as memory:
        with pytest.raises(KeyError):
            memory.add(broken())
        assert [each.source for each in memory.segments()] == ["zero one two"]
        with pytest.raises(ValueError, match="empty side"):
            memory.add([pair("good"), pair("  ")])
        memory.add([pair("one two three four")])
        assert [each.source for each in memory.search("one two three", "en", "de")] == ["one two three four"]


def test_readers_see_whole_imports_while_one_writes(tmp_path):
    path = tmp_path / "m.db"
    filled(path, [pair("number 0 of them")]).close()
    seen, done = [], threading.Event()

    def read():
        with Memory(path) as memory:
            while not done.is_set():
                seen.append(len(memory.search("number 0 of them", "en", "de", at_least=75, limit=1000)))
            seen.append(len(memory.search("number 0 of them", "en", "de", at_least=75, limit=1000)))

    reader = threading.Thread(target=read)
    reader.start()
    with Memory(path) as memory:
        for start in range(1, 301, 100):
            memory.add(pair(f"number {i} of them") for i in range(start, start + 100))
            time.sleep(0.05)
    done.set()
    reader.join()
    assert set(seen) <= {1, 101, 201, 301}
    assert seen[-1] == 301
    assert seen == sorted(seen)


WRITER = """
import sys
from regard.memory import Memory, Segment
def segments():
    for i in range(10**9):
        if i == 60_000:
            print("under way", flush=True)
        yield Segment(f"segment {i} of the second import", "x", "en", "de")
Memory(sys.argv[1], create=True).add(segments())
"""


def test_killed_in_the_midst_of_an_import_nothing_is_lost_and_nothing_half(tmp_path):
    path = tmp_path / "m.db"
    filled(path, [pair(f"segment {i} of the first import") for i in range(500)]).close()
    for _ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout.readline() == "under way\n"
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        with Memory(path) as memory:
            assert len(memory) == 500
            assert memory.search("segment 7 of the first import", "en", "de", limit=1)[0].score == 100
            assert memory.search("segment 7 of the second import", "en", "de", at_least=99) == []
        check = sqlite3.connect(path)
        assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        check.close()
    with Memory(path) as memory:
        memory.add([pair("one more")])
        assert len(memory) == 501


def test_files_that_are_no_memories_are_refused(tmp_path):
    with pytest.raises(MemoryFileError, match=r"no such memory; make one with regard memory import"):
        Memory(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("hello " * 1000)
    with pytest.raises(MemoryFileError, match="not a database"):
        Memory(tmp_path / "text.db")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(MemoryFileError, match="no memory of regard"):
        Memory(tmp_path / "other.db", create=True)
    filled(tmp_path / "new.db", []).close()
    newer = sqlite3.connect(tmp_path / "new.db")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(MemoryFileError, match="version 99"):
        Memory(tmp_path / "new.db")


def test_a_full_disk_is_told_and_changes_nothing(tmp_path):
    with filled(tmp_path / "m.db", [pair("zero one two")]) as memory:
        (pages,) = memory._file.execute("PRAGMA page_count").fetchone()
        memory._file.execute(f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(MemoryFileError, match="full; make room on the disk; the memory is as it was"):
            memory.add(pair(f"number {i} of them", "x" * 1000) for i in range(1000))
        memory._file.execute("PRAGMA max_page_count = 1000000")
        assert len(memory) == 1
        assert memory.add([pair("one more")]).new == 1


def test_a_memory_that_another_creates_at_this_moment_is_waited_for(tmp_path):
    class Busy:
        """A connection that another has just locked out of the switch to WAL."""

        def __init__(self, file: sqlite3.Connection) -> None:
            self.file, self.refusals = file, 2

        def execute(self, statement: str) -> None:
            if self.refusals:
                self.refusals -= 1
                raise sqlite3.OperationalError("database is locked")
            self.file.execute(statement)

    with filled(tmp_path / "m.db", []) as memory:
        whole, memory._file = memory._file, Busy(memory._file)
        memory._patiently("PRAGMA journal_mode = WAL")
        assert memory._file.refusals == 0
        memory._file = whole


def test_what_others_add_is_found_at_once(tmp_path):
    """Only what is new is read; the result is as if all were."""
    sources = [f"word {i % 5} and {i % 7} of number {i}" for i in range(60)]
    with filled(tmp_path / "m.db", [pair(sources[0])]) as memory, Memory(tmp_path / "m.db") as other:
        for i, text in enumerate(sources[1:], 1):
            (other if i % 2 else memory).add([pair(text, own="en" if i % 3 else "fr")])
            there = [each for j, each in enumerate(sources[: i + 1]) if j % 3 or j == 0]
            found = memory.search(text, "en", "de", limit=1000)
            assert [(each.score, each.source) for each in found] == brute_force(there, text, 70)


def test_a_memory_of_version_1_is_brought_up_to_date(tmp_path):
    with filled(tmp_path / "m.db", [pair("हिन्दी भाषा अच्छी है", "x", date="20200101T000000Z")]) as memory:
        file = memory._file
        file.execute("ALTER TABLE targets DROP COLUMN as_of")
        file.execute("DELETE FROM words")
        file.execute("DELETE FROM postings")
        file.execute("PRAGMA user_version = 1")
    with Memory(tmp_path / "m.db") as memory:
        assert memory.search("हिन्दी भाषा सुन्दर है", "en", "de")[0].score == 75
        assert memory.add([pair("हिन्दी भाषा अच्छी है", "older", date="20100101T000000Z")]).known == 1
    with Memory(tmp_path / "m.db") as memory:
        assert memory._file.execute("PRAGMA user_version").fetchone() == (2,)


def test_what_cannot_be_asked_is_refused(tmp_path):
    with filled(tmp_path / "m.db", [pair("a")]) as memory:
        with pytest.raises(ValueError, match="at_least=0"):
            memory.search("a", "en", "de", at_least=0)
        with pytest.raises(ValueError, match="limit=0"):
            memory.search("a", "en", "de", limit=0)
