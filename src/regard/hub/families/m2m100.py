"""M2M100 (Fan et al. 2021), and NLLB-200, which calls itself so.

    norm        before the layer, and one at the end
    sinusoids   as MarianMT's, with wavelengths up to 2 pi n, from place 2 on
    output      the embedding
    start       the end token
    language    the source's before the source, and the target's as the first token that is written

The tokenizer of M2M100 is sentencepiece.bpe.model, which cuts, and vocab.json, which numbers; languages,
__fr__, follow in a known order. NLLB's is tokenizer.json; languages, fra_Latn, are among its special tokens.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from torch import Tensor

from regard.hub.facts import Facts
from regard.hub.families import marian
from regard.hub.family import TranslatorFamily
from regard.hub.files import HubError, read_json, write_json
from regard.hub.names import Family
from regard.hub.pieces import (
    CONFIG,
    LIMIT,
    VOCABULARY,
    Pieces,
    named_tokens,
    read_model,
    read_vocabulary,
    specials_of,
)
from regard.hub.translator_checks import check_sides, check_whole
from regard.hub.translators import TranslatorCheckpoint
from regard.hub.writing import require
from regard.settings.models import Seq2SeqConfig
from regard.settings.network import PositionsConfig, TransformerConfig
from regard.text import Tokenizer
from regard.text.sentencepieces import is_pieces, model_files, piece_state
from regard.text.specials import template

_MODEL, _FAST = "sentencepiece.bpe.model", "tokenizer.json"
_NLLBS = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_POSITIONS = PositionsConfig(kind="sinusoidal", sinusoids="tensor2tensor", first=2)
"""The first token stands behind the pad token's place, which is 1."""
_LANGUAGES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha "
        "he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my "
        "ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi "
        "wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}
"""The languages whose tokens follow the vocabulary, by the `language_codes` of the tokenizer."""


def _read(facts: Facts[Family]) -> Seq2SeqConfig:
    if facts.count("pad", least=0) != 1:
        raise HubError(
            f"{facts.path}: pad_token_id={facts.get('pad')} is not supported, only 1: positions are counted "
            "from it"
        )
    return marian.read(facts, place="pre", positions=_POSITIONS, head_bias=False)


def _check(checkpoint: TranslatorCheckpoint) -> None:
    check_sides(checkpoint, M2M100, _POSITIONS, final_norm=True)
    require(
        checkpoint.config.shared,
        "shared=false",
        "M2M100's sides share one embedding",
        "train with shared=true",
    )
    check_whole(checkpoint, M2M100, start="end", head_bias=False)


def _words(checkpoint: TranslatorCheckpoint) -> Mapping[str, Any]:
    words = marian.words(checkpoint)
    return {key: value for key, value in words.items() if key not in ("target_vocabulary", "shared")}


def _ours(tensors: dict[str, Tensor], facts: Facts[Family], where: Path) -> dict[str, Tensor]:
    return marian.one_name_each(tensors, facts, where)


def _claims(checkpoint: TranslatorCheckpoint) -> bool:
    body = checkpoint.config.decoder.body
    return isinstance(body, TransformerConfig) and body.norm.place == "pre"


def _pieces(folder: Path, facts: Mapping[str, Any]) -> Pieces:
    tokenizer, languages = _nllbs(folder) if (folder / _FAST).exists() else _own(folder, facts)
    reads = facts.get("src_lang")
    return Pieces(tokenizer, languages, reads if isinstance(reads, str) and reads in languages else None)


def _own(folder: Path, facts: Mapping[str, Any]) -> tuple[Tokenizer, tuple[str, ...]]:
    vocabulary = read_vocabulary(folder / VOCABULARY)
    codes = facts.get("language_codes", "m2m100")
    if codes not in _LANGUAGES:
        raise HubError(f"{folder / CONFIG}: language_codes={codes!r:.60} is none of {', '.join(_LANGUAGES)}")
    languages = tuple(_LANGUAGES[codes].split())
    tokens = {f"__{code}__": len(vocabulary) + place for place, code in enumerate(languages)}
    named = named_tokens(facts)
    specials = specials_of(named, start=named["eos"], extra=tuple(tokens))
    state = piece_state(read_model(folder / _MODEL), {**vocabulary, **tokens}, specials)
    return Tokenizer(json.dumps(state)), languages


def _nllbs(folder: Path) -> tuple[Tokenizer, tuple[str, ...]]:
    text = json.dumps(read_json(folder / _FAST, LIMIT))
    found = Tokenizer(text)
    languages = tuple(token for token in found.vocabulary if _NLLBS.fullmatch(token))
    ordered = sorted(languages, key=lambda token: found.vocabulary[token])
    specials = found.specials
    extra = dict.fromkeys(("<s>", *specials.extra, *ordered))
    known = tuple(token for token in extra if token in found.vocabulary and token not in ("</s>", "<pad>"))
    roles = replace(specials, start="</s>", end="</s>", cls=None, sep=None, extra=())
    held = {*roles}
    roles = replace(roles, extra=tuple(token for token in known if token not in held))
    rust = tokenizers.Tokenizer.from_str(text)
    rust.add_special_tokens([tokenizers.AddedToken(token, special=True) for token in roles])
    rust.post_processor = template(roles, rust.get_vocab())
    return Tokenizer(rust.to_str()), tuple(ordered)


def _write_pieces(folder: Path, checkpoint: TranslatorCheckpoint) -> Mapping[str, Any]:
    tokenizer, languages = checkpoint.tokenizer, checkpoint.languages
    state = tokenizer.state
    if not is_pieces(state):
        tokenizer.save(folder / _FAST)
        facts = {"tokenizer_class": "NllbTokenizer", "legacy_behaviour": False}
        return {**facts, "src_lang": checkpoint.source_language}
    codes = next((key for key, each in _LANGUAGES.items() if tuple(each.split()) == languages), None)
    if codes is None:
        raise HubError(
            "the languages of the tokenizer are not M2M100's: keep the model in a folder of regard"
        )
    (folder / _MODEL).write_bytes(model_files(state)[0])
    tokens = {f"__{code}__" for code in languages}
    own = {token: id for token, id in tokenizer.vocabulary.items() if token not in tokens}
    write_json(folder / VOCABULARY, own)
    facts = {"tokenizer_class": "M2M100Tokenizer", "language_codes": codes}
    return {**facts, "src_lang": checkpoint.source_language}


M2M100 = TranslatorFamily(
    name="m2m_100",
    stem="M2M100",
    prefix="model.",
    buffers=marian.MARIAN.buffers,
    doubles=marian.MARIAN.doubles,
    metadata="encoder_layerdrop decoder_layerdrop num_hidden_layers",
    body=marian.BODY,
    heads={"shared": {"encoder.embedding.tokens.*": "shared.*"}},
    keys=marian.KEYS,
    defaults={
        **marian.DEFAULTS,
        "vocabulary": 128112,
        "activation": "relu",
        "scaled": True,
        "attention_dropout": 0.1,
        "pad": 1,
        "start": 2,
        "end": 2,
    },
    only={
        "is_encoder_decoder": [True],
        "tie_word_embeddings": [True],
        "share_encoder_decoder_embeddings": [True],
    },
    architecture="M2M100ForConditionalGeneration",
    read=_read,
    claims=_claims,
    check=_check,
    words=_words,
    ours=_ours,
    theirs=lambda tensors, config: tensors,
    pieces=_pieces,
    write_pieces=_write_pieces,
    marks="both",
    before=2,
    never=False,
)
