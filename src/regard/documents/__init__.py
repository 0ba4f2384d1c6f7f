"""Translators' own files: segments out, translations in, everything else as it was. Knows no model."""
