"""GGUF files, as llama.cpp keeps language models. Architectures and tokenizers have its own names here."""
