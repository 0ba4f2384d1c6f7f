"""Masked language modelling: an encoder learns from plain text, and fills in what is masked."""
