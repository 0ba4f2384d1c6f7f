"""Text, before it becomes tensors: records, readers of many formats, and the tokenizer. Imports no torch."""

from regard.text.columns import read_conll, read_conllu
from regard.text.encoding import Encoding
from regard.text.questions import read_questions, read_squad
from regard.text.readers import (
    read_labelled,
    read_lines,
    read_pairs,
    read_scored,
    read_table_lines,
    read_table_pairs,
    read_tagged,
)
from regard.text.records import (
    DataError,
    DataWarning,
    Gold,
    Labelled,
    Line,
    OnError,
    Origin,
    Pair,
    Question,
    ScoredPair,
    Skipped,
    Tagged,
)
from regard.text.specials import Role, SpecialIds, Specials
from regard.text.tables import Table
from regard.text.tags import Scheme, Span, TagError, detect_scheme, spans, to_bioes, to_iob2
from regard.text.tokenizer import Template, Tokenizer
from regard.text.training import Kind, Normalisation, TokenizerConfig

__all__ = [
    "DataError",
    "DataWarning",
    "Encoding",
    "Gold",
    "Kind",
    "Labelled",
    "Line",
    "Normalisation",
    "OnError",
    "Origin",
    "Pair",
    "Question",
    "Role",
    "Scheme",
    "ScoredPair",
    "Skipped",
    "Span",
    "SpecialIds",
    "Specials",
    "Table",
    "TagError",
    "Tagged",
    "Template",
    "Tokenizer",
    "TokenizerConfig",
    "detect_scheme",
    "read_conll",
    "read_conllu",
    "read_labelled",
    "read_lines",
    "read_pairs",
    "read_questions",
    "read_scored",
    "read_squad",
    "read_table_lines",
    "read_table_pairs",
    "read_tagged",
    "spans",
    "to_bioes",
    "to_iob2",
]
