"""Folders of Hugging Face, both ways: encoders (BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT, MPNet,
ModernBERT), and sentence-transformers around them; language models (GPT-2, Llama, Mistral, Qwen); and
translators (MarianMT, M2M100, T5).

A round trip keeps every weight to the bit, if the folder's are float32; others become float32. After writing,
the folder is read back and compared before it gets its name.
"""

import os
import re
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard.disk import DiskFullError, full_disk
from regard.hub.comparing import compare_weights, open_to_all
from regard.hub.conventions import read_conventions, write_conventions
from regard.hub.facts import Facts, told_by
from regard.hub.families import DECODERS, ENCODERS, TRANSLATORS, family_named, read_facts
from regard.hub.family import DecoderFamily, EncoderFamily, TranslatorFamily
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
from regard.hub.gguf_files.reading import is_gguf, read_gguf
from regard.hub.names import Family
from regard.hub.pickles import PICKLE, read_pickled
from regard.hub.pieces import check_specials, read_pieces, write_pieces
from regard.hub.prompts import prompt_facts, read_prompts
from regard.hub.reading import Problem, read_encoder, read_head, read_problem, read_scored
from regard.hub.sentence_facts import Activation, activation_facts, read_activation, write_activation
from regard.hub.sentences import MODULES, read_sentences, write_sentences
from regard.hub.tokens import has_tokenizer, read_tokenizer, write_tokenizer
from regard.hub.translators import TranslatorCheckpoint
from regard.hub.weights import canonical, check_layers, check_names, read_weights, warn_left_out, write_names
from regard.hub.writing import config_facts
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
from regard.text.conventions import Conventions


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
    activation: Activation | None = None
    """Of a cross-encoder, which scores pairs of texts: what stands behind its score. None for all others."""
    fresh: tuple[str, ...] = ()
    """Parameters that the folder does not have, so they are at their first values."""

    @property
    def kind(self) -> str:
        """What it is for: that of its head, or "rank" for a cross-encoder."""
        return self.config.head.kind if self.activation is None else "rank"


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
    conventions: Conventions = field(default_factory=Conventions)
    """How texts begin and end, and how messages become one."""


def is_foreign(folder: Path) -> bool:
    """Whether it looks like a folder of Hugging Face, or a GGUF file, and not like one of regard."""
    if is_gguf(folder):
        return True
    path = Path(folder) / "config.json"
    try:
        facts = read_table(path)
    except HubError:
        return not path.exists() and path.with_name(MODULES).exists()
    return "model_type" in facts and "format" not in facts


def is_decoder(folder: Path) -> bool:
    """Whether it is such a folder with a language model in it, or a GGUF file: one for `read_decoder`."""
    return is_gguf(folder) or family_named(_model_type(folder), DecoderFamily) is not None


def is_translator(folder: Path) -> bool:
    """The same for a translator, and `read_translator`."""
    return family_named(_model_type(folder), TranslatorFamily) is not None


def _model_type(folder: Path) -> str:
    facts = read_table_if_there(Path(folder) / "config.json") if is_foreign(folder) else {}
    return str(facts.get("model_type"))


def head_kind(folder: Path) -> str:
    """What such a folder is for: the kind of its head (masked, classify, tag, span, embed), "rank" for a
    cross-encoder, "language" or "translate"."""
    if is_decoder(folder):
        return "language"
    if is_translator(folder):
        return "translate"
    folder = _checked(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HubWarning)  # reading it says the same again
        sentences = read_sentences(folder)
    root = sentences.root if sentences else folder
    facts = read_facts(root / "config.json", EncoderFamily)
    kind: str
    if sentences and sentences.head:
        kind = sentences.head.kind
    else:
        kind = facts.kind(() if facts.table.get("architectures") else _tensors(root, facts)[1])
    return "rank" if kind == "classify" and _activation(folder, facts.table) is not None else kind


def _activation(folder: Path, table: Mapping[str, Any]) -> Activation | None:
    names, count = table.get("id2label"), table.get("num_labels", table.get("_num_labels"))
    labels = len(names) if isinstance(names, dict) else count
    return read_activation(folder, table, labels if isinstance(labels, int) else 2)


def read_folder(folder: Path, *, pickle: bool = False) -> Checkpoint:
    """An encoder's folder as it is; nothing in it is executed. The attention weights' dropout is not taken
    over: the fused kernels have none. A language model is refused: it has no encoder. With `pickle`, the
    tensors are those of pytorch_model.bin."""
    folder = _checked(folder)
    sentences = read_sentences(folder)
    root = sentences.root if sentences else folder
    facts = read_facts(root / "config.json", EncoderFamily)
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
    pooler = family.called("encoder.pooler.dense.weight", "embed") in tensors
    pooler = pooler or (isinstance(head, ClassifyConfig) and head.pool.kind == "pooler")
    config = HeadedConfig(encoder=read_encoder(facts, pooler=pooler), head=head)
    if sentences:
        if sentences.width not in (None, config.encoder.d_model):
            raise HubError(
                f"{folder}: pools vectors of {sentences.width}, but the model's have {config.encoder.d_model}"
            )
        tensors.update(sentences.dense)
    if isinstance(head, MaskedConfig) and head.tied:  # the embedding, once more
        tensors.pop(family.called("head.vocabulary.weight", "masked"), None)
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
        activation=_activation(folder, facts.table) if isinstance(head, ClassifyConfig) else None,
        fresh=fresh,
    )


def read_decoder(folder: Path, *, pickle: bool = False) -> DecoderCheckpoint:
    """A language model's folder, in the same way. generation_config.json is passed over: how to draw or
    search is the caller's choice. Or a GGUF file, its blocks undone."""
    if is_gguf(folder):
        return _of_gguf(Path(folder))
    folder = _checked(folder)
    facts = read_facts(folder / "config.json", DecoderFamily)
    _check_architecture(facts, facts.family.architectures, other="has a head that is not read here")
    if (folder / MODULES).exists():
        raise HubError(
            f"{folder / MODULES}: a model for vectors of sentences, no language model; take the file out if "
            "you want the model below all the same"
        )
    file, tensors = _tensors(folder, facts, pickle=pickle)
    tied = _tie(tensors, facts)
    with told_by(facts.path):
        config = facts.family.read(facts, tied)
    weights, _ = read_weights(tensors, config, facts.family, file)
    warn_left_out(tensors, file)
    tokenizer, most = None, None
    if has_tokenizer(folder, facts.family):
        tokenizer, most = read_tokenizer(folder, facts.family, config.vocabulary, lower_case=False)
    longest = min(config.positions.longest, most or config.positions.longest)
    return DecoderCheckpoint(
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        longest=longest,
        conventions=read_conventions(folder, facts, tokenizer),
    )


def _of_gguf(path: Path) -> DecoderCheckpoint:
    config, weights, tokenizer, conventions = read_gguf(path)
    return DecoderCheckpoint(
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        longest=config.positions.longest,
        conventions=conventions,
    )


def read_translator(folder: Path, *, pickle: bool = False) -> TranslatorCheckpoint:
    """A translator's folder, in the same way."""
    folder = _checked(folder)
    facts = read_facts(folder / "config.json", TranslatorFamily)
    _check_architecture(facts, (facts.family.architecture,), other="is no translator that is read here")
    family = facts.family
    with told_by(facts.path):
        config = family.read(facts)
    file, tensors = _read(folder, facts, pickle=pickle, tied=True)
    tensors = family.ours(tensors, facts, file)
    config = family.settled(config, tensors)
    for side, own in (("encoder", config.encoder), ("decoder", config.decoder)):
        start = family.before_layers(side)
        check_layers(tensors, family, own.body.layers, file, start=start, key=f"{side}_layers")
    weights, _ = read_weights(tensors, config, family, file)
    warn_left_out(tensors, file)
    pieces = read_pieces(folder, family.pieces, (config.encoder.vocabulary, config.decoder.vocabulary))
    check_specials(facts, pieces.tokenizer)
    rows = facts.count("rows", least=3)
    return TranslatorCheckpoint(
        config=config,
        weights=weights,
        tokenizer=pieces.tokenizer,
        longest=max(min(rows, pieces.most or rows), 3),
        languages=pieces.languages,
        marks=family.marks,
        source_language=pieces.source_language,
        several_sentences=0.0 if family.sentences else None,
        **read_prompts(facts),
        **asdict(read_search(folder, facts, pieces.tokenizer, before=family.before)),
    )


def _check_architecture(facts: Facts[Family], wanted: tuple[str, ...], *, other: str) -> None:
    """Of a language model, a bare body will do: its output matrix is the embedding, if they are tied."""
    named = facts.architectures()
    if named and not any(name in wanted for name in named):
        raise HubError(
            f"{facts.path}: architectures={named!r:.60} {other}, only {' and '.join(wanted)}: save it as a "
            f"{wanted[-1]}, with transformers"
        )


def _tie(tensors: dict[str, Tensor], facts: Facts[DecoderFamily]) -> bool:
    """Whether the output matrix is the embedding, as transformers sees it: one that is there and differs
    stays one of its own, whatever the configuration says. A double of a tied one is taken out."""
    names = [facts.family.called(name, "language") for name in ("embedding.tokens.weight", "head.weight")]
    rows, output = (tensors.get(name) for name in names)
    if not facts.tied or (rows is not None and output is not None and not torch.equal(rows, output)):
        return False
    if output is not None:
        tensors[names[0]] = tensors.pop(names[1])
    return True


def _checked(folder: Path) -> Path:
    if not Path(folder).is_dir():
        raise HubError(f"{folder}: no such folder; give one that holds config.json and {WEIGHTS}")
    return Path(folder)


def _read(folder: Path, facts: Facts[Family], *, pickle: bool, tied: bool) -> tuple[Path, dict[str, Tensor]]:
    """The file that errors about the tensors name, and these."""
    file = _weights_file(folder)
    if pickle:
        found = read_pickled(folder, lambda names, path: check_names(names, facts.family, path))
    else:
        found = read_tensors(folder)
    return file, canonical(found, facts.family, file, tied=tied)


def _tensors(folder: Path, facts: Facts[Family], *, pickle: bool = False) -> tuple[Path, dict[str, Tensor]]:
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
        compare_weights(checkpoint.weights, back.weights)
        same = (back.longest, back.prompts) == (checkpoint.longest, checkpoint.prompts)
        if back.tokenizer.vocabulary != checkpoint.tokenizer.vocabulary or not same:
            raise HubError("what was written reads back with other lengths or tokens; please report it")
    elif isinstance(checkpoint, DecoderCheckpoint):
        _write_decoder(checkpoint, folder)
        written = read_decoder(folder)
        compare_weights(checkpoint.weights, written.weights)
        _compare_ids(checkpoint, written)
    else:
        _write(checkpoint, folder)
        _compare(checkpoint, read_folder(folder))


def _write(checkpoint: Checkpoint, folder: Path) -> None:
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    encoder = config.encoder
    family = next(each for each in ENCODERS if each.claims(encoder, tokenizer))
    family.check(config, tokenizer)
    _check_sizes(checkpoint, encoder.vocabulary, encoder.positions.longest)
    model, dense = write_names(checkpoint.weights, config, family)
    facts = config_facts(config, family, tokenizer, checkpoint.labels, checkpoint.problem)
    behind = checkpoint.activation
    write_json(folder / "config.json", facts if behind is None else {**facts, **activation_facts(behind)})
    write_tensors(folder / WEIGHTS, model)
    write_tokenizer(folder, tokenizer, longest=checkpoint.longest, segments=encoder.embedding.segments > 1)
    head = config.head
    if isinstance(head, EmbedConfig) or (isinstance(head, ClassifyConfig) and dense):
        sizes = {"d_model": encoder.d_model, "longest": checkpoint.longest}
        write_sentences(folder, head, dense, **sizes, ranks=behind is not None)
    if behind is not None:
        write_activation(folder, behind)
    open_to_all(folder)


def _write_decoder(checkpoint: DecoderCheckpoint, folder: Path) -> None:
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    family = next(each for each in DECODERS if each.claims(config, tokenizer))
    family.check(config, tokenizer)
    _check_sizes(checkpoint, config.vocabulary, config.positions.longest)
    model, _ = write_names(checkpoint.weights, config, family)
    ids = None if tokenizer is None else tokenizer.ids
    words = {**family.words(config), "pad": ids and ids.pad}
    own = (ids.end,) if ids is not None and ids.end is not None else ()
    every = [*own, *checkpoint.conventions.ends]
    ends = {
        "bos_token_id": ids and ids.start,
        "eos_token_id": every if len(every) > 1 else next(iter(every), None),
    }
    facts = {
        "model_type": family.name,
        "architectures": [family.architectures[0]],
        **{key: words[word] for word, key in family.keys.items() if word in words},
        **ends,
        "tie_word_embeddings": config.tied,
        "dtype": "float32",
    }
    write_json(folder / "config.json", facts)
    write_json(folder / GENERATION, ends)
    write_tensors(folder / WEIGHTS, model)
    if tokenizer is not None:
        begins = checkpoint.conventions.begins is True
        most = checkpoint.longest
        write_tokenizer(folder, tokenizer, longest=most, segments=False, framed=False, begins=begins)
        write_conventions(folder, checkpoint.conventions)
    open_to_all(folder)


def _write_translator(checkpoint: TranslatorCheckpoint, folder: Path) -> None:
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    family = next(each for each in TRANSLATORS if each.claims(checkpoint))
    family.check(checkpoint)
    model, _ = write_names(checkpoint.weights, config, family)
    facts = {
        "model_type": family.name,
        "architectures": [family.architecture],
        "tie_word_embeddings": True,
        **{family.keys[word]: value for word, value in family.words(checkpoint).items()},
        "is_encoder_decoder": True,
        **prompt_facts(checkpoint.prompts, checkpoint.default_prompt),
        "dtype": "float32",
    }
    write_json(folder / "config.json", facts)
    longest = checkpoint.longest
    search = generation_facts(
        checkpoint, tokenizer, longest=longest, before=family.before, never=family.never
    )
    write_json(folder / GENERATION, search)
    write_tensors(folder / WEIGHTS, family.theirs(model, config))
    write_pieces(folder, tokenizer, family.write_pieces(folder, checkpoint), longest=longest)
    open_to_all(folder)


def _check_sizes(checkpoint: Checkpoint | DecoderCheckpoint, vocabulary: int, positions: int) -> None:
    ids = 0 if checkpoint.tokenizer is None else len(checkpoint.tokenizer)
    if ids > vocabulary:
        raise HubError(
            f"the tokenizer has {ids} ids, but the model vectors for {vocabulary}: give the tokenizer that "
            "it was trained with"
        )
    if not 0 < checkpoint.longest <= positions:
        raise HubError(f"longest={checkpoint.longest} must be from 1 to {positions} positions")


def _compare(meant: Checkpoint, written: Checkpoint) -> None:
    """What cannot be read from the folder any more is not its business: dropout and first values."""
    compare_weights(meant.weights, written.weights)
    labels = written.labels if isinstance(meant.config.head, ClassifyConfig | TagConfig) else ()
    if (meant.longest, meant.activation) != (written.longest, written.activation) or (
        meant.labels and meant.labels != labels
    ):
        raise HubError("what was written reads back with other lengths or labels; please report it")


def _compare_ids(meant: DecoderCheckpoint, written: DecoderCheckpoint) -> None:
    a, b = meant.tokenizer, written.tokenizer
    if a is None or b is None:
        same = a is b
    else:
        same = a.vocabulary == b.vocabulary and (a.ids.start, a.ids.end) == (b.ids.start, b.ids.end)
    same = same and (a is None or meant.conventions in (written.conventions, Conventions()))
    if not same or (a is not None and meant.longest != written.longest):
        raise HubError("what was written reads back with other lengths or tokens; please report it")
