"""What a tokenizer made of a text: ids, and for each of them where it came from."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoding:
    """One entry per token in each of the first six fields."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    """As the vocabulary spells them."""
    segments: tuple[int, ...]
    """0 for `[CLS] a [SEP]`, 1 for `b [SEP]`."""
    texts: tuple[int | None, ...]
    """The text a token is part of: 0 the first, 1 the second, None for the tokens of the template."""
    offsets: tuple[tuple[int, int], ...]
    """Start and end in that text (in its word, for `encode_words`), in characters, without the space before a
    word; (0, 0) for the tokens of the template. The bytes of one character have the same offsets."""
    words: tuple[int | None, ...]
    """The word of that text a token is part of; None for the tokens of the template. What is a word, the
    tokenizer decides for `encode` and the caller for `encode_words`."""
    word_counts: tuple[int, ...]
    """The number of words in each text."""

    def __len__(self) -> int:
        return len(self.ids)

    def subwords(self, word: int, text: int = 0) -> tuple[int, ...]:
        """Positions of the tokens of a word; none if it left no token, as a zero-width character may."""
        if not 0 <= word < self._words(text):
            raise IndexError(f"word {word} of text {text}, which has {self.word_counts[text]}: count from 0")
        both = zip(self.texts, self.words, strict=True)
        return tuple(i for i, place in enumerate(both) if place == (text, word))

    def _words(self, text: int) -> int:
        if not 0 <= text < len(self.word_counts):
            raise IndexError(f"text {text} of an encoding of {len(self.word_counts)}: count from 0")
        return self.word_counts[text]
