"""Pairs of a query and a text, scored: rerankers."""
