"""Learning a tokenizer from text: the same bytes from the same text, every time.

Words are counted first, in Python, and a vocabulary is learned from the counts. Of the trainers of the
`tokenizers` library only BPE gives the same result in each run (ties go to the pair of lower ids), and only
if the ids of its alphabet are fixed: WordPiece meets its `##x` characters in hash order, so here it gets them
sorted; Unigram sums in hash order, so regard.text.unigram does that. Characters and words are plain lists by
frequency, then code point.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.text.specials import BYTES, Specials, check_specials, guard, template

Texts = TypeVar("Texts")
Kind = Literal["bpe", "byte-bpe", "wordpiece", "unigram", "characters", "words", "whitespace"]
Normalisation = Literal["none", "nfc", "nfkc"]

# A run of letters, of digits or of signs, with the space before it; white space that belongs to none of them.
_WORD = r"▁?[\p{L}\p{M}]+|▁?\p{N}+|▁?[^▁\s\p{L}\p{M}\p{N}]+|▁|\s+"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerConfig:
    kind: Kind = "bpe"
    """How text is cut: bpe or unigram (subwords; any script), byte-bpe (subwords of bytes, as GPT-2),
    wordpiece (as BERT; spaces and rare characters are lost), characters, words (with every sign by itself:
    text such as I_TURN_LEFT does not come back as it was), or whitespace (words as spaces part them)."""
    vocabulary: int = 8000
    """Number of tokens, special ones included; fewer are made where the text does not hold as many."""
    minimum_frequency: int = 1
    """Characters, words and merges seen less often than this are left out."""
    normalisation: Normalisation = "none"
    """Unicode form the text is brought to: none keeps it to the letter, nfc joins accents to their letters,
    nfkc also maps wide, superscript and ligature forms to plain ones."""
    lowercase: bool = False
    """Make everything lower case."""
    strip_accents: bool = False
    """Remove accents."""
    byte_fallback: bool = True
    """For bpe and unigram: spell characters outside the alphabet in bytes (256 tokens), not as unknown."""
    specials: Specials = field(default_factory=Specials)
    """The special tokens."""

    def __post_init__(self) -> None:
        for name, allowed in (("kind", get_args(Kind)), ("normalisation", get_args(Normalisation))):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is not known: choose one of {', '.join(allowed)}"
                )
        if self.minimum_frequency < 1:
            raise ValueError(f"minimum_frequency={self.minimum_frequency} means nothing: choose 1 or more")
        check_specials(self.specials)
        if self.specials.unknown is None and self.kind != "byte-bpe":
            raise ValueError(
                f"kind={self.kind!r} needs a token for the unknown: set specials.unknown, e.g. '<unk>'"
            )
        if self.vocabulary <= len(self.reserved):
            raise ValueError(
                f"vocabulary={self.vocabulary} leaves no room for text beside {len(self.reserved)} reserved "
                f"tokens: choose more than {len(self.reserved)}"
            )

    @property
    def reserved(self) -> tuple[str, ...]:
        """The tokens that come first, whatever the text: special ones, then those of the byte fallback."""
        falls_back = self.byte_fallback and self.kind in ("bpe", "unigram")
        return (*self.specials, *(BYTES if falls_back else ()))


def each_text(texts: Iterable[str]) -> Iterator[str]:
    """The texts, checked to be text: of a list, an array, or a column of a data frame."""
    if isinstance(texts, str):
        raise TypeError(f"{texts!r:.40} is one string, but many are taken: pass a list of lines")
    for number, text in enumerate(no_table(texts)):
        if not isinstance(text, str):
            raise TypeError(f"a {type(text).__name__} is no text: {_way_out(text, number)}")
        yield text


def _way_out(value: object, number: int) -> str:
    if value is None or value != value:
        return f"text {number} is missing; leave it out, or fill it in"
    return "pass texts, as (line.text for line in read_lines(path))"


def no_table(texts: Texts) -> Texts:
    """Refuse a whole data frame, which would give the names of its columns."""
    if hasattr(texts, "columns"):
        kind = type(texts).__name__
        raise TypeError(f"a {kind} is a table: pass the column of the texts, as table['text']")
    return texts


def train(lines: Iterable[str], config: TokenizerConfig) -> tokenizers.Tokenizer:
    normalizer, pre_tokenizer, decoder = _pipeline(config)
    counts = _count(lines, normalizer, guard(pre_tokenizer, config.reserved))
    if not counts:
        raise ValueError("no text to train a tokenizer on: all lines are empty; check what was read")
    tokenizer = tokenizers.Tokenizer(_learn(counts, config))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    if decoder is not None:
        tokenizer.decoder = decoder
    # A token in the text takes the spaces beside it along where words carry their own: 'a [MASK] b' is then
    # cut as 'a cat b' would be.
    takes_left, takes_right = config.kind in ("bpe", "unigram", "byte-bpe"), config.kind in ("bpe", "unigram")
    tokenizer.add_special_tokens(
        [
            AddedToken(t, special=True, normalized=False, lstrip=takes_left, rstrip=takes_right)
            for t in config.specials
        ]
    )
    tokenizer.post_processor = template(config.specials, tokenizer.get_vocab())
    return tokenizer


def _pipeline(
    config: TokenizerConfig,
) -> tuple[normalizers.Normalizer | None, pre_tokenizers.PreTokenizer, decoders.Decoder | None]:
    """How text is cleaned, how it is split into words, and how tokens become text again; None: by spaces."""
    steps: list[normalizers.Normalizer] = []
    match config.normalisation:
        case "nfc":
            steps.append(normalizers.NFC())
        case "nfkc":
            steps.append(normalizers.NFKC())
    if config.kind == "wordpiece":
        cleaner = normalizers.BertNormalizer(lowercase=config.lowercase, strip_accents=config.strip_accents)
        steps.append(cleaner)
    else:
        steps += [normalizers.Lowercase()] * config.lowercase
        steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()] * config.strip_accents

    pre_tokenizer: pre_tokenizers.PreTokenizer
    decoder: decoders.Decoder | None
    match config.kind:
        case "bpe" | "unigram":
            # One '▁' is put before the text and one taken off again, so that a first word is cut like any
            # other and leading spaces survive.
            steps += [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
            pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), behavior="isolated")
            from_bytes = [decoders.ByteFallback()] * config.byte_fallback
            decoder = decoders.Sequence(
                [decoders.Replace("▁", " "), *from_bytes, decoders.Fuse(), decoders.Strip(" ", 1, 0)]
            )
        case "byte-bpe":
            pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            decoder = decoders.ByteLevel()
        case "wordpiece" | "words":
            pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            decoder = decoders.WordPiece(prefix="##")
        case "whitespace":
            pre_tokenizer, decoder = pre_tokenizers.WhitespaceSplit(), None
        case "characters":
            pre_tokenizer = pre_tokenizers.Split(Regex(r"\S+|\s+"), behavior="isolated")
            decoder = decoders.Fuse()
    return (normalizers.Sequence(steps) if steps else None), pre_tokenizer, decoder


def _count(
    lines: Iterable[str],
    normalizer: normalizers.Normalizer | None,
    pre_tokenizer: pre_tokenizers.PreTokenizer | None,
) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in each_text(lines):
        clean = line if normalizer is None else normalizer.normalize_str(line)
        split = [(clean, None)] if pre_tokenizer is None else pre_tokenizer.pre_tokenize_str(clean)
        counts.update(word for word, _ in split)
    return counts


def _learn(counts: Mapping[str, int], config: TokenizerConfig) -> models.Model:
    letters: Counter[str] = Counter()
    for word, count in counts.items():
        for letter in word:
            letters[letter] += count
    alphabet = sorted(letter for letter, count in letters.items() if count >= config.minimum_frequency)
    seen = max((counts if config.kind in ("words", "whitespace") else letters).values())
    if seen < config.minimum_frequency:
        raise ValueError(
            f"minimum_frequency={config.minimum_frequency} leaves nothing of this text, where the most "
            f"frequent entry is seen {seen} times: choose {seen} or less, or give more text"
        )
    unknown = config.specials.unknown
    match config.kind:
        case "bpe":
            vocabulary, merges = _learn_merges(counts, alphabet, config)
            return models.BPE(vocabulary, merges, unk_token=unknown, byte_fallback=config.byte_fallback)
        case "byte-bpe":
            vocabulary, merges = _learn_merges(counts, sorted(pre_tokenizers.ByteLevel.alphabet()), config)
            return models.BPE(vocabulary, merges)
        case "wordpiece":
            inner = sorted(
                {f"##{letter}" for word in counts for letter in word[1:]} & {f"##{a}" for a in alphabet}
            )
            vocabulary, _ = _learn_merges(counts, alphabet, config, inner)
            return models.WordPiece(vocabulary, unk_token=str(unknown), max_input_chars_per_word=100)
        case "unigram":
            from regard.text.unigram import learn_pieces  # with numpy, which nothing else here needs

            _check_room(config, len(alphabet))
            pieces = learn_pieces(counts, alphabet, config.vocabulary - len(config.reserved))
            unknown_id = config.reserved.index(str(unknown))
            scored = [*((token, 0.0) for token in config.reserved), *pieces]
            return models.Unigram(scored, unknown_id, config.byte_fallback)
        case "characters":
            return models.BPE(_most_frequent(letters, config), [], unk_token=unknown)
        case "words" | "whitespace":
            return models.WordLevel(_most_frequent(counts, config), unk_token=str(unknown))


def _learn_merges(
    counts: Mapping[str, int], alphabet: list[str], config: TokenizerConfig, inner: list[str] | None = None
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """`inner` are the `##x` characters of WordPiece, which learns by merges but does not keep them."""
    first = [*config.reserved, *(inner or ())]
    _check_room(config, len(alphabet) + len(inner or ()))
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        min_frequency=config.minimum_frequency,
        special_tokens=first,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
        continuing_subword_prefix="##" if inner else "",
    )
    learner = tokenizers.Tokenizer(models.BPE())
    learner.train_from_iterator((word for word, count in counts.items() for _ in range(count)), trainer)
    model = json.loads(learner.to_str())["model"]
    return model["vocab"], [(left, right) for left, right in model["merges"]]


def _check_room(config: TokenizerConfig, letters: int) -> None:
    needed = len(config.reserved) + letters
    if config.vocabulary < needed:
        raise ValueError(
            f"vocabulary={config.vocabulary} is too small for this text: {len(config.reserved)} reserved "
            f"tokens and an alphabet of {letters} need {needed}; choose {needed} or more, or raise "
            f"minimum_frequency={config.minimum_frequency} to leave rare characters out"
        )


def _most_frequent(counts: Mapping[str, int], config: TokenizerConfig) -> dict[str, int]:
    often = [(word, count) for word, count in counts.items() if count >= config.minimum_frequency]
    often.sort(key=lambda item: (-item[1], item[0]))
    kept = [word for word, _ in often if word not in config.reserved]
    return {token: i for i, token in enumerate([*config.reserved, *kept][: config.vocabulary])}
