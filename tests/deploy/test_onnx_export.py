"""Exported folders: onnxruntime and tokenizers alone get from them what the model says."""

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tokenizers
import torch
from rich.console import Console
from typer.testing import CliRunner

from regard.cli import build
from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.deploy import exchange, onnx_compare, onnx_write
from regard.deploy.export import ExportError
from regard.deploy.folder import written_whole
from regard.deploy.onnx_compare import Gaps, compare_encoder
from regard.deploy.onnx_export import export_onnx
from regard.deploy.onnx_models import PaddedHeaded
from regard.hub import DecoderCheckpoint
from regard.models.decoder import Decoder
from regard.models.headed import Headed, HeadedConfig
from regard.settings.models import (
    ClassifyConfig,
    EmbedConfig,
    HeadConfig,
    MaskedConfig,
    PoolConfig,
    TagConfig,
)
from regard.settings.network import EmbeddingConfig, NormConfig, PositionsConfig, RecurrentConfig
from regard.tasks.base.folder import whole
from regard.tasks.base.predictor import Predictor
from regard.tasks.base.reading import Reader
from regard.tasks.classification.classifier import Classifier, probabilities
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.language.generator import Generator
from regard.tasks.language.start import save_language
from regard.tasks.pretraining.filler import Filler
from regard.tasks.tagging.tagger import Tagger
from regard.tasks.translation.translator import Translator
from tests.models.families import MODERN, encoder, transformer
from tests.tasks import copying
from tests.tasks.encoders import toys
from tests.tasks.language import scripted

pytestmark = pytest.mark.usefixtures("unchecked")  # shapes: tests/deploy/test_onnx_models.py
LONGEST = 24
TEXTS = [*toys.texts(5), "sun"]


def stirred(model):
    """With weights far from zero, so that everything can be felt."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


def reader(head: HeadConfig, body, positions: str | PositionsConfig, **settings: Any) -> Reader:
    torch.manual_seed(0)
    own = toys.tokenizer()
    shape = replace(encoder(body, positions), vocabulary=len(own), **settings)
    return Reader(stirred(Headed(HeadedConfig(encoder=shape, head=head))), own, longest=LONGEST)


def exported(model: Predictor, folder: Path, **settings: Any) -> str:
    """What was said."""
    said = io.StringIO()
    export_onnx(model, folder, console=Console(file=said, width=200), **settings)
    return said.getvalue()


def tokens_of(folder: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def session(folder: Path, name: str = "model") -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options)


def run(folder: Path, texts: Sequence[str]) -> tuple[dict[str, np.ndarray], list[tokenizers.Encoding]]:
    """As somebody would who has never heard of regard."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer, graph = tokens_of(folder), session(folder)
    tokenizer.enable_padding(pad_id=config["pad_token_id"])
    read = tokenizer.encode_batch(list(texts), add_special_tokens=config["add_special_tokens"])
    feed = {
        "input_ids": np.array([each.ids for each in read]),
        "attention_mask": np.array([each.attention_mask for each in read]),
        "token_type_ids": np.array([each.type_ids for each in read]),
    }
    feed["position_ids"] = np.maximum(feed["attention_mask"].cumsum(axis=1) - 1, 0)
    names = [each.name for each in graph.get_outputs()]
    wanted = {each.name: feed[each.name] for each in graph.get_inputs()}
    return dict(zip(names, graph.run(names, wanted), strict=True)), read


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    bert = {"embedding": EmbeddingConfig(segments=2, normed=True, scaled=False), "pooler": True}
    head = ClassifyConfig(labels=3, pool=PoolConfig(kind="pooler"))
    return Classifier(reader(head, transformer(layers=1), "learned", **bert), ["yes", "no", "perhaps"])


@pytest.fixture(scope="module")
def out(classifier: Classifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx") / "out"
    said = exported(classifier, folder, samples=TEXTS).splitlines()
    assert [line.split(":")[0] for line in said[:2]] == ["logits", "probabilities"]
    assert said[2] == "6 of 6 labels the same"
    assert said[3].endswith("for onnxruntime and tokenizers")
    return folder


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], ["sun rain " * 9, "", "dog"]])
def test_a_classifier_gives_its_labels_and_probabilities(texts, classifier, out):
    found, _ = run(out, texts)
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    chances = probabilities(found["logits"], "single")
    for row, own in zip(chances, classifier.classify(texts), strict=True):
        assert config["id2label"][str(row.argmax())] == own.label
        assert row.max() == pytest.approx(own.value, abs=1e-4)


def test_a_pair_has_its_segments(classifier, out):
    pair = tokens_of(out).encode("the old sun", "sees rain")
    feed = {
        "input_ids": [pair.ids],
        "attention_mask": [pair.attention_mask],
        "token_type_ids": [pair.type_ids],
    }
    (found,) = session(out).run(["logits"], {name: np.array(each) for name, each in feed.items()})
    assert found == pytest.approx(classifier.scores(["the old sun"], ["sees rain"]), abs=1e-4)
    feed["token_type_ids"] = [[0] * len(pair.ids)]
    (other,) = session(out).run(["logits"], {name: np.array(each) for name, each in feed.items()})
    assert np.abs(other - found).max() > 1e-2


def test_a_folder_says_what_goes_in_and_what_comes_out(out):
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    grid = ["batch_size", "sequence_length"]
    assert config["files"] == {
        "model.onnx": {
            "inputs": {"input_ids": grid, "attention_mask": grid, "token_type_ids": grid},
            "outputs": {"logits": ["batch_size", 3]},
        }
    }
    assert {path.name for path in out.iterdir()} == {"config.json", "model.onnx", "tokenizer.json"}
    assert (config["task"], config["problem_type"]) == ("classify", "single_label_classification")
    assert (config["trained_length"], config["max_position_embeddings"]) == (LONGEST, 64)


def test_no_path_of_this_machine_is_in_a_file(out):
    content = (out / "model.onnx").read_bytes()
    assert b"site-packages" not in content
    assert b".py" not in content


def test_an_input_past_the_learned_positions_is_an_error_there(out):
    long = np.ones((1, 65), dtype=np.int64)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="bounds"):
        session(out).run(None, dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), long))


def test_a_model_that_says_something_else_is_found_out(classifier, out):
    bias = classifier.reader.model.head.output.bias
    with torch.no_grad():
        bias[0] += 0.1
    try:
        with pytest.raises(
            ExportError, match=r"logits: .* apart .*, which is more than rounding: .*not kept"
        ):
            compare_encoder(classifier, out, TEXTS, Console(quiet=True))
    finally:
        with torch.no_grad():
            bias[0] -= 0.1


def test_nothing_is_left_behind_of_what_was_not_finished(tmp_path):
    with pytest.raises(ExportError), written_whole(tmp_path / "out") as folder:  # noqa: PT012
        (folder / "model.onnx").write_bytes(b"")
        raise ExportError("it differs")
    assert list(tmp_path.iterdir()) == []


def test_gaps_tell_rounding_from_more():
    console = Console(quiet=True)
    near, far, broken = Gaps(), Gaps(), Gaps()
    near.add(np.array([1000.0, 0.5]), np.array([1000.0, 0.0]))
    near.report("logits", console)
    far.add(np.array([1.0, 0.5]), np.array([1.0, 0.0]))
    broken.add(np.array([np.nan]), np.array([0.0]))
    for gaps in (far, broken):
        with pytest.raises(ExportError, match="more than rounding"):
            gaps.report("logits", console)
    near.agree(np.array([[1, 0], [1, 1]]), np.array([[1, 0], [0, 1]]))
    with pytest.raises(ExportError, match="1 of 2 labels the same, but at least 99% are wanted"):
        near.report_choices("labels", console)
    with pytest.raises(ExportError, match="no text left a token"):
        Gaps().report("logits", console)


class Padded:
    """The padded model itself, where its graph would stand: quicker than an export."""

    def __init__(self, model: Headed) -> None:
        self.model = PaddedHeaded(model).eval()
        self.outputs = self.model.outputs
        self.inputs = ["input_ids", "attention_mask"]

    @torch.no_grad()
    def __call__(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = self.model(*(torch.from_numpy(each) for each in feed.values()))
        return {name: each.numpy() for name, each in zip(self.outputs, found, strict=True)}


@pytest.mark.parametrize(
    ("head", "kind", "said"),
    [
        (TagConfig(tags=3), lambda own: Tagger(own, ["O", "B-x", "I-x"]), ["tags of tokens the same"]),
        (
            MaskedConfig(next_sentence=True),
            Filler,
            ["seq_relationship_logits: ", "probabilities: ", "6 of 6 fills the same"],
        ),
        (
            ClassifyConfig(labels=2),
            lambda own: Classifier(own, ["a", "b"], "multi"),
            ["probabilities: ", "6 of 6 labels the same"],
        ),
        (ClassifyConfig(labels=1), lambda own: Classifier(own, [], "number"), ["logits: "]),
    ],
)
def test_every_task_is_compared_by_what_it_is_for(head, kind, said, monkeypatch):
    model = kind(reader(head, transformer(layers=1), "relative", pooler=True))
    monkeypatch.setattr(onnx_compare, "Graph", lambda _: Padded(model.reader.model))
    lines = io.StringIO()
    compare_encoder(model, Path(), TEXTS, Console(file=lines, width=200))
    assert all(each in lines.getvalue() for each in said)
    other = Padded(kind(reader(head, transformer(layers=2), "relative", pooler=True)).reader.model)
    monkeypatch.setattr(onnx_compare, "Graph", lambda _: other)
    with pytest.raises(ExportError, match="more than rounding"):
        compare_encoder(model, Path(), TEXTS, Console(quiet=True))


def test_an_embedder_gives_its_vectors_also_with_weights_too_large_for_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_write, "LARGEST", 0)
    head = EmbedConfig(pool=PoolConfig(kind="attention"), project=6)
    embedder = Embedder(reader(head, transformer(layers=1, norm=NormConfig(place="pre")), "alibi"))
    assert "cosines of one with the other: 1.000000 at least" in exported(embedder, tmp_path / "out")
    found, _ = run(tmp_path / "out", TEXTS)
    assert found["sentence_embedding"] == pytest.approx(embedder.embed(TEXTS), abs=1e-4)
    assert found["last_hidden_state"].shape[::2] == (6, 32)
    assert (tmp_path / "out" / "model.onnx.data").stat().st_size > 0


def test_a_language_model_goes_on_alike_from_the_command_line(tmp_path):
    torch.manual_seed(0)
    own = scripted.tokens()
    yarn = PositionsConfig(kind="rotary", scaling="yarn", factor=4.0, trained=8)
    shape = replace(
        scripted.config(len(own)),
        d_model=32,
        body=replace(MODERN, layers=1, window=3),
        positions=yarn,
    )
    model = stirred(Decoder(shape))
    checkpoint = DecoderCheckpoint(config=shape, weights=whole(model), tokenizer=own, longest=LONGEST)
    save_language(checkpoint, tmp_path / "model")
    out = tmp_path / "out"
    done = CliRunner().invoke(build(), ["export", str(tmp_path / "model"), str(out), "--to", "onnx"])
    assert done.exit_code == 0, done.output
    assert "likeliest next tokens the same" in done.output
    assert "perplexity of the texts" in done.output
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert (config["source"], config["max_position_embeddings"]) == ("bos text", 2048)
    generator = Generator(model, own, longest=LONGEST, decoding=DecodeConfig(method="greedy"))
    graph, prompt = session(out), "The cat sat on"
    ids = [config["bos_token_id"], *tokens_of(out).encode(prompt, add_special_tokens=False).ids]
    never = [
        id for token, id in own.vocabulary.items() if token in own.specials and id != config["eos_token_id"]
    ]
    for _ in range(4):
        feed = {"input_ids": [ids], "attention_mask": [[1] * len(ids)], "position_ids": [[*range(len(ids))]]}
        (logits,) = graph.run(["logits"], {name: np.array(each) for name, each in feed.items()})
        logits[0, -1, never] = -np.inf
        ids.append(int(logits[0, -1].argmax()))
    [found] = generator.generate(prompt, max_tokens=4)
    assert list(found.ids) == ids[-4:]
    again = CliRunner().invoke(build(), ["export", str(tmp_path / "model"), str(out), "--to", "onnx"])
    assert again.exit_code != 0
    assert "is there already" in str(again.exception) + again.output


@pytest.fixture(scope="module")
def translator() -> Translator:
    """As sure of itself as one that has learned: special tokens have next to no probability."""
    torch.manual_seed(0)
    made = copying.translator("one layer", "de", "fr", decoding=DecodeConfig(beam=2, maximum=12))
    shape = made.model.config
    free = replace(shape.decoder, tied=False, head_bias=True, positions=PositionsConfig(kind="relative"))
    model = stirred(type(made.model)(replace(shape, decoder=free)))
    own = made.tokenizer
    with torch.no_grad():
        model.decoder.head.weight *= 4
        model.decoder.head.bias[[own.vocabulary[token] for token in own.specials]] = -100.0
        model.decoder.head.bias[own.require("end")] = 5.0
    return Translator(model, own, longest=LONGEST, languages=made.languages, decoding=made.decoding)


def test_a_translator_translates_alike(translator, tmp_path):
    out, texts = tmp_path / "out", copying.sentences(6, seed=3)
    said = exported(translator, out, samples=texts)
    assert "float32, greedy: 6 of 6 texts the same, BLEU 100.00 of one against the other" in said
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    past = config["files"]["decoder_with_past_model.onnx"]["inputs"]
    assert past["past_key_values.0.decoder.key"] == ["batch_size", 4, "past_sequence_length", 8]
    assert past["past_key_values.0.encoder.value"] == ["batch_size", 4, "encoder_sequence_length", 8]
    greedy = DecodeConfig(method="greedy", maximum=12)
    for text in texts[:3]:
        own = translator.translate(text, to="fr", decoding=greedy)
        assert translated(out, config, text, "fr") == own.text


def translated(folder: Path, config: dict[str, Any], text: str, to: str) -> str:
    """As somebody would who has never heard of regard; with whole prefixes, where export takes steps."""
    tokenizer = tokens_of(folder)
    source = [
        config["languages"][to],
        *tokenizer.encode(text, add_special_tokens=False).ids,
        config["eos_token_id"],
    ]
    mask = np.ones((1, len(source)), dtype=np.int64)
    (states,) = session(folder, "encoder_model").run(
        None, {"input_ids": np.array([source]), "attention_mask": mask}
    )
    decoder, written = session(folder, "decoder_model"), [config["decoder_start_token_id"]]
    for _ in range(12):
        feed = {
            "encoder_hidden_states": states,
            "encoder_attention_mask": mask,
            "input_ids": np.array([written]),
        }
        (logits,) = decoder.run(["logits"], feed)
        logits[0, -1, config["suppress_tokens"]] = -np.inf
        written.append(int(logits[0, -1].argmax()))
        if written[-1] == config["eos_token_id"]:
            break
    return tokenizer.decode(written)


def test_what_cannot_be_exported_is_refused_with_the_remedy(classifier, tmp_path):
    console = Console(quiet=True)
    recurrent = Tagger(reader(TagConfig(), RecurrentConfig(), "none"), ["O", "X"])
    rounded = Reader(classifier.reader.model, classifier.reader.tokenizer, longest=8, precision="int8")
    for model, reason in (
        (recurrent, r"encoder\.body\.kind='recurrent'"),
        (copying.translator("lstm, additive"), r"encoder\.body\.kind='recurrent'"),
        (Embedder(rounded), "a model in int8 on cpu .*: load it with"),
        (Embedder(classifier.reader), "stands on a head for 'classify'"),
        (Generator(scripted.model(330), None), "no tokenizer"),
    ):
        with pytest.raises(ConfigError, match=reason):
            export_onnx(model, tmp_path / "out", console=console)
    with pytest.raises(ConfigError, match="--precision is for --to ctranslate2"):
        exchange.export_model(tmp_path, tmp_path / "out", to="onnx", precision="int8", console=console)
    with pytest.raises(ConfigError, match="--samples is for --to ctranslate2 and onnx"):
        exchange.export_model(tmp_path, tmp_path / "out", samples=tmp_path / "texts", console=console)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_without_a_package_the_remedy_is_said(package, classifier, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"^{package} is not installed: pip install regard\[onnx\]"):
        export_onnx(classifier, tmp_path / "out", console=Console(quiet=True))
