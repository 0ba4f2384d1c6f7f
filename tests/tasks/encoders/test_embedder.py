from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.layout import Layout
from regard.models.headed import Headed
from regard.settings.models import ClassifyConfig, EmbedConfig, PoolConfig, PromptConfig
from regard.tasks.base.reading import ReadingWarning
from regard.tasks.embedding.embedder import Embedder
from regard.text import DataError
from tests.tasks.encoders import toys

TEXTS = [*toys.texts(15), "", "nothing that is known"]
PLAIN = EmbedConfig(normalised=False)
POOLS = {
    "mean": lambda states: states.mean(dim=0),
    "first": lambda states: states[0],
    "max": lambda states: states.amax(dim=0),
}


def embedder(head: Any = PLAIN, longest: int = 512, **shape: Any) -> Embedder:
    return Embedder(toys.reader(toys.model(head, **shape), longest, toys.subwords()))


def layers(model: Headed, text: str) -> list[Tensor]:
    """Of this text alone."""
    ids = torch.tensor(toys.subwords().encode(text, template="cls").ids)
    with torch.no_grad():
        return model.eval().encoder.layers(ids, Layout.of([len(ids)]))


def expected(own: Embedder, pool: str, layer: int = -1, normalised: bool = False) -> np.ndarray:
    found = torch.stack([POOLS[pool](layers(own.reader.model, text)[layer]) for text in TEXTS])
    return (found / found.norm(dim=1, keepdim=True) if normalised else found).numpy()


def close(found: Any, wanted: Any) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("normalised", [False, True])
def test_a_model_gives_the_vectors_it_was_made_for(pool: Any, normalised: bool) -> None:
    own = embedder(EmbedConfig(pool=PoolConfig(kind=pool), normalised=normalised))
    close(own.embed(TEXTS), expected(own, pool, normalised=normalised))
    close(own.embed(TEXTS, normalised=not normalised), expected(own, pool, normalised=not normalised))


@pytest.mark.parametrize("head", [PLAIN, EmbedConfig(), ClassifyConfig(pool=PoolConfig(kind="first"))])
@pytest.mark.parametrize("pool", POOLS)
def test_another_pool_or_layer_can_be_asked_of_any_model(head: Any, pool: Any) -> None:
    own = embedder(head)
    unit = isinstance(head, EmbedConfig) and head.normalised
    close(own.embed(TEXTS, pool=pool), expected(own, pool, normalised=unit))
    for layer in (0, 1, 2, -1, -2, -3):
        found = own.embed(TEXTS, pool=pool, layer=layer, normalised=False)
        close(found, expected(own, pool, layer))


def test_without_a_head_for_it_the_vector_is_the_mean_of_the_last_layer() -> None:
    own = embedder(ClassifyConfig(pool=PoolConfig(kind="first")))
    close(own.embed(TEXTS), expected(own, "mean"))
    close(own.embed(TEXTS, normalised=True), expected(own, "mean", normalised=True))


def test_the_dense_layer_behind_a_pool_is_there_whatever_length_is_wanted() -> None:
    own = embedder(EmbedConfig(pool=PoolConfig(kind="first"), project=5, normalised=True))
    project: Any = own.reader.model.head.project
    states = torch.from_numpy(expected(own, "first"))
    with torch.no_grad():
        plain = torch.tanh(project(states))
    close(own.embed(TEXTS, normalised=False), plain)
    close(own.embed(TEXTS), plain / plain.norm(dim=1, keepdim=True))
    # another layer has none, but is pooled as the model does it
    close(own.embed(TEXTS, layer=1, normalised=False), expected(own, "first", 1))


def test_the_encoders_pooler_is_a_pool_too() -> None:
    own = embedder(EmbedConfig(pool=PoolConfig(kind="pooler"), normalised=False))
    pooler: Any = own.reader.model.encoder.pooler
    with torch.no_grad():
        wanted = torch.tanh(pooler.dense(torch.from_numpy(expected(own, "first"))))
    close(own.embed(TEXTS), wanted)


def test_a_recurrent_encoder_has_its_embedding_and_its_end() -> None:
    own = embedder(PLAIN, preset="recurrent", d_model=16, layers=3)
    assert own.layers == 1
    close(own.embed(TEXTS), expected(own, "mean"))
    close(own.embed(TEXTS, layer=-1), expected(own, "mean"))
    close(own.embed(TEXTS, layer=0), expected(own, "mean", 0))
    assert own.words(["sun rain"])[0].vectors.shape == (2, 2, 16)
    with pytest.raises(ValueError, match="layer=2"):
        own.embed(TEXTS, layer=2)


def test_one_text_is_one_vector_and_none_are_none() -> None:
    for head, width in ((PLAIN, 16), (EmbedConfig(project=5), 5)):
        own = embedder(head)
        vector = own.embed("sun rain")
        assert vector.shape == (width,)
        close(vector, own.embed(["sun rain", "dog"])[0])
        assert own.embed([]).shape == (0, width)
        assert own.embed([]).dtype == vector.dtype == np.float32


def test_what_there_is_not_is_refused() -> None:
    own = embedder()
    assert own.layers == 2
    for layer in (3, -4):
        with pytest.raises(ValueError, match=f"layer={layer}: there are 0, the embedding, to 2"):
            own.embed(TEXTS, layer=layer)
        with pytest.raises(ValueError, match=f"layer={layer}"):
            own.words(TEXTS, layers=[layer])
    with pytest.raises(ValueError, match="pool='last' is none of first, mean, max"):
        own.embed(TEXTS, pool="last")  # type: ignore[arg-type]


LONG = "sun rain tree house dog river old red"


def test_long_texts_are_cut_with_a_warning_refused_or_read_in_windows() -> None:
    for head in (PLAIN, EmbedConfig()):
        own = Embedder(toys.reader(toys.model(head), 6))
        with pytest.warns(ReadingWarning, match="1 of 2 texts"):
            cut = own.embed(["sun", LONG])
        close(cut[1], own.embed("sun rain tree house"))
        with pytest.raises(DataError, match="input:2: too long"):
            own.embed(["sun", LONG], too_long="error")
        whole = own.embed(["sun", LONG, "dog"], too_long="windows")
        parts = own.embed(["sun rain tree house", "tree house dog river", "dog river old red"])
        mean = parts.mean(axis=0)
        close(whole[1], mean / np.linalg.norm(mean) if head.normalised else mean)
        close(whole[[0, 2]], own.embed(["sun", "dog"]))


@pytest.mark.spec("5.8")
def test_a_word_is_the_mean_of_its_tokens_in_every_layer() -> None:
    own = embedder()
    texts = ["sun  likes rain,", "", "house", "un·likely red"]
    found = own.words(texts)
    assert [each.words for each in found] == [
        ["sun", "likes", "rain", ","],
        [],
        ["house"],
        ["un", "·", "likely", "red"],
    ]
    several = 0
    for text, each in zip(texts, found, strict=True):
        encoding = toys.subwords().encode(text, template="cls")
        states = layers(own.reader.model, text)
        assert each.vectors.shape == (3, encoding.word_counts[0], 16)
        for word in range(encoding.word_counts[0]):
            places = [place for place, its in enumerate(encoding.words) if its == word]
            several += len(places) > 1
            for layer in range(3):
                close(each.vectors[layer, word], states[layer][places].mean(dim=0).numpy())
    assert several > 0
    chosen = own.words(texts, layers=[-1, 0])
    for one, other in zip(chosen, found, strict=True):
        close(one.vectors, other.vectors[[2, 0]])


def test_of_a_text_that_is_cut_no_word_gets_the_vector_of_the_template() -> None:
    own = Embedder(toys.reader(toys.model(PLAIN), 6))
    with pytest.warns(ReadingWarning, match="1 of 2 texts"):
        short, long = own.words(["dog", LONG], too_long="cut")
    assert short.words == ["dog"]
    assert long.words == ["sun", "rain", "tree", "house"]
    close(long.vectors, own.words(["sun rain tree house"])[0].vectors)
    with pytest.raises(DataError, match="input:2: too long"):
        own.words(["dog", LONG])
    with pytest.raises(ValueError, match=r"too_long='windows'.*cut"):
        own.words(["dog", LONG], too_long="windows")


def test_words_of_no_texts_or_in_no_layers() -> None:
    own = embedder()
    assert own.words([]) == []
    with pytest.raises(TypeError, match="one string"):
        own.words("sun rain")
    with pytest.raises(ValueError, match="layers"):
        own.words(["sun"], layers=[])


def test_encode_is_embed() -> None:
    own, texts = embedder(), list(toys.texts(4))
    assert np.array_equal(own.encode(texts), own.embed(texts))
    assert np.array_equal(own.encode(np.array(texts), pool="max"), own.embed(texts, pool="max"))
    assert own.encode(texts[0]).shape == own.embed(texts[0]).shape


def test_encode_is_asked_as_sentence_transformers_is() -> None:
    prompts = (PromptConfig(name="query", text="sun "),)
    own, texts = embedder(EmbedConfig(normalised=False, prompts=prompts)), list(toys.texts(4))
    asked = own.embed([f"sun {text}" for text in texts])
    for how in ({"prompt_name": "query"}, {"prompt": "sun "}, {"prompt": "query"}):
        assert np.array_equal(own.encode(texts, **how), asked), how
        assert np.array_equal(own.encode(texts[0], **how), own.embed(f"sun {texts[0]}")), how
    assert np.array_equal(own.encode(texts, prompt=""), own.embed(texts, prompt=""))
    assert np.array_equal(own.encode(texts, batch_size=2, show_progress_bar=True), own.embed(texts))
    short = own.encode(texts, normalize_embeddings=True, truncate_dim=5)
    assert np.array_equal(short, own.embed(texts, normalised=True, dimensions=5))
    usual = {"output_value": "sentence_embedding", "precision": "float32", "device": None}
    assert np.array_equal(own.encode(texts, **usual), own.embed(texts))
    assert np.array_equal(embedder(EmbedConfig()).encode(texts), embedder(EmbedConfig()).embed(texts))
    for how, remedy in (
        ({"convert_to_tensor": True}, r"torch\.from_numpy"),
        ({"convert_to_numpy": False}, r"torch\.from_numpy"),
        ({"output_value": "token_embeddings"}, r"words\(\)"),
        ({"precision": "int8"}, r"regard\.load"),
        ({"device": "cuda"}, r"regard\.load"),
        ({"prompt_name": "passage"}, "it has query"),
    ):
        with pytest.raises(ValueError, match=remedy):
            own.encode(texts, **how)
