"""How far a corpus is, as it is told: shares, speeds and the time that is left."""

import pytest

from regard.corpus import progress
from regard.corpus.folder import Done
from regard.corpus.progress import Meter, shown, shown_planning, shown_texts
from tests.corpus.corpora import corpus


@pytest.fixture
def clock(monkeypatch):
    """Seconds, as the test wants them."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def done(number, rows=10, size=100):
    return Done(number, "run", (), rows, 5 * rows, size, 1.0)


def test_what_was_done_before_counts_for_the_share_and_not_for_the_speed(clock):
    meter = Meter(1000, 10, done_before=4, bytes_before=400)
    assert (meter.share, meter.left) == (0.4, None)
    clock[0] += 2
    meter.shard(done(4))
    assert meter.share == 0.5
    assert (meter.sentences, meter.tokens_a_second) == (5, 25)
    assert meter.left == pytest.approx(2 * 0.5 / 0.1)
    assert meter.line() == "5 of 10 shards, 50.0%, 5 sentences/s, 25 tokens/s, 0:00:10 left"


def test_texts_under_way_count_until_their_shard_is_done(clock):
    meter = Meter(1000, 10)
    clock[0] += 1
    meter.shard(done(0))
    meter.texts(5)
    assert meter.share == pytest.approx(0.15)
    assert meter.sentences == 15
    meter.texts(5)
    meter.shard(done(1))
    assert (meter.share, meter.under_way) == (0.2, 0)
    for number in range(2, 10):
        meter.shard(done(number))
    assert (meter.share, meter.left) == (1.0, 0.0)


def test_hours_and_minutes_are_told(clock):
    meter = Meter(1_000_000, 10)
    clock[0] += 1
    meter.shard(done(0))
    assert meter.line().endswith("2:46:39 left")


def test_without_a_terminal_a_line_is_said_now_and_then(clock, capsys):
    with shown(Meter(1000, 10)) as told:
        for number in range(10):
            clock[0] += 7
            told.shard(done(number))
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == [
        "5 of 10 shards",
        "10 of 10 shards",
    ]


def test_planning_is_told_too(clock, capsys):
    with shown_planning(7) as told:
        for place in range(7):
            clock[0] += 16
            told(place, 1000)
    assert capsys.readouterr().err.splitlines() == [
        f"planning: {place} of 7 files, {(place + 1) * 1000:,} bytes of text" for place in (1, 3, 5)
    ]


def test_texts_that_are_read_are_told_too(clock, capsys):
    with shown_texts("reading [out]", 7000) as told:
        for _ in range(7):
            clock[0] += 16
            told(1000)
    assert capsys.readouterr().err.splitlines() == [
        f"reading [out]: {count},000 of 7,000 texts" for count in (2, 4, 6)
    ]


def test_every_byte_is_told_while_a_corpus_is_planned(capsys, tiny, lines, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", -1.0)
    found = corpus("embed", tiny["embedder"], lines, tmp_path / "out")
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("planning")]
    assert len(said) == found.manifest["shards"]
    assert said[-1].endswith(f"{found.manifest['bytes']:,} bytes of text")
