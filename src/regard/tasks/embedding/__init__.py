"""Sentence and word embeddings: texts in, vectors out."""
