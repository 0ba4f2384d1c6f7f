"""Language models: text in, its continuation out."""
