"""The laboratory: variants of a recipe, trained on the same data, tokens and seeds, and compared honestly."""
