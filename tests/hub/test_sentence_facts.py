"""What a folder of sentence-transformers says of its use: so many numbers, compared by this or that."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rich.console import Console

import regard
from regard.config import ConfigError
from regard.deploy.exchange import export_model, import_model
from regard.hub import HubError, read_folder
from regard.meaning.corpus import open_corpus
from regard.meaning.evaluating import evaluate
from regard.meaning.mining import mine
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.embedding.bulk import EmbedBulk
from tests.hub.test_sentences import modules, write
from tests.hub.toys import toy

pytestmark = pytest.mark.usefixtures("unchecked")
FILE = "config_sentence_transformers.json"
TEXTS = ["the cat sat on a mat.", "dogs ran!", "a", "it ran towards a dog"]
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def toys(hf, tmp_path_factory) -> Path:
    return toy(hf, tmp_path_factory.mktemp("toys") / "bert", "bert")


@pytest.fixture
def made(toys, tmp_path):
    """A folder with these facts; of vectors of length 1, unless they are to be raw."""

    def make(unit: bool = True, **facts: object) -> Path:
        folder = tmp_path / "model"
        folder.mkdir()
        for path in toys.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        write(folder / "modules.json", modules("Transformer", "Pooling", *["Normalize"] * unit))
        write(folder / "1_Pooling" / "config.json", {"pooling_mode": "mean", "embedding_dimension": 32})
        names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
        write(folder / "tokenizer_config.json", names)
        write(folder / FILE, facts)
        return folder

    return make


def embedder(folder: Path) -> regard.Embedder:
    return regard.load(folder, regard.Embedder, device="cpu")


@pytest.mark.parametrize("unit", [False, True])
def test_vectors_are_cut_where_the_folder_says_so(st, made, unit):
    folder = made(unit, truncate_dim=12)
    theirs, mine = st.SentenceTransformer(str(folder), device="cpu"), embedder(folder)
    # cut, and of length 1 again where whole vectors are, which is asked for there
    expected = theirs.encode(TEXTS, normalize_embeddings=unit)
    assert expected.shape == (4, 12)
    assert mine.dimensions == 12
    assert_allclose(mine.embed(TEXTS), expected, **CLOSE)
    assert_allclose(mine.embed(TEXTS[0]), expected[0], **CLOSE)
    assert_allclose(EmbedBulk(folder, device="cpu")(TEXTS).columns["vector"], expected, **CLOSE)
    assert mine.embed([]).shape == (0, 12)
    for width in (5, 32):
        other = theirs.encode(TEXTS, truncate_dim=width, normalize_embeddings=unit)
        assert_allclose(mine.embed(TEXTS, dimensions=width), other, **CLOSE)
    # what stands behind the pool is of the model's own way only
    assert mine.embed(TEXTS, pool="max").shape == (4, 32)


def test_more_numbers_than_there_are_is_all_of_them(st, made):
    folder = made(truncate_dim=100)
    expected = st.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    assert embedder(folder).dimensions is None
    assert_allclose(embedder(folder).embed(TEXTS), expected, **CLOSE)


def test_search_compares_vectors_as_they_are_cut(made, tmp_path):
    folder = made(truncate_dim=6)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"{text}\n" for text in TEXTS))
    found = open_corpus(folder, corpus, device="cpu")
    assert found.index.width == 6
    short = embedder(folder).embed(TEXTS, dimensions=6)
    [hits] = found.search([TEXTS[0]], 4)
    assert_allclose([hit.score for hit in sorted(hits)], short @ short[0], **CLOSE)


@pytest.mark.parametrize(
    ("facts", "written"),
    [
        ({}, {"similarity_fn_name": "cosine"}),
        ({"similarity_fn_name": None}, {"similarity_fn_name": "cosine"}),
        ({"truncate_dim": 12}, {"similarity_fn_name": "cosine", "truncate_dim": 12}),
        ({"similarity_fn_name": "dot"}, {"similarity_fn_name": "dot"}),
        ({"similarity_fn_name": "euclidean"}, {"similarity_fn_name": "euclidean"}),
    ],
)
def test_what_a_folder_says_survives_a_round_trip(st, made, tmp_path, console, facts, written):
    folder = made(False, **facts)
    import_model(folder, tmp_path / "ours", console=console)
    export_model(tmp_path / "ours", tmp_path / "back", console=console)
    found = json.loads((tmp_path / "back" / FILE).read_text())
    assert found == {"prompts": {}, "default_prompt_name": None, **written}
    one, other = (st.SentenceTransformer(str(each), device="cpu") for each in (folder, tmp_path / "back"))
    assert_allclose(one.encode(TEXTS), other.encode(TEXTS), **CLOSE)
    assert one.similarity_fn_name == other.similarity_fn_name


def compared(folder: Path, there: Path) -> list[Callable[[], object]]:
    """All that ranks texts by a model's vectors."""
    (there / "corpus.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    (there / "queries.txt").write_text("a dog\n")
    (there / "qrels.txt").write_text("1 0 2 1\n")
    files = {"queries": there / "queries.txt", "corpus": there / "corpus.txt", "qrels": there / "qrels.txt"}
    return [
        lambda: open_corpus(folder, there / "corpus.txt", device="cpu"),
        lambda: evaluate(folder, EvaluateOptions(**files, device="cpu"), Console(quiet=True)),
        lambda: mine(embedder(folder), [("a dog", TEXTS[1])], TEXTS),
    ]


@pytest.mark.parametrize(
    ("unit", "facts"),
    [
        (False, {"similarity_fn_name": "dot"}),
        (False, {"similarity_fn_name": "euclidean"}),
        (True, {"similarity_fn_name": "manhattan"}),
        (True, {"similarity_fn_name": "dot", "truncate_dim": 12}),
    ],
)
def test_what_is_compared_otherwise_than_by_cosine_is_not_ranked_by_it(made, tmp_path, unit, facts):
    folder = made(unit, **facts)
    assert np.isfinite(embedder(folder).embed(TEXTS)).all()
    name = facts["similarity_fn_name"]
    for rank in compared(folder, tmp_path):
        with pytest.raises(
            ConfigError, match=f"vectors are compared by {name} .*only by cosine.*set similarity"
        ):
            rank()


def test_a_dot_product_of_vectors_of_length_1_is_their_cosine(st, made, tmp_path):
    folder = made(similarity_fn_name="dot")
    for rank in compared(folder, tmp_path):
        rank()
    theirs = st.SentenceTransformer(str(folder), device="cpu")
    expected = theirs.similarity(theirs.encode(["a dog"]), theirs.encode(TEXTS))[0]
    [hits] = open_corpus(folder, tmp_path / "corpus.txt", device="cpu").search(["a dog"], 4)
    assert_allclose([hit.score for hit in sorted(hits)], expected, **CLOSE)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"similarity_fn_name": "jaccard"}, "similarity_fn_name='jaccard' is not known, only cosine, dot"),
        ({"truncate_dim": 0}, "truncate_dim=0 must be a whole number from 1, or null"),
        ({"truncate_dim": "many"}, "truncate_dim='many'"),
        ({"truncate_dim": True}, "truncate_dim=True"),
        ({"whiten": "by this"}, "whiten='by this' is not known, and may change"),
    ],
)
def test_what_cannot_be_meant_or_is_not_known_is_refused(made, facts, message):
    with pytest.raises(HubError, match=message):
        read_folder(made(**facts))


def test_what_sentence_transformers_writes_is_read(st, made, tmp_path):
    theirs = st.SentenceTransformer(str(made()), device="cpu", truncate_dim=7, prompts={"query": "a cat "})
    theirs.save(str(tmp_path / "theirs"))
    head = read_folder(tmp_path / "theirs").config.head
    assert (head.dimensions, head.similarity) == (7, "cosine")
    assert [each.name for each in head.prompts] == ["query"]


def test_a_reranker_that_reads_something_before_all_pairs_is_refused(st, hf, tmp_path):
    toy(hf, tmp_path / "plain", "bert", "ForSequenceClassification", num_labels=1)
    write(tmp_path / "plain" / "tokenizer_config.json", {"pad_token": "[PAD]"})
    theirs = st.CrossEncoder(str(tmp_path / "plain"), device="cpu", prompts={"rank": "a cat "})
    theirs.save(str(tmp_path / "theirs"))
    read_folder(tmp_path / "theirs")  # none is set unless it is asked for
    write(
        tmp_path / "theirs" / FILE,
        {**json.loads((tmp_path / "theirs" / FILE).read_text()), "default_prompt_name": "rank"},
    )
    with pytest.raises(HubError, match="default_prompt_name='rank' stands before all pairs"):
        read_folder(tmp_path / "theirs")
