"""Export to ONNX, verified: onnxruntime must say what the model says before the folder gets its name.

    encoders           model.onnx             input_ids, attention_mask [, token_type_ids]
                                              -> logits, or last_hidden_state and sentence_embedding
    language models    model.onnx             input_ids, attention_mask, position_ids -> logits
    translators        encoder_model.onnx     input_ids, attention_mask -> last_hidden_state
                       decoder_model.onnx     whole prefixes -> logits, present.*
                       decoder_with_past_model.onnx      tokens behind a past -> logits, present.*.decoder.*

Names are those of Hugging Face's optimum and sentence-transformers; any batch and any length will do. Beside
them lie tokenizer.json and config.json, which says what goes in and what comes out: onnxruntime and
tokenizers can do the rest.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console

from regard.config import ConfigError
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig
from regard.models.heads import EmbedHead, TagHead
from regard.nn.stacks import Stack
from regard.tasks.deploy.export import DRAWN, POSITIONS, drawn_texts, verify
from regard.tasks.deploy.folder import folder_size, written_whole
from regard.tasks.deploy.onnx_body import check_config
from regard.tasks.deploy.onnx_compare import EncoderModel, compare_encoder, compare_language
from regard.tasks.deploy.onnx_models import (
    PaddedDecoder,
    PaddedEncoder,
    PaddedHeaded,
    PaddedLanguage,
    PaddedSteps,
)
from regard.tasks.deploy.onnx_run import Graph, OnnxTranslator, library
from regard.tasks.deploy.onnx_write import Input, write_graph
from regard.tasks.encoders.classifier import Classifier
from regard.tasks.encoders.embedder import Embedder
from regard.tasks.encoders.tagger import Tagger
from regard.tasks.folder import write_json
from regard.tasks.language.generator import Generator
from regard.tasks.load import COMMANDS, Model
from regard.tasks.terminal import say
from regard.tasks.translator import Translator
from regard.text import Tokenizer

FORMAT = "regard-onnx-1"
PROBLEMS = {
    "single": "single_label_classification",
    "multi": "multi_label_classification",
    "number": "regression",
}

BATCH, LENGTH = "batch_size", "sequence_length"
SOURCE, PAST = "encoder_sequence_length", "past_sequence_length"
SIZES = {BATCH: 3, LENGTH: 5, SOURCE: 7, PAST: 4}
"""Of the example that is traced; nothing depends on them."""


@dataclass(frozen=True, slots=True)
class _Texts:
    tokenizer: Tokenizer
    longest: int


def export_onnx(model: Model, out: Path, *, samples: Sequence[str] = (), console: Console) -> None:
    """`samples` are texts that both read; some are drawn from the vocabulary unless given. Nothing is left
    behind if what they say differs."""
    library()
    tokenizer, longest = _check(model)
    out = out.resolve()
    texts = [*samples] or drawn_texts(_Texts(tokenizer, longest), DRAWN)
    with _evaluated(model), written_whole(out) as folder:
        rows = max(POSITIONS, 4 * longest)
        match model:
            case Translator():
                _write_translator(model, folder, rows)
            case Generator():
                _write_language(model, folder, rows)
            case _:
                _write_encoder(model, folder, rows)
        tokenizer.save(folder / "tokenizer.json")
        write_json(folder / "config.json", _facts(model, folder, tokenizer, longest, rows))
        match model:
            case Translator():
                theirs = OnnxTranslator(model, folder)
                verify(model, theirs, theirs.score, texts, console, beams=False)
            case Generator():
                compare_language(model, folder, texts, console)
            case _:
                compare_encoder(model, folder, texts, console)
    say(console, f"{out}: {folder_size(out) / 1e6:.1f} MB, for onnxruntime and tokenizers")


@contextmanager
def _evaluated(model: Model) -> Iterator[None]:
    """The model in eval mode, put back afterwards."""
    own = model.model if isinstance(model, Translator | Generator) else model.reader.model
    modes = {part: part.training for part in own.modules()}
    own.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training


def _check(model: Model) -> tuple[Tokenizer, int]:
    """Refuse what cannot be exported; what reads for it, and how much at once."""
    own: Any = model if isinstance(model, Translator | Generator) else model.reader
    if own.device.type != "cpu" or own.precision != "float32":
        raise ConfigError(
            f"a model in {own.precision} on {own.device.type} is not what is exported: load it with "
            "device='cpu' and precision='float32'"
        )
    for side, config in _configs(model):
        check_config(side, config)
    if isinstance(model, Embedder) and not isinstance(own.model.head, EmbedHead):
        raise ConfigError(
            f"this embedder stands on a {type(own.model.head).__name__}, which gives no vectors of its own: "
            "export the model as regard.load gives it"
        )
    if own.tokenizer is None:
        raise ConfigError("this generator has no tokenizer, which an export stands on: give it one")
    return own.tokenizer, own.longest or POSITIONS


def _configs(model: Model) -> list[tuple[str, EncoderConfig | DecoderConfig]]:
    match model:
        case Translator():
            return [("encoder", model.model.config.encoder), ("decoder", model.model.config.decoder)]
        case Generator():
            return [("model", model.model.config)]
        case _:
            return [("encoder", model.reader.model.config.encoder)]


def _ids(name: str, length: str = LENGTH, fill: int = 0) -> Input:
    """Whole numbers [batch, length]."""
    return Input(name, torch.full((SIZES[BATCH], SIZES[length]), fill), (BATCH, length))


def _write_encoder(model: EncoderModel, folder: Path, rows: int) -> None:
    headed = model.reader.model
    graph = PaddedHeaded(headed)
    given = [_ids("input_ids"), _ids("attention_mask", fill=1)]
    if headed.config.encoder.embedding.segments > 1:
        given.append(_ids("token_type_ids"))
    write_graph(graph, given, graph.outputs, folder / "model.onnx", rows)


def _write_language(model: Generator, folder: Path, rows: int) -> None:
    given = [_ids("input_ids"), _ids("attention_mask", fill=1), _ids("position_ids")]
    write_graph(PaddedLanguage(model.model), given, ["logits"], folder / "model.onnx", rows)


def _write_translator(model: Translator, folder: Path, rows: int) -> None:
    encoder = [_ids("input_ids"), _ids("attention_mask", fill=1)]
    write_graph(
        PaddedEncoder(model.model.encoder),
        encoder,
        ["last_hidden_state"],
        folder / "encoder_model.onnx",
        rows,
    )
    decoder = PaddedDecoder(model.model.decoder)
    mask, ids = _ids("encoder_attention_mask", SOURCE, fill=1), _ids("input_ids")
    d_memory = model.model.config.encoder.d_model
    states = Input(
        "encoder_hidden_states", torch.zeros(SIZES[BATCH], SIZES[SOURCE], d_memory), (BATCH, SOURCE, None)
    )
    stack = cast(Stack, model.model.decoder.body)
    places = [f"{layer}.{side}" for layer in range(len(stack.each)) for side in ("decoder", "encoder")]
    present = [f"present.{place}.{what}" for place in places for what in ("key", "value")]
    write_graph(decoder, [mask, ids, states], ["logits", *present], folder / "decoder_model.onnx", rows)
    own = [name for name in present if ".decoder." in name]
    write_graph(
        PaddedSteps(decoder),
        [mask, ids, *_past(stack)],
        ["logits", *own],
        folder / "decoder_with_past_model.onnx",
        rows,
    )


def _past(stack: Stack) -> list[Input]:
    found = []
    for number, layer in enumerate(stack.each):
        for side, part, length in (
            ("decoder", layer.attention, PAST),
            ("encoder", cast(Any, layer.cross_attention), SOURCE),
        ):
            for what, width in (("key", part.d_head), ("value", part.d_value)):
                example = torch.zeros(SIZES[BATCH], part.kv_heads, SIZES[length], width)
                name = f"past_key_values.{number}.{side}.{what}"
                found.append(Input(name, example, (BATCH, None, length, None)))
    return found


def _facts(model: Model, folder: Path, tokenizer: Tokenizer, longest: int, rows: int) -> dict[str, Any]:
    """What config.json says; names are Hugging Face's where they have one."""
    files = {path.name: Graph(path) for path in sorted(folder.glob("*.onnx"))}
    positions = {config.positions for _, config in _configs(model)}
    tables = {each.longest if each.kind == "learned" else rows for each in positions if _counted(each.kind)}
    ids = tokenizer.ids
    roles = {"pad": ids.pad, "bos": ids.start, "eos": ids.end, "unk": ids.unknown, "cls": ids.cls}
    facts: dict[str, Any] = {
        "format": FORMAT,
        "task": COMMANDS[type(model)],
        "files": {name: {"inputs": each.inputs, "outputs": each.outputs} for name, each in files.items()},
        "vocab_size": _configs(model)[-1][1].vocabulary,
        "trained_length": longest,
        "max_position_embeddings": min(tables, default=None),
        **{f"{role}_token_id": id for role, id in {**roles, "sep": ids.sep, "mask": ids.mask}.items()},
    }
    match model:
        case Translator():
            facts |= {
                "add_special_tokens": False,
                "source": "language text eos" if model.languages else "text eos",
                "decoder_start_token_id": ids.start,
                "languages": {each: ids.extra[f"<2{each}>"] for each in model.languages},
                "suppress_tokens": list(model._never),
            }
        case Generator():
            facts |= {"add_special_tokens": False, "source": "bos text" if model.begins else "text"}
        case _:
            facts["add_special_tokens"] = True
    if isinstance(model, Classifier | Tagger):
        facts["id2label"] = {str(number): label for number, label in enumerate(model.labels)}
    if isinstance(model, Classifier):
        facts["problem_type"] = PROBLEMS[model.problem]
    if isinstance(model, Tagger):
        facts["words"] = cast(TagHead, model.reader.model.head).words
    if isinstance(model, Embedder):
        facts["normalized"] = cast(EmbedHead, model.reader.model.head).normalised
    return facts


def _counted(kind: str) -> bool:
    """Whether there is a table with a row for each position."""
    return kind in ("learned", "sinusoidal", "rotary")
