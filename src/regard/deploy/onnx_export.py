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

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console

from regard.config import ConfigError
from regard.deploy.export import DRAWN, POSITIONS, Difference, sampled_texts, verify
from regard.deploy.folder import folder_size, written_whole
from regard.deploy.onnx_body import check_config
from regard.deploy.onnx_compare import compare_encoder, compare_language
from regard.deploy.onnx_models import PaddedDecoder, PaddedEncoder, PaddedHeaded, PaddedLanguage, PaddedSteps
from regard.deploy.onnx_run import Graph, OnnxEngine, library, onnx_translator
from regard.deploy.onnx_write import Input, write_graph
from regard.models.decoder import Decoder
from regard.models.headed import Headed
from regard.models.seq2seq import Seq2Seq
from regard.nn.stacks import Stack
from regard.settings.models import DecoderConfig, EncoderConfig
from regard.tasks.base.folder import write_json
from regard.tasks.base.predictor import Predictor, evaluating
from regard.tasks.base.reading import EncoderPredictor
from regard.tasks.base.terminal import say
from regard.tasks.language.generator import Generator
from regard.tasks.registry import get_task
from regard.tasks.translation.prompts import prompt_facts
from regard.tasks.translation.translator import Translator
from regard.text import Tokenizer
from regard.text.sentencepieces import is_pieces

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


def export_onnx(
    predictor: Predictor, out: Path, *, samples: Sequence[str] = (), console: Console
) -> list[Difference]:
    """`samples` are texts that both read; some are drawn from the vocabulary unless given. Nothing is left
    behind if what they say differs. How far the numbers of each output do."""
    library()
    tokenizer, longest = _check(predictor)
    out = out.resolve()
    texts = [*samples] or sampled_texts(tokenizer, longest, DRAWN)
    found: list[Difference] = []
    with evaluating(predictor.model), written_whole(out) as folder:
        rows = max(POSITIONS, 4 * longest)
        match predictor.model:
            case Seq2Seq() as model:
                _write_translator(model, folder, rows)
            case Decoder() as model:
                _write_language(model, folder, rows)
            case Headed() as model:
                _write_encoder(model, folder, rows)
        tokenizer.save(folder / "tokenizer.json")
        write_json(folder / "config.json", _facts(predictor, folder, tokenizer, longest, rows))
        match predictor.model:
            case Seq2Seq():
                ours = cast(Translator, predictor)
                theirs = onnx_translator(ours, folder)
                score = cast(OnnxEngine, theirs.engine).score
                found = [verify(ours, theirs, score, texts, console, beams=False)]
            case Decoder():
                found = compare_language(cast(Generator, predictor), folder, texts, console)
            case Headed():
                found = compare_encoder(cast(EncoderPredictor, predictor), folder, texts, console)
    say(console, f"{out}: {folder_size(out) / 1e6:.1f} MB, for onnxruntime and tokenizers")
    return found


def _check(predictor: Predictor) -> tuple[Tokenizer, int]:
    """Refuse what cannot be exported; what reads for it, and how much at once."""
    if predictor.device.type != "cpu" or predictor.precision != "float32":
        raise ConfigError(
            f"a model in {predictor.precision} on {predictor.device.type} is not what is exported: load it "
            "with device='cpu' and precision='float32'"
        )
    for side, config in _configs(predictor.model):
        check_config(side, config)
    head = predictor.model.config.head.kind if isinstance(predictor.model, Headed) else ""
    if head and head not in get_task(predictor.task).heads:
        raise ConfigError(
            f"this {get_task(predictor.task).noun} stands on a head for {head!r}, which gives none of its "
            "results: export the model as regard.load gives it"
        )
    if predictor.tokenizer is None:
        raise ConfigError("this generator has no tokenizer, which an export stands on: give it one")
    if is_pieces(predictor.tokenizer.state) or getattr(predictor, "marks", "source") != "source":
        raise ConfigError(
            "a translator of MarianMT's or M2M100's make is not exported to ONNX: its SentencePiece "
            "tokenizer, or the language before its translations, has no place there; choose --to ctranslate2 "
            "or hf"
        )
    return predictor.tokenizer, predictor.longest or POSITIONS


def _configs(model: Seq2Seq | Decoder | Headed) -> list[tuple[str, EncoderConfig | DecoderConfig]]:
    match model:
        case Seq2Seq():
            return [("encoder", model.config.encoder), ("decoder", model.config.decoder)]
        case Decoder():
            return [("model", model.config)]
        case Headed():
            return [("encoder", model.config.encoder)]


def _ids(name: str, length: str = LENGTH, fill: int = 0) -> Input:
    """Whole numbers [batch, length]."""
    return Input(name, torch.full((SIZES[BATCH], SIZES[length]), fill), (BATCH, length))


def _write_encoder(headed: Headed, folder: Path, rows: int) -> None:
    graph = PaddedHeaded(headed)
    given = [_ids("input_ids"), _ids("attention_mask", fill=1)]
    if headed.config.encoder.embedding.segments > 1:
        given.append(_ids("token_type_ids"))
    write_graph(graph, given, graph.outputs, folder / "model.onnx", rows)


def _write_language(model: Decoder, folder: Path, rows: int) -> None:
    given = [_ids("input_ids"), _ids("attention_mask", fill=1), _ids("position_ids")]
    write_graph(PaddedLanguage(model), given, ["logits"], folder / "model.onnx", rows)


def _write_translator(model: Seq2Seq, folder: Path, rows: int) -> None:
    encoder = [_ids("input_ids"), _ids("attention_mask", fill=1)]
    write_graph(
        PaddedEncoder(model.encoder), encoder, ["last_hidden_state"], folder / "encoder_model.onnx", rows
    )
    decoder = PaddedDecoder(model.decoder)
    mask, ids = _ids("encoder_attention_mask", SOURCE, fill=1), _ids("input_ids")
    d_memory = model.config.encoder.d_model
    states = Input(
        "encoder_hidden_states", torch.zeros(SIZES[BATCH], SIZES[SOURCE], d_memory), (BATCH, SOURCE, None)
    )
    stack = cast(Stack, model.decoder.body)
    places = [f"{layer}.{side}" for layer in range(len(stack.each)) for side in ("decoder", "encoder")]
    present = [f"present.{place}.{what}" for place in places for what in ("key", "value")]
    write_graph(decoder, [mask, ids, states], ["logits", *present], folder / "decoder_model.onnx", rows)
    own = [name for name in present if ".decoder." in name]
    steps, given = PaddedSteps(decoder), [mask, ids, *_past(stack)]
    write_graph(steps, given, ["logits", *own], folder / "decoder_with_past_model.onnx", rows)


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


def _facts(
    predictor: Predictor, folder: Path, tokenizer: Tokenizer, longest: int, rows: int
) -> dict[str, Any]:
    """What config.json says; names are Hugging Face's where they have one."""
    files = {path.name: Graph(path) for path in sorted(folder.glob("*.onnx"))}
    configs, about = _configs(predictor.model), predictor.about()
    positions = {config.positions for _, config in configs}
    tables = {each.longest if each.kind == "learned" else rows for each in positions if _counted(each.kind)}
    ids = tokenizer.ids
    roles = {"pad": ids.pad, "bos": ids.start, "eos": ids.end, "unk": ids.unknown, "cls": ids.cls}
    facts: dict[str, Any] = {
        "format": FORMAT,
        "task": get_task(predictor.task).command,
        "files": {name: {"inputs": each.inputs, "outputs": each.outputs} for name, each in files.items()},
        "vocab_size": configs[-1][1].vocabulary,
        "trained_length": longest,
        "max_position_embeddings": min(tables, default=None),
        **{f"{role}_token_id": id for role, id in {**roles, "sep": ids.sep, "mask": ids.mask}.items()},
    }
    match predictor.model:
        case Seq2Seq():
            translator = cast(Translator, predictor)
            facts |= {
                "add_special_tokens": False,
                "source": "language text eos" if translator.languages else "text eos",
                "decoder_start_token_id": ids.start,
                "languages": {each: ids.extra[f"<2{each}>"] for each in translator.languages},
                "suppress_tokens": list(translator.never_written),
                **prompt_facts(translator.prompts, translator.default_prompt),
            }
        case Decoder():
            begins = cast(Generator, predictor).begins
            facts |= {"add_special_tokens": False, "source": "bos text" if begins else "text"}
        case Headed() as model:
            facts["add_special_tokens"] = True
            if "labels" in about:
                facts["id2label"] = {str(number): label for number, label in enumerate(about["labels"])}
            if "problem" in about:
                facts["problem_type"] = PROBLEMS[about["problem"]]
            for setting, name in (("words", "words"), ("normalised", "normalized")):
                if hasattr(model.config.head, setting):
                    facts[name] = getattr(model.config.head, setting)
    return facts


def _counted(kind: str) -> bool:
    """Whether there is a table with a row for each position."""
    return kind in ("learned", "sinusoidal", "index", "fraction", "rotary")
