"""Tiny folders of MarianMT, M2M100 and NLLB, made by transformers and sentencepiece on the spot."""

import io
import json
import shutil
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from regard.bench.encoder import DATA
from regard.data.packing import pack
from regard.tasks.translation.pieces import number_sources
from regard.tasks.translation.translator import Translator

ENGLISH = [
    "Where is the station?", "The cat sat on the mat.", "A dog runs through the green park.",
    "He gave her two red apples and a book.", "They don't know, do they?",
    "I see 12 small birds in 3 old trees!",
]  # fmt: skip
GERMAN = [
    "Wo ist der Bahnhof?", "Die Katze saß auf der Matte.", "Ein Hund läuft durch den grünen Park.",
    "Er gab ihr zwei rote Äpfel und ein Buch.", "Sie wissen es nicht, oder?",
    "Ich sehe 12 kleine Vögel in 3 Bäumen!",
]  # fmt: skip
TEXTS = [
    *ENGLISH, "", "   ", "\t a \u00a0 b\u3000", "Über naïve 貓 🙂",
    "!!!!!!!! 1111111 aaaaaaa ......", "e\u0301 ﬁne ½ Ⅷ",
    "</s> <unk> <pad> <s>", "▁▁ a ▁b", "\u200bzero\u200d width", ">>deu<< Hello", "x",
]  # fmt: skip
REAL = DATA / "marian"
"""The tokenizer's files of a published folder, where they are at hand."""


@cache
def spm(texts: tuple[str, ...], size: int, kind: str = "unigram") -> bytes:
    import sentencepiece

    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 4),
        model_writer=made,
        vocab_size=size,
        model_type=kind,
        hard_vocab_limit=False,
        minloglevel=3,
    )
    return made.getvalue()


def pieces_of(model: bytes) -> list[str]:
    import sentencepiece

    found = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [found.id_to_piece(id) for id in range(3, found.get_piece_size())]


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def table(first: list[str], *models: bytes, last: list[str]) -> dict[str, int]:
    """Numbers of pieces that are not those of the models."""
    pieces = sorted({piece for model in models for piece in pieces_of(model)})
    return {piece: id for id, piece in enumerate([*first, *pieces, *last])}


def marian_files(folder: Path, *, separate: bool = False, languages: tuple[str, ...] = ()) -> tuple[int, int]:
    """source.spm, target.spm and the vocabularies; the rows that these need."""
    folder.mkdir(parents=True, exist_ok=True)
    source, target = spm(tuple(ENGLISH), 60), spm(tuple(GERMAN), 70)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    first, marks = ["</s>", "<unk>"], [f">>{code}<<" for code in languages]
    if not separate:
        shared = table([*first, *marks], source, target, last=["<pad>"])
        write_json(folder / "vocab.json", shared)
        write_json(folder / "tokenizer_config.json", {"source_lang": "en", "target_lang": "de"})
        return len(shared), len(shared)
    # the pad token's number is one for both sides: there is one pad_token_id
    own = table([*first, "<pad>", *marks], source, last=[])
    other = table([*first, "<pad>"], target, last=[])
    write_json(folder / "vocab.json", own)
    write_json(folder / "target_vocab.json", other)
    write_json(folder / "tokenizer_config.json", {"separate_vocabs": True})
    return len(own), len(other)


def scattered(model, seed: int):
    """Weights far from their first values, so that every part counts."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # not the sinusoids
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def published_files(folder: Path) -> tuple[int, int]:
    """Those of a published folder, all of its vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json"):
        shutil.copyfile(REAL / name, folder / name)
    rows = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    return rows, rows


def marian(
    hf,
    folder: Path,
    *,
    seed: int = 0,
    ends: float = 3.0,
    separate: bool = False,
    published: bool = False,
    languages=(),
    **settings,
):
    """`ends` is how much likelier it is made to come to an end."""
    if published:
        rows, target = published_files(folder)
    else:
        rows, target = marian_files(folder, separate=separate, languages=tuple(languages))
    pad = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))["<pad>"]
    sizes = {
        "vocab_size": rows, "decoder_vocab_size": target, "share_encoder_decoder_embeddings": not separate,
        "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40,
        "max_position_embeddings": 512, "activation_function": "swish", "scale_embedding": True,
        "pad_token_id": pad, "decoder_start_token_id": pad,
        "eos_token_id": 0, "bos_token_id": 0, "forced_eos_token_id": None,
    }  # fmt: skip
    torch.manual_seed(seed)
    model = scattered(hf.MarianMTModel(hf.MarianConfig(**{**sizes, **settings})), seed)
    with torch.no_grad():
        model.get_input_embeddings().weight[pad] = 0
        if separate:
            model.model.decoder.embed_tokens.weight[pad] = 0
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] += ends
    model.save_pretrained(folder)
    return model


def m2m_files(hf, folder: Path, *, kind: str) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    texts = (*ENGLISH, *GERMAN)
    if kind == "m2m100":
        model = spm(texts, 90, "bpe")
        (folder / "sentencepiece.bpe.model").write_bytes(model)
        vocabulary = table(["<s>", "<pad>", "</s>", "<unk>"], model, last=[])
        write_json(folder / "vocab.json", vocabulary)
        write_json(folder / "tokenizer_config.json", {"language_codes": "wmt21", "src_lang": "en"})
        return len(vocabulary) + 8 + 2
    letters = sorted({letter for text in texts for letter in text.replace(" ", "▁")} | {"▁"})
    vocabulary = {
        token: id for id, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *letters, "▁t", "he"])
    }
    made = hf.NllbTokenizer(vocab=vocabulary, merges=[("▁", "t"), ("h", "e")], src_lang="eng_Latn")
    made.save_pretrained(folder)
    return len(made)


def m2m(hf, folder: Path, *, kind: str = "m2m100", seed: int = 0, ends: float = 1.0, **settings):
    sizes = {
        "vocab_size": m2m_files(hf, folder, kind=kind), "d_model": 32, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48, "decoder_ffn_dim": 40, "max_position_embeddings": 512,
    }  # fmt: skip
    torch.manual_seed(seed)
    model = scattered(hf.M2M100ForConditionalGeneration(hf.M2M100Config(**{**sizes, **settings})), seed)
    with torch.no_grad():  # a mean that the end's row, and no other, answers to
        model.model.decoder.layer_norm.bias.add_(ends * model.model.shared.weight[2].sign())
        model.model.shared.weight[1] = 0
    model.save_pretrained(folder)
    return model


def tokenizer_of(hf, name: str, folder: Path, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends sacremoses, which it does not use
        return getattr(hf, name).from_pretrained(folder, **settings)


def states_and_scores(translator: Translator, source: list[int], target: list[int]) -> tuple:
    model = translator.model
    read, written = pack([source]), pack([target])
    with torch.no_grad():
        states = model(read.ids, read.layout, written.ids, written.layout)
        return model.encoder(read.ids, read.layout), model.decoder.head(states)


LONGEST = 40
"""Tokens of a translation, at most."""


def found_ids(
    translator: Translator, texts: list[str], decoding, to: str | None = None
) -> list[list[list[int]]]:
    """All hypotheses of each text. Those of a beam must come to their end: what does not is ranked otherwise
    in transformers, which has it compete with what does."""
    options = translator.options(decoding, split="never")
    languages = translator.languages_of(to, len(texts))
    pieces = translator.plan(number_sources(texts, languages, [""] * len(texts), None, 1), options)
    assert len(pieces) == len(texts)
    pieces = [replace(piece, maximum=LONGEST) for piece in pieces]
    with translator.ready():
        found = {piece.number: own for batch, results in translator.engine.search(pieces, options)
                 for piece, own in zip(batch, results, strict=True)}  # fmt: skip
    every = [each for own in found.values() for each in own.hypotheses]
    assert decoding.method == "greedy" or all(each.finished for each in every), "no case: ends are missing"
    return [[list(each.ids) for each in found[place].hypotheses] for place in range(len(texts))]
