"""Translation: a text in one language in, the same in another out."""
