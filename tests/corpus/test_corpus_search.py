"""What is done with the vectors of a corpus: search, mining, near-duplicates; against the plain formulas."""

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from regard.cli import build
from regard.config import ConfigError
from regard.corpus import Worker, commands
from regard.corpus import dedupe as dedupe_module
from regard.corpus import index as index_module
from regard.corpus import mining as mining_module
from regard.corpus import texts as texts_module
from regard.corpus.dedupe import originals
from regard.corpus.index import ShardedIndex, _trained, open_index
from regard.corpus.mining import mined
from regard.corpus.reading import CorpusReader
from regard.corpus.texts import any_order
from regard.corpus.vectors import ShardedVectors, text_of
from regard.meaning import commands as meaning
from regard.meaning.index import SearchError
from regard.meaning.nearest import nearest
from regard.tasks.base.reading import ReadingWarning
from regard.tasks.base.vectors import normalised
from regard.tasks.embedding.embedder import open_embedder
from regard.tasks.reranking.reranker import Ranked
from regard.text import DataError
from regard.text.phrasebook import phrases
from tests.corpus.corpora import corpus, vectors


@pytest.fixture(scope="module")
def embedded(tiny, tmp_path_factory):
    """Sentences in shards, all of them apart but for the last, which are there twice."""
    folder = tmp_path_factory.mktemp("embedded")
    drawn = [*dict.fromkeys(pair.source for pair in phrases("train", 1500))]
    rows = open_embedder(tiny["embedder"], device="cpu").embed(drawn)
    apart = [row for row in range(len(rows)) if not (rows[:row] @ rows[row] > 0.9999).any()][:500]
    texts = [drawn[row] for row in apart] + [f" {drawn[row]}" for row in apart[:100:2]]
    (folder / "a.txt").write_text("".join(f"{each}\n" for each in texts), encoding="utf-8")
    corpus("embed", tiny["embedder"], folder / "a.txt", folder / "out", shard_tokens=200)
    return folder / "out", texts


def test_shards_are_one_array_and_have_their_texts(embedded):
    out, texts = embedded
    found, whole = ShardedVectors(out), normalised(vectors(out))
    assert found.shape == whole.shape == (len(texts), 64)
    assert np.array_equal(found[3:400], whole[3:400])
    rows = np.array([5, 399, 0, 5, len(texts) - 1])
    assert np.array_equal(found[rows], whole[rows])
    assert [record.texts[0] for record in found.records(rows.tolist())] == [texts[row] for row in rows]
    assert [text_of(record) for record in found.every_record()] == [" ".join(each.split()) for each in texts]


def test_a_folder_of_short_vectors_is_searched_by_such(tiny, tmp_path, lines):
    out, model = tmp_path / "out", tiny["embedder"]
    given = ["corpus", "embed", str(lines), str(out), "--model", str(model), "--dimensions", "16"]
    assert CliRunner().invoke(build(), [*given, "--device", "cpu", "--shard-tokens", "300"]).exit_code == 0
    embedder = open_embedder(model, device="cpu")
    texts = lines.read_text(encoding="utf-8").split("\n")[:-1]
    short = [each for each in texts if 0 < len(each.strip()) < 100]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        assert np.array_equal(vectors(out), embedder.embed(texts, dimensions=16))
    page = io.StringIO()
    how = {"top": 1, "kind": "auto", "index": None, "device": "cpu", "precision": None, "as_json": True}
    meaning.search(model, out, short[:1], console=Console(file=page, width=1000), **how)
    hit = json.loads(page.getvalue())["hits"][0]
    assert hit["text"] == " ".join(short[0].split())
    assert hit["score"] == pytest.approx(1)
    worker = Worker(model, "embed", device="cpu", dimensions=16)
    assert np.array_equal(worker({"text": short[:5]})["vector"], embedder.embed(short[:5], dimensions=16))


def test_a_folder_that_is_not_done_or_has_no_vectors_is_refused(tiny, embedded, tmp_path):
    out, _ = embedded
    with pytest.raises(ConfigError, match="no manifest"):
        ShardedVectors(tmp_path)
    corpus("classify", tiny["classifier"], out.parent / "a.txt", tmp_path / "labels")
    with pytest.raises(ConfigError, match="holds classify, jsonl: vectors are needed"):
        ShardedVectors(tmp_path / "labels")


@pytest.mark.parametrize("kind", ["ivfpq", "hnsw"])
def test_an_index_in_parts_finds_what_the_exact_search_finds(kind, embedded, monkeypatch):
    pytest.importorskip("faiss")
    out, texts = embedded
    found = ShardedVectors(out)
    index = open_index(found, kind, part_rows=150)
    assert len(index.parts) == -(-len(texts) // 150)
    assert index.recall >= 0.9
    queries = found[np.arange(1, 100, 2)]
    rows, cosines = index.search(queries, 5)
    true, scores = nearest(queries, normalised(vectors(out)), 5)
    same = rows == true
    assert same.mean() > 0.9
    assert np.array_equal(cosines[same], scores[same])
    built = {path: path.stat().st_mtime_ns for path in (found.folder.own / f"index-{kind}").iterdir()}
    again = open_index(ShardedVectors(out), kind, part_rows=150)
    assert built == {path: path.stat().st_mtime_ns for path in (found.folder.own / f"index-{kind}").iterdir()}
    assert np.array_equal(again.search(queries, 5)[0], rows)
    part = found.folder.own / f"index-{kind}" / "part-00001.faiss"
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(SearchError, match="not the file that was saved"):
        open_index(ShardedVectors(out), kind, part_rows=150)
    part.unlink()
    assert open_index(ShardedVectors(out), kind, part_rows=150).recall >= 0.9


@pytest.mark.parametrize("kind", ["auto", "ivfpq"])
def test_search_finds_a_sentence_by_itself(kind, tiny, embedded):
    out, texts = embedded
    page = io.StringIO()
    how = {"top": 3, "kind": kind, "index": None, "device": "cpu", "as_json": True}
    meaning.search(tiny["embedder"], out, [texts[40]], console=Console(file=page), **how)
    (found,) = map(json.loads, page.getvalue().splitlines())
    assert found["hits"][0]["text"] == texts[40]
    assert found["hits"][0]["score"] == pytest.approx(1)
    row = found["hits"][0]["row"]
    assert found["hits"][0]["id"].endswith(f"a.txt:{row + 1}")
    with pytest.raises(ConfigError, match="was made by another model"):
        meaning.search(tiny["tagger"], out, ["x"], console=Console(file=page), **how)


def test_a_reranker_orders_what_a_folder_has_and_what_a_folder_cannot_do_is_refused(
    tiny, embedded, monkeypatch
):
    out, texts = embedded

    class ByLength:
        def rerank(self, query, found, *, top):
            order = sorted(range(len(found)), key=lambda row: -len(found[row]))
            return [Ranked(row, found[row], float(len(found[row]))) for row in order[:top]]

    monkeypatch.setattr("regard.corpus.search.open_reranker", lambda *given, **how: ByLength())
    page = io.StringIO()
    how = {"top": 3, "kind": "exact", "index": None, "device": "cpu", "as_json": True}
    how |= {"console": Console(file=page)}

    def hits(**more):
        page.seek(0)
        page.truncate()
        meaning.search(tiny["embedder"], out, [texts[40]], **{**how, **more})
        (found,) = map(json.loads, page.getvalue().splitlines())
        return found["hits"]

    for candidates in (1, 10, 10_000):
        near = hits(top=min(max(candidates, 3), len(texts)))
        best = sorted(near, key=lambda hit: -len(hit["text"]))[:3]
        expected = [{**hit, "score": float(len(hit["text"]))} for hit in best]
        assert hits(rerank=tiny["tagger"], candidates=candidates) == expected
    for name, value in (("dimensions", 8), ("index", out), ("passage_prompt", "x")):
        with pytest.raises(ConfigError, match=f"--{name.replace('_', '-')}"):
            meaning.search(tiny["embedder"], out, ["x"], **{**how, name: value})


def by_hand(left, right, k, threshold):
    """Margins of all pairs; then the best of each side, best first, each once."""
    cosines = left @ right.T
    of_left = np.sort(cosines, axis=1)[:, -k:].mean(axis=1)
    of_right = np.sort(cosines, axis=0)[-k:].mean(axis=0)
    margins = cosines / ((of_left[:, None] + of_right[None]) / 2)
    pairs = set()
    for i in range(len(left)):
        near = np.argsort(-cosines[i])[:k]
        pairs.add((margins[i, near].max(), i, int(near[margins[i, near].argmax()])))
    for j in range(len(right)):
        near = np.argsort(-cosines[:, j])[:k]
        pairs.add((margins[near, j].max(), int(near[margins[near, j].argmax()]), j))
    taken, seen = [], (set(), set())
    for score, i, j in sorted(pairs, reverse=True):
        if score >= threshold and i not in seen[0] and j not in seen[1]:
            taken.append((i, j))
            seen[0].add(i)
            seen[1].add(j)
    return taken


class Plain:
    """Vectors in memory."""

    def __init__(self, rows):
        self.rows, self.shape = normalised(rows), rows.shape

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, wanted):
        return self.rows[wanted]


def test_mining_is_the_margin_of_all_pairs_and_finds_what_belongs_together():
    chance = np.random.default_rng(0)
    left = chance.normal(size=(120, 24))
    right = np.concatenate([left[40:] + 0.3 * chance.normal(size=(80, 24)), chance.normal(size=(50, 24))])
    sides = Plain(left), Plain(right)
    found = mined(*(ShardedIndex(each, "exact") for each in sides), neighbours=4, threshold=1.1)
    pairs = [*zip(found.sources.tolist(), found.targets.tolist(), strict=True)]
    wide = [each.rows.astype(np.float64) for each in sides]
    assert pairs == by_hand(*wide, 4, 1.1)
    assert (np.diff(found.scores) <= 0).all()
    best = [pair for pair, score in zip(pairs, found.scores, strict=True) if score > 1.5]
    assert len(best) >= 70
    assert all(i == j + 40 for i, j in best)


def test_mined_pairs_are_written_best_first(tiny, embedded, tmp_path):
    out, texts = embedded
    (tmp_path / "b.txt").write_text("".join(f"{each}\n" for each in texts[499:99:-3]), encoding="utf-8")
    corpus("embed", tiny["embedder"], tmp_path / "b.txt", tmp_path / "b")
    how = {"neighbours": 4, "threshold": 0.5, "kind": "exact", "console": Console(quiet=True)}
    commands.mine(out, tmp_path / "b", tmp_path / "pairs.tsv", **how)
    lines = [line.split("\t") for line in (tmp_path / "pairs.tsv").read_text().split("\n")[:-1]]
    scores = [float(line[0]) for line in lines]
    assert scores == sorted(scores, reverse=True)
    assert len(lines) > 100
    assert sum(source == target for _, source, target in lines) > 100
    corpus("embed", tiny["classifier"], tmp_path / "b.txt", tmp_path / "c")
    with pytest.raises(ConfigError, match="different models"):
        commands.mine(out, tmp_path / "c", tmp_path / "pairs.tsv", **how)
    corpus("embed", tiny["embedder"], tmp_path / "b.txt", tmp_path / "d", settings={"layer": 0})
    with pytest.raises(ConfigError, match="differ in --pool or --layer"):
        commands.mine(out, tmp_path / "d", tmp_path / "pairs.tsv", **how)


def test_what_is_written_is_packed_as_its_name_says(embedded, tmp_path):
    out, texts = embedded
    how = {"kind": "exact", "console": Console(quiet=True)}
    for name in ("pairs.tsv", "pairs.tsv.gz"):
        commands.mine(out, out, tmp_path / name, neighbours=4, threshold=0.5, **how)
    with gzip.open(tmp_path / "pairs.tsv.gz", "rt", encoding="utf-8") as file:
        assert file.read() == (tmp_path / "pairs.tsv").read_text(encoding="utf-8")
    commands.dedupe(out, tmp_path / "once.jsonl.gz", threshold=0.5, **how)
    with gzip.open(tmp_path / "once.jsonl.gz", "rt", encoding="utf-8") as file:
        assert json.loads(next(file))["text"] == texts[0]
    for name in ("pairs.tsv.zst", "once.txt.zip"):
        with pytest.raises(ConfigError, match=r"not written; end its name in \.gz, \.xz"):
            commands.mine(out, out, tmp_path / name, neighbours=4, threshold=0.5, **how)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_a_folder_or_a_pipe_is_not_replaced_by_what_is_written(embedded, tmp_path):
    out, _ = embedded
    how = {"kind": "exact", "console": Console(quiet=True)}
    with pytest.raises(ConfigError, match="is a folder: name a file"):
        commands.mine(out, out, tmp_path, neighbours=4, threshold=0.5, **how)
    with pytest.raises(ConfigError, match="is a folder: name a file"):
        commands.dedupe(out, tmp_path, threshold=0.5, **how)
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="what is left out is written beside it: name a file"):
        commands.dedupe(out, pipe, threshold=0.5, **how)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    commands.mine(out, out, pipe, neighbours=4, threshold=0.5, **how)
    reader.join(30)
    assert read[0].count("\n") > 400
    assert pipe.is_fifo()


@pytest.mark.parametrize("command", ["mine", "dedupe"])
def test_texts_in_any_order_are_read_shard_by_shard(command, embedded, tmp_path, monkeypatch):
    """Scores, and originals, follow no order: each of their blocks would read every shard."""
    out, _ = embedded
    for module in (texts_module, mining_module, dedupe_module):
        monkeypatch.setattr(module, "_BLOCK", 32)
    read, records = Counter(), CorpusReader.records
    monkeypatch.setattr(
        CorpusReader, "records", lambda self, stretch: (read.update([stretch]), records(self, stretch))[1]
    )
    how = {"kind": "exact", "console": Console(quiet=True)}
    if command == "mine":
        commands.mine(out, out, tmp_path / "pairs.tsv", neighbours=4, threshold=0.1, **how)
        assert (tmp_path / "pairs.tsv").read_text().count("\n") > 400
    else:
        commands.dedupe(out, tmp_path / "once.txt", threshold=0.3, **how)
        assert (tmp_path / "once.txt.dropped.jsonl").read_text().count("\n") > 100
    assert len(read) > 30
    assert max(read.values()) <= {"mine": 2, "dedupe": 3}[command]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp")] == []


def test_texts_of_rows_are_those_of_their_records(embedded, tmp_path):
    out, texts = embedded
    rows = np.random.default_rng(0).integers(0, len(texts), 300)
    with any_order(ShardedVectors(out), rows, tmp_path) as text:
        assert [text(row) for row in rows] == [" ".join(texts[row].split()) for row in rows]
        assert [*tmp_path.iterdir()] == []


def kept_by_hand(rows, threshold):
    of = []
    for row in range(len(rows)):
        near = [each for each in range(row) if of[each] == each and rows[row] @ rows[each] >= threshold]
        of.append(near[0] if near else row)
    return of


@pytest.mark.parametrize("block", [16, 1000])
def test_what_stays_is_what_a_plain_loop_keeps(block):
    chance = np.random.default_rng(1)
    rows = Plain(np.repeat(chance.normal(size=(60, 8)), 4, axis=0) + 0.25 * chance.normal(size=(240, 8)))
    rows.rows = rows.rows[chance.permutation(240)]
    of, _ = originals(ShardedIndex(rows, "exact"), 0.93, block)
    assert of.tolist() == kept_by_hand(rows.rows.astype(np.float64), 0.93)
    assert 60 < (of == np.arange(240)).sum() < 200


def test_near_duplicates_are_left_out_and_told(embedded, tmp_path):
    out, texts = embedded
    console = Console(quiet=True)
    commands.dedupe(out, tmp_path / "once.txt", threshold=0.999999, kind="exact", console=console)
    stay = (tmp_path / "once.txt").read_text().split("\n")[:-1]
    assert stay == texts[: len(stay)] == [*dict.fromkeys(each.strip() for each in texts)]
    lines = (tmp_path / "once.txt.dropped.jsonl").read_text().split("\n")[:-1]
    dropped = [json.loads(line) for line in lines]
    assert len(stay) + len(dropped) == len(texts)
    line = {f"{out.parent / 'a.txt'}:{n}": text for n, text in enumerate(texts, 1)}
    assert all(line[each["id"]].split() == line[each["of"]].split() for each in dropped)


def found_texts(model, out, query):
    page = io.StringIO()
    how = {"top": 1, "kind": "exact", "index": None, "device": "cpu", "as_json": True}
    meaning.search(model, out, [query], console=Console(file=page), **how)
    return [(each["text"], each["id"]) for each in json.loads(page.getvalue())["hits"]]


def test_texts_are_found_from_any_folder_by_the_names_that_were_given(tiny, embedded, tmp_path, monkeypatch):
    _, texts = embedded
    (tmp_path / "a.txt").write_text("".join(f"{each}\n" for each in texts[:50]), encoding="utf-8")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    corpus("embed", tiny["embedder"], "a.txt", Path("out"))
    monkeypatch.chdir(tmp_path / "other")
    assert found_texts(tiny["embedder"], tmp_path / "out", texts[40]) == [(texts[40], "a.txt:41")]


def test_texts_that_are_not_what_was_embedded_are_refused_by_name(tiny, embedded, tmp_path):
    _, texts = embedded
    path, out, console = tmp_path / "a.txt", tmp_path / "out", Console(quiet=True)
    path.write_text("".join(f"{each}\n" for each in texts[:50]), encoding="utf-8")
    corpus("embed", tiny["embedder"], path, out)
    os.utime(path)
    assert found_texts(tiny["embedder"], out, texts[40])[0][0] == texts[40]
    path.write_text("".join(f"{each}\n" for each in texts[1:51]), encoding="utf-8")
    given = {"threshold": 0.9, "kind": "exact", "console": console}
    for asked in (
        lambda: found_texts(tiny["embedder"], out, texts[40]),
        lambda: commands.mine(out, out, tmp_path / "pairs.tsv", neighbours=4, **given),
        lambda: commands.dedupe(out, tmp_path / "once.txt", **given),
    ):
        with pytest.raises(DataError, match=r"a\.txt: is not what it was .*embed it anew"):
            asked()
    path.unlink()
    with pytest.raises(DataError, match=r"a\.txt: is gone from .*bring it back"):
        found_texts(tiny["embedder"], out, texts[40])
    assert not (tmp_path / "once.txt").exists()


def near_copies(count, apart, width=16):
    """Groups of vectors that are nearly the same, and others."""
    chance = np.random.default_rng(3)
    many = np.repeat(chance.normal(size=(2, width)), count, axis=0)
    rows = np.concatenate([many + 1e-3 * chance.normal(size=many.shape), chance.normal(size=(apart, width))])
    return Plain(rows[chance.permutation(len(rows))])


@pytest.mark.parametrize("kind", ["ivfpq", "hnsw", "by later ones first"])
def test_by_an_index_one_of_very_many_copies_stays(kind, monkeypatch):
    """More than an index is asked for at first, and some of them are left out already."""
    rows = near_copies(200, 60)
    wanted = kept_by_hand(rows.rows.astype(np.float64), 0.99)
    assert (np.array(wanted) == np.arange(460)).sum() == 62
    if kind == "by later ones first":
        index = LatestFirst(rows, "ivfpq")
    else:
        faiss = pytest.importorskip("faiss")
        whole = _trained(faiss, rows, kind)
        whole.add(rows.rows.astype(np.float32))
        index = ShardedIndex(rows, kind, ((0, whole),))
    of, cosines = originals(index, 0.99)
    assert of.tolist() == wanted
    copies = of != np.arange(460)
    assert (cosines[copies] >= 0.99).all()
    assert (cosines[~copies] == 1).all()


class LatestFirst(ShardedIndex):
    """As an index may do: of neighbours that are about as near, the later rows."""

    def search(self, queries, k):
        cosines = queries @ self.vectors.rows.T
        coarse = np.round(cosines, 2)
        order = np.stack([np.lexsort((-np.arange(len(each)), -each))[:k] for each in coarse])
        return order, np.take_along_axis(cosines, order, axis=1)


def test_rows_that_many_are_near_to_are_compared_with_all_that_stay():
    """A cloud in which most neighbours were left out for something that is too far away."""
    chance = np.random.default_rng(5)
    rows = Plain(np.ones((400, 6)) + 0.25 * chance.normal(size=(400, 6)))
    wanted = kept_by_hand(rows.rows.astype(np.float64), 0.97)
    assert 10 < (np.array(wanted) == np.arange(400)).sum() < 200
    of, _ = originals(LatestFirst(rows, "ivfpq"), 0.97)
    assert (of == np.arange(400)).tolist() == (np.array(wanted) == np.arange(400)).tolist()


@pytest.mark.parametrize("kind", ["ivfpq", "hnsw"])
def test_mining_and_dedupe_by_an_index_are_those_of_the_exact_search(kind, embedded):
    pytest.importorskip("faiss")
    found = ShardedVectors(embedded[0])
    index, exact = open_index(found, kind, part_rows=150), ShardedIndex(found, "exact")
    mine, plain = (mined(each, each, neighbours=4, threshold=1.0) for each in (index, exact))
    pairs = [{*zip(each.sources.tolist(), each.targets.tolist(), strict=True)} for each in (mine, plain)]
    assert len(pairs[0] & pairs[1]) > 0.9 * len(pairs[1])
    assert originals(index, 0.999999)[0].tolist() == originals(exact, 0.999999)[0].tolist()


def test_two_that_search_for_the_first_time_at_once_build_one_index(embedded, tmp_path):
    pytest.importorskip("faiss")
    out = tmp_path / "out"
    shutil.copytree(embedded[0], out, ignore=shutil.ignore_patterns("index-*"))
    command = [sys.executable, "-c", BUILD, str(out)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    said = [each.communicate(timeout=300) for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    assert sorted(each.count(b"index:") for each, _ in said) == [0, 4]
    assert not [*(out / ".regard").rglob("*.partial")]
    built = {each.name for each in (out / ".regard" / "index-ivfpq").iterdir()}
    assert built == {*(f"part-{number:05d}.faiss" for number in range(4)), "index.json", "lock"}


BUILD = """
import sys
from regard.corpus.index import open_index
from regard.corpus.vectors import ShardedVectors
index = open_index(ShardedVectors(sys.argv[1]), "ivfpq", print, part_rows=150)
assert index.recall > 0.9
"""


def test_an_index_is_read_whole_only_where_its_files_are_others(embedded, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    out = tmp_path / "out"
    shutil.copytree(embedded[0], out, ignore=shutil.ignore_patterns("index-*"))
    open_index(ShardedVectors(out), "ivfpq", part_rows=150)
    read, digest = [], index_module._digest
    monkeypatch.setattr(index_module, "_digest", lambda path: read.append(path.name) or digest(path))
    open_index(ShardedVectors(out), "ivfpq", part_rows=150)
    assert read == []
    os.utime(out / ".regard" / "index-ivfpq" / "part-00002.faiss")
    open_index(ShardedVectors(out), "ivfpq", part_rows=150)
    assert read == ["part-00002.faiss"]


@pytest.mark.parametrize("kind", ["exact", "ivfpq"])
def test_all_that_is_exactly_twice_is_left_out_at_a_threshold_of_one(kind):
    """Of unit vectors in float32 about half have a product with themselves that is below 1."""
    rows = Plain(np.tile(np.random.default_rng(7).normal(size=(150, 24)), (2, 1)))
    own = (rows.rows.astype(np.float64) ** 2).sum(axis=1)
    assert (own[:150] < 1).sum() > 30
    index = ShardedIndex(rows, "exact") if kind == "exact" else LatestFirst(rows, kind)
    of, _ = originals(index, 1.0)
    assert of.tolist() == [*range(150), *range(150)]


def test_lines_that_stay_are_as_they_were_and_unread_ones_are_told(tiny, tmp_path):
    texts = ["a\u00a0good\tday", "the  dog\u3000sleeps", "an\x85old house ", "two\nlines", "where is it"]
    lines = [json.dumps({"text": each}) for each in texts]
    lines[2:2] = ['{"text": 5}', "{"]
    (tmp_path / "a.jsonl").write_text("".join(f"{each}\n" for each in [*lines, lines[0]]))
    corpus("embed", tiny["embedder"], tmp_path / "a.jsonl", tmp_path / "out", shard_tokens=40)
    page = io.StringIO()
    how = {"threshold": 1.0, "kind": "exact", "console": Console(file=page, width=500)}
    commands.dedupe(tmp_path / "out", tmp_path / "once.txt", **how)
    stay = (tmp_path / "once.txt").read_bytes().decode().split("\n")[:-1]
    assert stay == [each.replace("\n", " ") for each in texts]
    dropped = (tmp_path / "once.txt.dropped.jsonl").read_text().split("\n")[:-1]
    assert [(each["id"].rpartition(":")[2], "of" in each) for each in map(json.loads, dropped)] == [
        ("3", False),
        ("4", False),
        ("8", True),
    ]
    assert json.loads(dropped[0])["reason"].startswith("no text in column 'text'")
    assert "5 records; 1 duplicates and 2 that could not be read were left out" in page.getvalue()
