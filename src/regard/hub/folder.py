"""Folders of Hugging Face, both ways: BERT, RoBERTa and DistilBERT, and sentence-transformers around them;
language models of GPT-2's family; and translators, MarianMT and M2M100.

A round trip keeps every weight to the bit, if the folder's are float32; others become float32. After writing,
the folder is read back and compared before it gets its name.
"""

import os
import re
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from regard.disk import DiskFullError, full_disk
from regard.hub import decoders, translators
from regard.hub.families import DECODERS, ENCODERS, GPT2, MARIAN, TRANSLATORS
from regard.hub.files import (
    INDEX,
    WEIGHTS,
    HubError,
    HubWarning,
    read_table,
    read_table_if_there,
    read_tensors,
    write_json,
    write_tensors,
)
from regard.hub.generation import FILE as GENERATION
from regard.hub.generation import generation_facts, read_search
from regard.hub.pickles import PICKLE, read_pickled
from regard.hub.pieces import read_pieces, write_pieces
from regard.hub.reading import Facts, Problem, read_encoder, read_head, read_problem, read_scored
from regard.hub.sentences import MODULES, read_sentences, write_sentences
from regard.hub.tokens import has_tokenizer, read_tokenizer, write_tokenizer
from regard.hub.translators import TranslatorCheckpoint
from regard.hub.weights import canonical, check_layers, check_names, read_weights, warn_left_out, write_names
from regard.hub.writing import config_facts, family_of
from regard.models.headed import HeadedConfig
from regard.settings.models import (
    ClassifyConfig,
    DecoderConfig,
    EmbedConfig,
    HeadConfig,
    MaskedConfig,
    TagConfig,
)
from regard.text import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """An encoder of strangers with its head, in our words, or one of ours on the way to them."""

    config: HeadedConfig
    weights: dict[str, Tensor]
    """By the names of `Headed(config).named_parameters()`: these, and none besides."""
    tokenizer: Tokenizer
    longest: int
    """The most tokens that an input may have, special ones included."""
    labels: tuple[str, ...] = ()
    """Names of classes or tags, in order."""
    problem: Problem = "single"
    """What a classifier's scores mean: one label, any number of them, or a number."""
    decode: Literal["greedy", "valid"] = "greedy"
    """How a tagger's tags are chosen: each by itself, or as the best sequence that is well-formed IOB2."""
    fresh: tuple[str, ...] = ()
    """Parameters that the folder does not have, so they are at their first values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderCheckpoint:
    """The same for a language model."""

    config: DecoderConfig
    weights: dict[str, Tensor]
    """By the names of `Decoder(config).named_parameters()`: these, and none besides. A tied output matrix is
    the embedding's and has no name of its own."""
    tokenizer: Tokenizer | None
    """None where the folder has none: such a model reads and writes ids."""
    longest: int
    """The most tokens that a text may have, with what is generated."""


def is_foreign(folder: Path) -> bool:
    """Whether it looks like a folder of Hugging Face, and not of regard."""
    path = Path(folder) / "config.json"
    try:
        facts = read_table(path)
    except HubError:
        return not path.exists() and path.with_name(MODULES).exists()
    return "model_type" in facts and "format" not in facts


def is_decoder(folder: Path) -> bool:
    """Whether it is such a folder with a language model in it: one for `read_decoder`."""
    return _model_type(folder) in DECODERS


def is_translator(folder: Path) -> bool:
    """The same for a translator, and `read_translator`."""
    return _model_type(folder) in TRANSLATORS


def _model_type(folder: Path) -> str:
    facts = read_table_if_there(Path(folder) / "config.json") if is_foreign(folder) else {}
    return str(facts.get("model_type"))


def head_kind(folder: Path) -> str:
    """What such a folder is for: the kind of its head (masked, classify, tag, span, embed), "language" or
    "translate"."""
    if is_decoder(folder):
        return "language"
    if is_translator(folder):
        return "translate"
    folder = _checked(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HubWarning)  # reading it says the same again
        sentences = read_sentences(folder)
    if sentences and sentences.head:
        return sentences.head.kind
    root = sentences.root if sentences else folder
    facts = Facts(root / "config.json", ENCODERS)
    return facts.kind(() if facts.table.get("architectures") else _tensors(root, facts)[1])


def read_folder(folder: Path, *, pickle: bool = False) -> Checkpoint:
    """An encoder's folder as it is; nothing in it is executed. The attention weights' dropout is not taken
    over: the fused kernels have none. A language model is refused: it has no encoder. With `pickle`, the
    tensors are those of pytorch_model.bin."""
    folder = _checked(folder)
    sentences = read_sentences(folder)
    root = sentences.root if sentences else folder
    facts = Facts(root / "config.json", ENCODERS)
    family = facts.family
    file, tensors = _tensors(root, facts, pickle=pickle)
    head: HeadConfig
    labels: tuple[str, ...]
    if sentences and isinstance(sentences.head, ClassifyConfig):
        head, labels = read_scored(sentences.head, facts)
    elif sentences and sentences.head:
        head, labels = sentences.head, ()
    else:
        head, labels = read_head(facts.kind(tensors), facts, tensors)
    pooler = family.body.get("encoder.pooler.dense.*", "").replace("*", "weight") in tensors
    pooler = pooler or (isinstance(head, ClassifyConfig) and head.pool.kind == "pooler")
    config = HeadedConfig(encoder=read_encoder(facts, pooler=pooler), head=head)
    if sentences:
        if sentences.width not in (None, config.encoder.d_model):
            raise HubError(
                f"{folder}: pools vectors of {sentences.width}, but the model's have {config.encoder.d_model}"
            )
        tensors.update(sentences.dense)
    if isinstance(head, MaskedConfig) and head.tied:  # the embedding, once more
        tensors.pop(family.heads["masked"]["head.vocabulary.weight"], None)
    weights, fresh = read_weights(tensors, config, family, file)
    warn_left_out(tensors, file)
    tokenizer, most = read_tokenizer(
        root, family, config.encoder.vocabulary, lower_case=sentences is not None and sentences.lower_case
    )
    limits = [config.encoder.positions.longest, most, sentences.longest if sentences else None]
    problem: Problem = "single"
    if isinstance(head, ClassifyConfig) or (isinstance(head, TagConfig) and len(labels) == 1):
        problem = read_problem(facts, len(labels))
    nameless = problem == "number" and all(re.fullmatch(r"LABEL_\d+", label) for label in labels)
    return Checkpoint(
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        longest=min(limit for limit in limits if limit is not None),
        labels=() if nameless else labels,
        problem=problem,
        fresh=fresh,
    )


def read_decoder(folder: Path, *, pickle: bool = False) -> DecoderCheckpoint:
    """A language model's folder, in the same way. generation_config.json is passed over: how to draw or
    search is the caller's choice."""
    folder = _checked(folder)
    facts = Facts(folder / "config.json", DECODERS)
    decoders.check_architecture(facts)
    if (folder / MODULES).exists():
        raise HubError(
            f"{folder / MODULES}: a model for vectors of sentences, no language model; take the file out if "
            "you want the model below all the same"
        )
    file, tensors = _tensors(folder, facts, pickle=pickle)
    config = decoders.read_decoder_config(facts, tied=decoders.tie(tensors, facts))
    weights, _ = read_weights(tensors, config, facts.family, file)
    warn_left_out(tensors, file)
    tokenizer, most = None, None
    if has_tokenizer(folder, facts.family):
        tokenizer, most = read_tokenizer(folder, facts.family, config.vocabulary, lower_case=False)
    longest = min(config.positions.longest, most or config.positions.longest)
    return DecoderCheckpoint(config=config, weights=weights, tokenizer=tokenizer, longest=longest)


def read_translator(folder: Path, *, pickle: bool = False) -> TranslatorCheckpoint:
    """A translator's folder, in the same way."""
    folder = _checked(folder)
    facts = Facts(folder / "config.json", TRANSLATORS)
    translators.check_architecture(facts)
    config = translators.read_translator_config(facts)
    file, tensors = _read(folder, facts, pickle=pickle, tied=True)
    tensors = translators.one_name_each(tensors, facts, file)
    translators.check_depth(tensors, facts, file)
    weights, _ = read_weights(tensors, config, facts.family, file)
    warn_left_out(tensors, file)
    pieces = read_pieces(folder, facts.family, (config.encoder.vocabulary, config.decoder.vocabulary))
    translators.check_specials(facts, pieces.tokenizer)
    rows = facts.count("rows", least=3)
    return TranslatorCheckpoint(
        config=config,
        weights=weights,
        tokenizer=pieces.tokenizer,
        longest=max(min(rows, pieces.most or rows), 3),
        languages=pieces.languages,
        marks="source" if facts.family is MARIAN else "both",
        source_language=pieces.source_language,
        **asdict(read_search(folder, facts, pieces.tokenizer)),
    )


def _checked(folder: Path) -> Path:
    if not Path(folder).is_dir():
        raise HubError(f"{folder}: no such folder; give one that holds config.json and {WEIGHTS}")
    return Path(folder)


def _read(folder: Path, facts: Facts, *, pickle: bool, tied: bool) -> tuple[Path, dict[str, Tensor]]:
    """The file that errors about the tensors name, and these."""
    file = _weights_file(folder)
    if pickle:
        found = read_pickled(folder, lambda names, path: check_names(names, facts.family, path))
    else:
        found = read_tensors(folder)
    return file, canonical(found, facts.family, file, tied=tied)


def _tensors(folder: Path, facts: Facts, *, pickle: bool = False) -> tuple[Path, dict[str, Tensor]]:
    """The same, of as many layers as config.json says."""
    file, tensors = _read(folder, facts, pickle=pickle, tied=facts.tied)
    check_layers(tensors, facts.family, facts.count("layers"), file)
    return file, tensors


def _weights_file(folder: Path) -> Path:
    names = (WEIGHTS, INDEX, PICKLE)
    return folder / next((name for name in names if (folder / name).exists()), WEIGHTS)


def write_folder(checkpoint: Checkpoint | DecoderCheckpoint | TranslatorCheckpoint, folder: Path) -> None:
    """A folder that transformers and, for an embedder, sentence-transformers open; in float32."""
    folder = Path(folder).resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise HubError(f"{folder}: there is something already; give a new folder, or an empty one")
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise HubError(f"{partial}: could not be made ({error.strerror or error})") from error
    try:
        with full_disk(folder):
            _write_whole(checkpoint, partial)
        partial.replace(folder)
    except DiskFullError as error:
        raise DiskFullError(folder, error.why) from error  # what is written into has another name
    except OSError as error:
        raise HubError(f"{folder}: could not be written ({error}); choose another folder") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_whole(checkpoint: Checkpoint | DecoderCheckpoint | TranslatorCheckpoint, folder: Path) -> None:
    """And read it back."""
    if isinstance(checkpoint, TranslatorCheckpoint):
        _write_translator(checkpoint, folder)
        back = read_translator(folder)
        _compare_weights(checkpoint.weights, back.weights)
        if back.tokenizer.vocabulary != checkpoint.tokenizer.vocabulary or back.longest != checkpoint.longest:
            raise HubError("what was written reads back with other lengths or tokens; please report it")
    elif isinstance(checkpoint, DecoderCheckpoint):
        _write_decoder(checkpoint, folder)
        written = read_decoder(folder)
        _compare_weights(checkpoint.weights, written.weights)
        _compare_ids(checkpoint, written)
    else:
        _write(checkpoint, folder)
        _compare(checkpoint, read_folder(folder))


def _write(checkpoint: Checkpoint, folder: Path) -> None:
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    encoder = config.encoder
    family = family_of(config, tokenizer)
    _check_sizes(checkpoint, encoder.vocabulary, encoder.positions.longest)
    model, dense = write_names(checkpoint.weights, config, family)
    write_json(
        folder / "config.json", config_facts(config, family, tokenizer, checkpoint.labels, checkpoint.problem)
    )
    write_tensors(folder / WEIGHTS, model)
    write_tokenizer(folder, tokenizer, longest=checkpoint.longest, segments=encoder.embedding.segments > 1)
    head = config.head
    if isinstance(head, EmbedConfig) or (isinstance(head, ClassifyConfig) and dense):
        write_sentences(folder, head, dense, d_model=encoder.d_model, longest=checkpoint.longest)
    _open_to_all(folder)


def _write_decoder(checkpoint: DecoderCheckpoint, folder: Path) -> None:
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    body = decoders.check_decoder(config)
    _check_sizes(checkpoint, config.vocabulary, config.positions.longest)
    model, _ = write_names(checkpoint.weights, config, GPT2)
    write_json(folder / "config.json", decoders.decoder_facts(config, body, tokenizer))
    write_json(folder / GENERATION, decoders.generation_facts(tokenizer))
    write_tensors(folder / WEIGHTS, model)
    if tokenizer is not None:
        write_tokenizer(folder, tokenizer, longest=checkpoint.longest, segments=False, framed=False)
    _open_to_all(folder)


def _write_translator(checkpoint: TranslatorCheckpoint, folder: Path) -> None:
    family = translators.translator_family(checkpoint)
    model, _ = write_names(checkpoint.weights, checkpoint.config, family)
    write_json(folder / "config.json", translators.translator_facts(checkpoint, family))
    search = generation_facts(checkpoint, checkpoint.tokenizer, family.name, checkpoint.longest)
    write_json(folder / GENERATION, search)
    write_tensors(folder / WEIGHTS, translators.their_shapes(model))
    write_pieces(
        folder,
        checkpoint.tokenizer,
        family,
        longest=checkpoint.longest,
        languages=checkpoint.languages,
        source_language=checkpoint.source_language,
    )
    _open_to_all(folder)


def _check_sizes(checkpoint: Checkpoint | DecoderCheckpoint, vocabulary: int, positions: int) -> None:
    ids = 0 if checkpoint.tokenizer is None else len(checkpoint.tokenizer)
    if ids > vocabulary:
        raise HubError(
            f"the tokenizer has {ids} ids, but the model vectors for {vocabulary}: give the tokenizer that "
            "it was trained with"
        )
    if not 0 < checkpoint.longest <= positions:
        raise HubError(f"longest={checkpoint.longest} must be from 1 to {positions} positions")


def _open_to_all(folder: Path) -> None:
    for path in folder.rglob(WEIGHTS):  # safetensors lets nobody else read its files
        path.chmod((folder / "config.json").stat().st_mode)


def _compare(meant: Checkpoint, written: Checkpoint) -> None:
    """What cannot be read from the folder any more is not its business: dropout and first values."""
    _compare_weights(meant.weights, written.weights)
    labels = written.labels if isinstance(meant.config.head, ClassifyConfig | TagConfig) else ()
    if meant.longest != written.longest or (meant.labels and meant.labels != labels):
        raise HubError("what was written reads back with other lengths or labels; please report it")


def _compare_weights(meant: Mapping[str, Tensor], written: Mapping[str, Tensor]) -> None:
    differ = [
        name
        for name, weight in meant.items()
        if name not in written or not torch.equal(weight.detach().cpu().float(), written[name])
    ]
    if differ or meant.keys() != written.keys():
        raise HubError(f"what was written reads back differently: {differ[:3]}; please report it")


def _compare_ids(meant: DecoderCheckpoint, written: DecoderCheckpoint) -> None:
    a, b = meant.tokenizer, written.tokenizer
    if a is None or b is None:
        same = a is b
    else:
        same = a.vocabulary == b.vocabulary and (a.ids.start, a.ids.end) == (b.ids.start, b.ids.end)
    if not same or (a is not None and meant.longest != written.longest):
        raise HubError("what was written reads back with other lengths or tokens; please report it")
