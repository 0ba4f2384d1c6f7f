"""Every setting, another value for it, and what of the model or run must then be seen to differ.

    ("optimizer.eps", 1e-2, "weights")                               with the root's own data below it
    ("optimizer.final", 0.5, "rates", {"optimizer.schedule": "linear"})    where it means something only so

A setting that goes to several places has a case for each of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Started:
    """The folder of a model that was trained by a root's own recipe."""

    root: str


@dataclass(frozen=True)
class Inside:
    """A folder inside the one that a root's text lies in."""

    name: str


@dataclass(frozen=True)
class Case:
    root: str
    path: str
    value: Any
    seen: str
    """What must differ."""
    base: Mapping[str, Any] = field(default_factory=dict)
    """Set in both, beside what the root has."""

    def __str__(self) -> str:
        return f"{self.root}: {self.path} seen in {self.seen}"


ROTARY = {"positions.kind": "rotary"}
YARN = {**ROTARY, "positions.scaling": "yarn", "positions.factor": 4.0, "positions.trained": 40}
RELATIVE = {"positions.kind": "relative", "positions.buckets": 8, "positions.reach": 16}
LEARNED = {"positions.kind": "learned"}
RECURRENT = {"body": {"kind": "recurrent", "layers": 2}, "positions.kind": "none"}

BODY: list[Row] = [
    ("vocabulary", 9, "weights"),
    ("d_model", 24, "weights"),
    ("embedding.scaled", False, "eval"),
    ("embedding.normed", True, "weights"),
    ("embedding.dropout", 0.5, "train"),
    ("positions.kind", "alibi", "eval"),
    ("positions.base", 100.0, "eval"),
    ("positions.base", 100.0, "eval", ROTARY),
    ("positions.sinusoids", "halves", "eval"),
    ("positions.longest", 50, "weights", LEARNED),
    ("positions.longest", 50, "eval", {"positions.kind": "fraction"}),
    ("positions.first", 2, "weights", LEARNED),
    ("positions.first", 2, "eval"),
    ("positions.buckets", 12, "weights", RELATIVE),
    ("positions.reach", 40, "eval", RELATIVE),
    ("positions.shared", True, "weights", RELATIVE),
    ("positions.beside", "relative", "weights", LEARNED),
    ("positions.local_base", 10.0, "eval", {**ROTARY, "body.window": 2}),
    ("positions.scaling", "linear", "eval", {**ROTARY, "positions.factor": 2.0, "positions.scaling": "ntk"}),
    ("positions.factor", 4.0, "eval", {**ROTARY, "positions.factor": 2.0, "positions.scaling": "linear"}),
    (
        "positions.trained",
        640,
        "eval",
        YARN,
    ),
    ("positions.few_turns", 2.0, "eval", {**YARN, "positions.scaling": "llama3", "positions.trained": 120}),
    ("positions.many_turns", 8.0, "eval", {**YARN, "positions.trained": 640}),
    ("positions.stretch", 1.5, "eval", YARN),
    ("body.layers", 1, "weights"),
    ("body.dropout", 0.5, "train"),
    ("body.final_norm", True, "weights"),
    ("body.window", 2, "eval"),
    ("body.global_every", 2, "eval", {"body.window": 2}),
    ("body.global_first", 1, "eval", {"body.window": 2, "body.global_every": 2}),
    ("body.kept_heads", [[0], [0, 1]], "weights"),
    ("body.attention.heads", 4, "eval"),
    ("body.attention.kv_heads", 1, "weights"),
    ("body.attention.d_head", 4, "weights"),
    ("body.attention.d_value", 4, "weights"),
    ("body.attention.bias", False, "weights"),
    ("body.attention.output_bias", False, "weights"),
    ("body.attention.qk_norm", True, "weights"),
    ("body.attention.dropout", 0.5, "train"),
    ("body.attention.kernel", "varlen", "refused"),
    ("body.attention.score", "additive", "eval"),
    ("body.attention.scale", 1.0, "eval"),
    ("body.feed_forward.d_ff", 40, "weights"),
    ("body.feed_forward.activation", "gelu", "eval"),
    ("body.feed_forward.bias", False, "weights"),
    ("body.feed_forward.dropout", 0.5, "train"),
    ("body.norm.kind", "rms", "weights"),
    ("body.norm.place", "pre", "eval"),
    ("body.norm.eps", 0.1, "eval"),
    ("body.norm.bias", False, "weights"),
    ("body.first_norm", False, "weights", {"body.norm.place": "pre"}),
    ("body.cell", "gru", "weights", RECURRENT),
    ("body.layers", 1, "weights", RECURRENT),
    ("body.dropout", 0.5, "train", RECURRENT),
    ("initial.scheme", "normal", "weights"),
    ("initial.std", 0.5, "weights", {"initial.scheme": "normal"}),
    ("initial.shrink_residuals", True, "weights"),
]

MODELS: dict[str, list[Row]] = {
    "encoder": [
        *BODY,
        ("embedding.segments", 2, "weights"),
        ("pooler", True, "weights"),
        ("body.bidirectional", False, "weights", RECURRENT),
    ],
    "decoder": [
        *BODY,
        ("tied", False, "weights"),
        ("head_bias", True, "weights"),
        ("head_scaled", True, "eval"),
    ],
    "seq2seq": [
        ("shared", False, "weights"),
        ("encoder.positions.base", 100.0, "eval"),
        ("decoder.positions.base", 100.0, "eval"),
        ("decoder.body.kept_cross_heads", [[0], [0, 1]], "weights"),
        (
            "decoder.body.attention",
            "dot",
            "weights",
            {f"{side}.{path}": value for side in ("encoder", "decoder") for path, value in RECURRENT.items()},
        ),
    ],
    "headed": [
        ("head.labels", 3, "weights"),
        ("head.pool.kind", "mean", "eval"),
        ("head.pool.query", "fixed", "weights", {"head.pool.kind": "attention"}),
        ("head.pool.query", "ones", "eval", {"head.pool.kind": "attention", "head.pool.query": "fixed"}),
        ("head.pool.score", "additive", "weights", {"head.pool.kind": "attention"}),
        ("head.pool.score", "dot", "eval", {"head.pool.kind": "attention"}),
        ("head.inner", "tanh", "weights"),
        ("head.dropout", 0.5, "train"),
        ("head.tags", 3, "weights", {"head": {"kind": "tag"}}),
        ("head.dropout", 0.5, "train", {"head": {"kind": "tag"}}),
        ("head.dropout", 0.5, "train", {"head": {"kind": "span"}}),
        ("head.next_sentence", True, "weights", {"head": {"kind": "masked"}, "encoder.pooler": True}),
        ("head.tied", False, "weights", {"head": {"kind": "masked"}}),
        ("head.activation", "relu", "eval", {"head": {"kind": "masked"}}),
        ("head.eps", 0.5, "eval", {"head": {"kind": "masked"}}),
        ("head.bias", False, "weights", {"head": {"kind": "masked"}}),
        ("head.transform.activation", "relu", "eval", {"head.transform": {"activation": "gelu"}}),
        ("head.transform.eps", 0.5, "eval", {"head.transform": {"eps": 1e-5}}),
        ("head.transform", {}, "weights", {"head": {"kind": "classify"}}),
        ("head.transform", {}, "weights", {"head": {"kind": "tag"}}),
        ("head.transform", {}, "weights", {"head": {"kind": "span"}}),
        ("head.pool.kind", "first", "eval", {"head": {"kind": "embed"}}),
        ("head.project", 5, "weights", {"head": {"kind": "embed"}}),
        ("head.normalised", False, "eval", {"head": {"kind": "embed"}}),
        ("encoder.positions.base", 100.0, "eval"),
    ],
}

OFTEN = {"train.validate_every": 1}
PAPER = {"optimizer.schedule": "paper", "optimizer.learning_rate": 0.1}
BPE = {"tokenizer.kind": "bpe", "tokenizer.vocabulary": 300}

EVERY_TASK: list[Row] = [
    ("model.d_model", 32, "rates", PAPER),
    ("model.layers", 3, "start"),
    ("tokenizer.vocabulary", 15, "tokenizer"),
    ("batch.tokens", 60, "batches"),
    ("batch.parts", 2, "batches"),
    ("batch.seed", 1, "batches"),
    ("optimizer.learning_rate", 1e-2, "rates"),
    ("average.kind", "none", "weights"),
    ("train.seed", 1, "start", {"batch.seed": 0}),
    ("train.seed", 1, "batches"),
    ("train.precision", "bfloat16", "losses"),
    ("train.precision", "bfloat16", "valid", {"optimizer.learning_rate": 0.0}),
]
"""What each task hands on by itself."""

TRAINING: list[Row] = [
    ("optimizer.kind", "muon", "weights"),
    ("optimizer.schedule", "constant", "rates"),
    ("optimizer.warmup", 3, "rates"),
    ("optimizer.final", 0.5, "rates"),
    ("optimizer.betas", [0.5, 0.98], "weights"),
    ("optimizer.betas", [0.9, 0.5], "weights"),
    ("optimizer.momentum", 0.5, "weights", {"optimizer.kind": "muon"}),
    ("optimizer.eps", 1e-2, "weights"),
    ("optimizer.weight_decay", 0.5, "weights"),
    ("optimizer.clip", 1e-3, "weights"),
    ("average.decay", 0.1, "weights"),
    ("average.last", 1, "weights", {**OFTEN, "average.kind": "last", "valid.metric": "loss"}),
    ("train.steps", 2, "steps"),
    ("train.steps", 4, "rates"),
    ("train.minutes", 1e-6, "steps"),
    ("train.validate_every", 2, "valid"),
    ("train.patience", 1, "steps", {**OFTEN, "optimizer.learning_rate": 0.0}),
    ("train.log_every", 2, "losses"),
    ("train.save_every", 1, "saved"),
    ("train.compile", "yes", "refused"),
    ("train.capture", "yes", "refused"),
]
"""What all tasks hand on together."""

TOKENIZER: list[Row] = [
    ("tokenizer.kind", "characters", "tokenizer"),
    ("tokenizer.minimum_frequency", 30, "tokenizer"),
    ("tokenizer.normalisation", "nfkc", "tokenizer"),
    ("tokenizer.lowercase", True, "tokenizer"),
    ("tokenizer.strip_accents", True, "tokenizer"),
    ("tokenizer.byte_fallback", False, "tokenizer", BPE),
    *(
        (f"tokenizer.specials.{role}", "<other>", "tokenizer")
        for role in ("pad", "unknown", "start", "end", "cls", "sep", "mask")
    ),
    ("tokenizer.specials.extra", ["<more>"], "tokenizer"),
]

FINE_TUNING: list[Row] = [
    ("optimizer.layer_decay", 0.1, "weights"),
    ("optimizer.head_rate", 10.0, "weights"),
]

DROPOUTS: list[Row] = [
    ("model.dropout", 0.5, "loss"),
    ("model.attention_dropout", 0.5, "loss"),
    ("model.activation_dropout", 0.5, "loss"),
]

WORDS: list[Row] = [
    ("model.preset", "small", "start", {"model": {"preset": "tiny", "d_model": 16, "heads": 2, "d_ff": 32}}),
    *DROPOUTS,
    ("model.heads", 4, "loss"),
    ("model.d_ff", 40, "start"),
    ("model.norm_kind", "rms", "start"),
    ("model.positions", "none", "loss"),
    ("model.score", "dot", "weights"),
]
"""That translators, encoders and language models have in common; the start has no dropout in it."""


def starting(root: str, rows: list[Row]) -> list[Row]:
    """The same for a model that starts from one that `root` has trained."""
    alone = {"model": {"start": Started(root)}, "tokenizer": {}}
    return [(*row[:3], {**alone, **(row[3] if len(row) > 3 else {})}) for row in rows]


HELD = {"data.valid": [], "data.hold_out": 5}


def read_from(name: Any, **data: Any) -> dict[str, Any]:
    """Training text from this file or these; what is validated on comes from it too."""
    files = [name] if isinstance(name, str | dict) else name
    return {"data.train": files, **HELD, **{f"data.{key}": value for key, value in data.items()}}


def pair(name: str) -> dict[str, str]:
    return {"source": f"{name}.en", "target": f"{name}.de"}


IN_TABLE = {"table": "table.tsv", "source": "en", "target": "de"}
SAMPLED = {"decode.method": "sample"}
FUZZY = {"data.fuzzy.share": 0.5, "data.fuzzy.at_least": 50}
TERMS = {"data.terms.share": 0.5}
TOLD = {"data.terms.share": 1.0, "data.terms.glossary": "two.db", "data.terms.languages": "en:de"}
REMEMBERED = {**FUZZY, "data.fuzzy.memory": "two.db", "data.fuzzy.languages": "en:de"}

PAIRS: list[Row] = [
    ("data.train.0.source", "other.en", "batches"),
    ("data.train.0.target", "other.de", "batches"),
    ("data.train.0.source", "second", "batches", read_from(IN_TABLE)),
    ("data.train.0.target", "second", "batches", read_from(IN_TABLE)),
    ("data.train.0.table", "other.tsv", "batches", read_from(IN_TABLE)),
    (
        "data.train.0.format",
        "tsv",
        "refused",
        read_from({**IN_TABLE, "table": "table.rows", "format": "csv"}),
    ),
    ("data.encoding", "utf-16", "refused", read_from(pair("utf16"))),
    ("data.separator", ",", "refused", read_from({**IN_TABLE, "table": "bars.tsv"}, separator="|")),
    ("data.train", [pair("train"), pair("other")], "batches"),
    ("data.valid", [pair("other")], "valid"),
    ("data.test", [pair("test")], "tested"),
    ("data.root", Inside("away"), "batches"),
    ("data.hold_out", 10, "batches", HELD),
    ("data.longest", 8, "batches"),
    ("data.on_error", "skip", "refused", read_from(pair("broken"))),
]

RANKED = {
    "data.train": [{"table": "../rankings/other.jsonl", "source": "query", "target": "positive"}],
}
"""Pairs in a table that has negatives too."""

DOCUMENTS: list[Row] = [
    ("data.train", ["train.txt", "other.txt"], "batches"),
    ("data.valid", ["other.txt"], "valid"),
    ("data.test", ["other.txt"], "refused"),
    ("data.root", Inside("away"), "batches"),
    ("data.documents", "line", "said"),
    ("data.mark", "<doc 1", "said", read_from("marked.txt", documents="mark", mark="<doc")),
    ("data.text", "body", "batches", read_from("table.tsv")),
    ("data.format", "tsv", "refused", read_from("commas.rows", format="csv", documents="blank")),
    ("data.separator", ",", "refused", read_from("bars.tsv", separator="|")),
    ("data.encoding", "utf-16", "refused", read_from("utf16.txt", hold_out=0)),
    ("data.quoted", True, "batches", read_from("table.tsv")),
    ("data.header", True, "said", read_from("table.tsv", text=1)),
    ("data.hold_out", 2, "batches", read_from("train.txt", hold_out=0, documents="blank")),
    ("data.on_error", "skip", "refused", read_from("broken.txt", hold_out=0)),
]


TABLES: dict[str, list[Row]] = {
    **MODELS,
    "masking": [
        ("share", 0.3, ""),
        ("mask", 0.5, ""),
        ("random", 0.2, ""),
        ("unit", "word", ""),
        ("span", 2.0, "", {"unit": "span"}),
        ("fresh", False, ""),
        ("copies", 2, "", {"fresh": False}),
    ],
    "claims": [
        ("lengths", [2, 3], "steps"),
        ("d_model", 16, "accuracies"),
        ("timed_lengths", [2, 4], "speeds"),
        ("timed_tokens", 8, "speeds"),
        ("timed_width", 16, "speeds"),
        ("timed_layers", 2, "speeds"),
        ("repeats", 2, "speeds"),
        ("distances", [2, 3], "accuracies"),
        ("symbols", 5, "accuracies"),
        ("train_steps", 9, "accuracies"),
        ("batch", 8, "accuracies"),
        ("rate", 0.1, "accuracies"),
        ("seeds", 2, "accuracies"),
        ("seed", 1, "accuracies"),
        ("seed", 1, "speeds"),
    ],
    "table": [
        ("path", Inside("other.tsv"), ""),
        ("format", "csv", ""),
        ("separator", "|", "", {"path": Inside("bars.tsv")}),
        ("encoding", "utf-16", "", {"path": Inside("utf16.tsv")}),
        ("quoted", True, "", {"path": Inside("quotes.tsv")}),
        ("cells", 2, "", {"path": Inside("wide.tsv")}),
        ("header", True, ""),
        ("longest", 8, ""),
    ],
    "translate": [
        *EVERY_TASK,
        *WORDS,
        ("model.encoder_layers", 2, "start"),
        ("model.decoder_layers", 2, "start"),
        ("model.activation", "gelu", "loss"),
        ("model.norm", "pre", "loss"),
        ("model.cell", "gru", "start", {"model": {"preset": "recurrent", "d_model": 16}}),
        ("model.attention", "dot", "start", {"model": {"preset": "recurrent", "d_model": 16}}),
        ("model.tied", False, "start"),
        ("model.shared", False, "start"),
        ("model.encoder", {"body": {"window": 1}}, "loss"),
        ("model.decoder", {"body": {"window": 1}}, "loss"),
        ("loss.label_smoothing", 0.5, "loss"),
        ("loss.r_drop", 2.0, "loss"),
        ("valid.metric", "loss", "judged"),
        ("valid.beam", 3, "valid"),
        ("valid.sentences", 3, "valid"),
        ("decode.method", "greedy", "answers"),
        ("decode.beam", 2, "answers"),
        ("decode.n_best", 3, "answers"),
        ("decode.length_penalty", 0.0, "answers"),
        ("decode.stop", "exact", "answers"),
        ("decode.minimum", 10, "answers"),
        ("decode.maximum", 1, "answers"),
        ("decode.maximum", 1, "tested", {"data.test": [pair("test")]}),
        ("decode.no_repeat", 1, "answers"),
        ("decode.repetition_penalty", 5.0, "answers"),
        ("decode.temperature", 0.1, "answers", SAMPLED),
        ("decode.top_k", 1, "answers", SAMPLED),
        ("decode.top_p", 0.1, "answers", SAMPLED),
        ("decode.min_p", 0.9, "answers", SAMPLED),
        ("decode.seed", 1, "answers", SAMPLED),
        *PAIRS,
        ("data.train.0.to", "fr", "batches", {"data.train.0.to": "de", "data.valid.0.to": "de"}),
        ("data.prompt", "simplify: ", "batches"),
        ("data.same_language", True, "checked", {"data.train.0.target": "train.en"}),
        ("data.mix.train", [pair("other")], "batches"),
        ("data.mix.share", 0.2, "batches", {"data.mix.train": [pair("other")]}),
        ("data.fuzzy.share", 1.0, "batches", FUZZY),
        ("data.fuzzy.memory", "memory.db", "batches", FUZZY),
        ("data.fuzzy.languages", "en:fr", "batches", REMEMBERED),
        ("data.fuzzy.at_least", 65, "batches", FUZZY),
        ("data.fuzzy.seed", 1, "batches", FUZZY),
        ("data.terms.share", 1.0, "batches", TERMS),
        ("data.terms.glossary", "terms.tsv", "batches", TERMS),
        ("data.terms.languages", "en:fr", "batches", TOLD),
        ("data.terms.seed", 1, "batches", TERMS),
        ("model.start", Started("translate"), "start", {"model": {}, "tokenizer": {}}),
        *starting("translate", DROPOUTS),
        *starting("translate", [("average.start", 0.5, "weights"), ("model.adapter.rank", 2, "weights")]),
        *starting("translate", [("model.adapter.alpha", 4.0, "weights", {"model.adapter.rank": 2})]),
        *starting(
            "translate",
            [("model.adapter.matrices", ["attention"], "weights", {"model.adapter.rank": 2})],
        ),
    ],
    "pretrain": [
        *EVERY_TASK,
        *FINE_TUNING,
        *DOCUMENTS,
        ("model.start", Started("classify"), "start", {"model": {}, "tokenizer": {}}),
        ("data.longest", 12, "batches"),
        ("objective.share", 0.4, "batches"),
        ("objective.mask", 0.2, "batches"),
        ("objective.random", 0.2, "batches"),
        ("objective.unit", "span", "batches"),
        ("objective.span", 2.0, "batches", {"objective.unit": "span"}),
        ("objective.fresh", False, "batches", {"objective.copies": 1}),
        ("objective.copies", 2, "batches", {"objective.fresh": False}),
        ("objective.next_sentence", True, "batches"),
        ("objective.next_sentence", True, "start"),
        ("objective.next_weight", 3.0, "loss", {"objective.next_sentence": True}),
        ("train.seed", 1, "batches", {"batch.seed": 0}),  # the masks
        ("valid.metric", "accuracy", "judged"),
        ("valid.sequences", 2, "valid"),
    ],
    "classify": [
        *EVERY_TASK,
        *TRAINING,
        *TOKENIZER,
        *WORDS,
        *FINE_TUNING,
        ("model.start", Started("pretrain"), "start", {"model": {}, "tokenizer": {}}),
        ("model.frozen", 1, "learning", {"model": {"start": Started("pretrain")}, "tokenizer": {}}),
        *starting("pretrain", DROPOUTS),
        ("model.activation", "relu", "loss"),
        ("model.norm", "pre", "loss"),
        ("model.longest", 20, "start"),
        ("model.cell", "gru", "start", {"model": {"preset": "recurrent", "d_model": 16}}),
        ("model.encoder", {"body": {"window": 1}}, "loss"),
        ("head.pool", "first", "loss"),
        ("head.query", "fixed", "learning", {"head.pool": "attention"}),
        ("head.score", "additive", "start", {"head.pool": "attention"}),
        ("head.dropout", 0.5, "loss"),
        ("head.fit", "logistic", "weights", {"model": {"start": Started("pretrain")}, "tokenizer": {}}),
        ("loss.label_smoothing", 0.5, "loss"),
        ("loss.r_drop", 2.0, "loss"),
        ("loss.class_weights", "balanced", "loss", read_from("uneven.tsv")),
        ("valid.metric", "loss", "judged"),
        ("data.train", ["train.tsv", "other.tsv"], "batches"),
        ("data.valid", ["train.tsv"], "valid"),
        ("data.test", ["test.tsv"], "tested"),
        ("data.root", Inside("away"), "batches"),
        ("data.text", 2, "batches"),
        ("data.second", 2, "batches"),
        ("data.label", 2, "batches", HELD),
        ("data.problem", "number", "batches", read_from("numbers.tsv")),
        ("data.apart", ";", "batches", read_from("several.tsv", problem="multi")),
        ("data.until", ":", "batches"),
        ("data.format", "tsv", "refused", read_from("commas.rows", format="csv")),
        ("data.separator", ",", "refused", read_from("bars.tsv", separator="|")),
        ("data.encoding", "utf-16", "refused", read_from("utf16.tsv")),
        ("data.quoted", True, "batches", read_from("quotes.tsv")),
        ("data.cells", 2, "refused", read_from("wide.tsv")),
        ("data.header", True, "said"),
        ("data.hold_out", 10, "batches", HELD),
        ("data.examples", 20, "batches"),
        ("data.longest", 6, "batches"),
        ("data.too_long", "skip", "batches", {"data.longest": 6}),
        ("data.on_error", "skip", "refused", read_from("broken.tsv")),
    ],
    "tag": [
        *EVERY_TASK,
        *FINE_TUNING,
        ("model.start", Started("pretrain"), "start", {"model": {}, "tokenizer": {}}),
        ("head.words", "mean", "loss", BPE),
        ("head.words", "mean", "valid", {**BPE, "optimizer.learning_rate": 0.0}),
        ("head.decode", "greedy", "valid", {"data.valid": ["valid.conll", "other.conll", "test.conll"]}),
        ("head.decode", "greedy", "answers"),
        ("head.dropout", 0.5, "loss"),
        ("loss.label_smoothing", 0.5, "loss"),
        ("loss.r_drop", 2.0, "loss"),
        ("valid.metric", "loss", "judged"),
        ("data.train", ["train.conll", "other.conll"], "batches"),
        ("data.valid", ["other.conll"], "valid"),
        ("data.test", ["test.conll"], "tested"),
        ("data.root", Inside("away"), "batches"),
        ("data.format", "conll", "refused", read_from("train.jsonl")),
        ("data.word", "heard", "batches", read_from("train.jsonl")),
        ("data.tag", "kinds", "batches", read_from("train.jsonl")),
        ("data.names", ["Y", "Z"], "answers", read_from("numbers.jsonl", names=["N", "X"])),
        ("data.problem", "number", "batches", read_from("counts.conll")),
        ("data.scheme", "none", "batches", read_from("older.conll", scheme="IOB1")),
        ("data.comment", "#", "batches", read_from("noted.conll")),
        ("data.separator", ",", "refused", read_from("bars.conll", separator="|")),
        ("data.encoding", "utf-16", "refused", read_from("utf16.conll")),
        ("data.hold_out", 10, "batches", HELD),
        ("data.longest", 6, "batches"),
        ("data.on_error", "skip", "refused", read_from("broken.conll", scheme="IOB2")),
    ],
    "answer": [
        *EVERY_TASK,
        *FINE_TUNING,
        ("model.start", Started("pretrain"), "start", {"model": {}, "tokenizer": {}}),
        ("head.longest_answer", 1, "valid"),
        ("head.longest_answer", 1, "answers"),
        ("head.none", "never", "valid", {"data.train": ["some.json"], "data.valid": ["some.json"]}),
        ("head.dropout", 0.5, "loss"),
        ("loss.label_smoothing", 0.5, "loss"),
        ("loss.r_drop", 2.0, "loss"),
        ("valid.metric", "loss", "judged"),
        ("data.train", ["train.json", "other.json"], "batches"),
        ("data.valid", ["other.json"], "valid"),
        ("data.test", ["test.json"], "tested"),
        ("data.root", Inside("away"), "batches"),
        ("data.format", "squad", "refused", read_from("train.jsonl")),
        ("data.question", "asked", "batches", read_from("train.jsonl")),
        ("data.context", "about", "batches", read_from("train.jsonl")),
        ("data.answer", "says", "batches", read_from("train.jsonl", start="")),
        ("data.start", "nowhere", "refused", read_from("train.jsonl")),
        ("data.separator", ",", "refused", read_from("bars.tsv", separator="|")),
        ("data.encoding", "utf-16", "refused", read_from("utf16.json")),
        ("data.hold_out", 10, "batches", HELD),
        (
            "data.longest",
            16,
            "batches",
            {"data.overlap": 2, "tokenizer": {"kind": "characters", "vocabulary": 40}},
        ),
        (
            "data.overlap",
            6,
            "batches",
            {"data.longest": 30, "data.overlap": 2, "tokenizer": {"kind": "characters", "vocabulary": 40}},
        ),
        ("data.on_error", "skip", "refused", read_from("broken.json")),
    ],
    "embed": [
        *EVERY_TASK,
        *FINE_TUNING[:1],
        ("optimizer.head_rate", 10.0, "weights", {"head.project": 8}),
        ("model.start", Started("pretrain"), "start", {"model": {}, "tokenizer": {}}),
        # of what starts from trained weights and has its batches settled, only the dropout is left
        *starting("pretrain", [("train.seed", 1, "losses", {"batch.seed": 0})]),
        ("head.pool", "max", "loss"),
        ("head.project", 8, "start"),
        ("loss.temperature", 0.5, "loss"),
        ("loss.temperature", 0.5, "valid", {"optimizer.learning_rate": 0.0}),
        ("loss.symmetric", False, "loss"),
        ("loss.guide", Started("pretrain"), "loss"),
        ("loss.guide_margin", 0.5, "loss", {"loss.guide": Started("pretrain")}),
        ("loss.dimensions", [4], "loss"),
        ("valid.metric", "loss", "judged"),
        ("valid.sentences", 4, "valid"),
        *PAIRS,
        ("data.too_long", "skip", "batches", {"data.longest": 8}),
        ("data.overlap", "keep", "batches", {"data.train": [pair("elsewhere")]}),
        ("data.negatives", ["negatives"], "batches", RANKED),
        ("data.most", 1, "batches", {**RANKED, "data.negatives": ["negatives"]}),
    ],
    "rerank": [
        *EVERY_TASK,
        *FINE_TUNING,
        ("model.start", Started("pretrain"), "start", {"model": {}, "tokenizer": {}}),
        ("head.pool", "max", "loss"),
        ("head.dropout", 0.5, "loss"),
        ("head.activation", "sigmoid", "answers"),
        ("loss.kind", "binary", "loss"),
        ("loss.kind", "margin", "loss", {"data.scores": "scores"}),
        ("valid.metric", "loss", "judged"),
        ("data.train", ["train.jsonl", "other.jsonl"], "batches"),
        ("data.valid", ["other.jsonl"], "valid"),
        ("data.test", ["test.jsonl"], "tested"),
        ("data.root", Inside("away"), "batches"),
        ("data.format", "jsonl", "refused", read_from("train.rows")),
        ("data.query", "asked", "batches"),
        ("data.positive", "right", "batches"),
        ("data.negatives", ["wrong"], "batches"),
        ("data.scores", "flat", "loss", {"data.scores": "scores", "loss.kind": "margin"}),
        ("data.most", 1, "batches"),
        ("data.separator", ",", "refused", read_from("bars.tsv", separator="|")),
        ("data.encoding", "utf-16", "refused", read_from("utf16.jsonl")),
        ("data.hold_out", 10, "batches", HELD),
        ("data.longest", 16, "batches"),
        ("data.too_long", "skip", "batches", {"data.longest": 16}),
        ("data.on_error", "skip", "refused", read_from("broken.jsonl")),
    ],
    "language": [
        *EVERY_TASK,
        *WORDS,
        *DOCUMENTS,
        ("model.start", Started("language"), "start", {"model": {}, "tokenizer": {}}),
        *starting("language", DROPOUTS),
        ("model.make", "modern", "start"),
        ("model.cell", "rnn", "start", {"model": {"preset": "recurrent", "d_model": 16, "layers": 1}}),
        ("model.kv_heads", 1, "start"),
        ("model.activation", "relu", "loss"),
        ("model.norm", "post", "loss"),
        ("model.window", 1, "loss"),
        ("model.global_every", 2, "loss", {"model.window": 1}),
        (
            "model.scaling",
            "ntk",
            "loss",
            {"model.positions": "rotary", "model.scaling": "linear", "model.factor": 2.0},
        ),
        (
            "model.factor",
            4.0,
            "loss",
            {"model.positions": "rotary", "model.scaling": "linear", "model.factor": 2.0},
        ),
        (
            "model.trained",
            640,
            "loss",
            {
                "model.positions": "rotary",
                "model.scaling": "yarn",
                "model.factor": 4.0,
                "model.trained": 40,
            },
        ),
        ("model.tied", False, "start"),
        ("model.decoder", {"body": {"window": 1}}, "loss"),
        ("context.tokens", 12, "batches"),
        ("context.tokens", 12, "start"),
        ("context.across", False, "batches", {"data.documents": "blank"}),
        ("context.across", False, "valid", {"data.documents": "blank", "optimizer.learning_rate": 0.0}),
        ("loss.label_smoothing", 0.5, "loss"),
        ("valid.stride", 4, "valid"),
        ("valid.tokens", 40, "valid"),
        ("data.longest", 12, "refused"),
    ],
}

CASES = [Case(root, *row) for root, rows in TABLES.items() for row in rows]
