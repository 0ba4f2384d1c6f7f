"""The built-in corpus: English and German, made by a grammar."""

from regard.text.phrasebook.corpus import Split, phrases, write

__all__ = ["Split", "phrases", "write"]
