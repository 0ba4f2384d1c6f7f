"""A MarianMT folder of base size, opened as it is, against transformers and CTranslate2 with its weights.

The tokenizer is a published one, the weights are random (512 wide, 6 + 6 layers): no trained ones come with a
package. Such a model does not know where to end, so every side writes the same number of tokens for each
sentence, and no side gains by ending early. All go from text to text.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rich.console import Console

import regard
from regard.bench.encoder import DATA
from regard.bench.results import BenchError, Report, Row, compared, named, processor, report, skipped
from regard.bench.timing import OURS, in_turns, rates
from regard.decode import DecodeConfig
from regard.deploy.engine import token_names
from regard.deploy.export import write_engine
from regard.hub import TranslatorCheckpoint, write_folder
from regard.hub.families import MARIAN
from regard.hub.pieces import read_pieces
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import DecoderConfig, EncoderConfig, Seq2SeqConfig
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    InitialConfig,
    NormConfig,
    PositionsConfig,
    TransformerConfig,
)
from regard.tasks.base.terminal import say
from regard.tasks.translation.translator import Translator
from regard.text import Tokenizer
from regard.text.phrasebook import phrases

TITLE = "A MarianMT folder on the CPU, base size, against transformers and CTranslate2"
METHOD = (
    "The same folder for all: a published tokenizer, random weights, 6 + 6 layers of 512. Every sentence "
    "becomes 16 tokens. CTranslate2 with a worker a core, transformers with all cores; batches of 64."
)
PEERS = ("ctranslate2", "transformers")
WORK, UNIT = "sentences, text to text", "sentences/s"
SENTENCES, TOKENS, BATCH = 128, 16, 64
ROUNDS = 3
SEARCHES = {
    "greedy": DecodeConfig(method="greedy", maximum=TOKENS),
    "beam 4": DecodeConfig(beam=4, maximum=TOKENS),
}
NEVER = -1e4
"""Added to the scores of what is not to be written: the end, and special tokens."""
ALIKE = 0.9
"""Share of translations by which sides in float32 must be the same."""
Translate = Callable[[Sequence[str]], list[str]]


def base_config(vocabulary: int) -> Seq2SeqConfig:
    """The shape of most published folders."""
    body = TransformerConfig(
        layers=6,
        attention=AttentionConfig(heads=8),
        feed_forward=FeedForwardConfig(d_ff=2048, activation="swish"),
        norm=NormConfig(place="post"),
    )
    both: dict[str, Any] = {
        "vocabulary": vocabulary,
        "d_model": 512,
        "embedding": EmbeddingConfig(scaled=True),
        "positions": PositionsConfig(kind="sinusoidal", sinusoids="halves"),
        "body": body,
        "initial": InitialConfig(scheme="normal", std=0.05),
    }
    return Seq2SeqConfig(encoder=EncoderConfig(**both), decoder=DecoderConfig(head_bias=True, **both))


def random_folder(config: Seq2SeqConfig, tokenizer: Tokenizer, folder: Path) -> None:
    """A MarianMT folder that never comes to an end."""
    torch.manual_seed(0)
    model, ids = Seq2Seq(config), tokenizer.target.ids
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    for id in (ids.end, ids.pad, ids.unknown):
        weights["decoder.head.bias"][id] = NEVER
    checkpoint = TranslatorCheckpoint(
        config=config, weights=weights, tokenizer=tokenizer, longest=512, beam=4
    )
    write_folder(checkpoint, folder)


def ours(translator: Translator, search: DecodeConfig) -> Translate:
    def translate(texts: Sequence[str]) -> list[str]:
        return [each.text for each in translator.translate(list(texts), decoding=search)]

    return translate


def of_ctranslate2(own: Translator, folder: Path, search: DecodeConfig) -> Translate:
    import ctranslate2

    cores = torch.get_num_threads()
    engine = ctranslate2.Translator(
        str(folder), device="cpu", compute_type="float32", inter_threads=cores, intra_threads=1
    )
    torch.set_num_threads(cores)  # it sets the number for everybody
    config, target = own.model.config, own.tokenizer.target
    reads, writes = (
        token_names(own.tokenizer, config.encoder.vocabulary),
        token_names(target, config.decoder.vocabulary),
    )
    ids = {name: id for id, name in enumerate(writes)}

    def translate(texts: Sequence[str]) -> list[str]:
        found = engine.translate_batch(
            [[reads[id] for id in row] for row in own.encode(list(texts), None)],
            max_batch_size=BATCH,
            beam_size=search.beam if search.method == "beam" else 1,
            length_penalty=search.length_penalty,
            max_decoding_length=TOKENS,
        )
        return target.decode_batch([[ids[token] for token in each.hypotheses[0]] for each in found])

    return translate


def of_transformers(own: Translator, folder: Path, search: DecodeConfig) -> Translate:
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(folder).eval()
    pad, target = own.start, own.tokenizer.target

    def translate(texts: Sequence[str]) -> list[str]:
        rows = own.encode(list(texts), None)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        found: dict[int, list[int]] = {}
        for first in range(0, len(order), BATCH):
            chosen = order[first : first + BATCH]
            longest = max(len(rows[row]) for row in chosen)
            ids = torch.tensor([[*rows[row], *[pad] * (longest - len(rows[row]))] for row in chosen])
            beam = search.beam if search.method == "beam" else 1
            with torch.inference_mode():
                out = model.generate(
                    ids,
                    attention_mask=(ids != pad).long(),
                    num_beams=beam,
                    do_sample=False,
                    max_new_tokens=TOKENS,
                )
            found |= dict(zip(chosen, out[:, 1:].tolist(), strict=True))
        return target.decode_batch([found[row] for row in range(len(rows))])

    return translate


def compare(folder: Path, texts: Sequence[str], work: Path) -> Iterator[Row]:
    own = regard.load(folder, Translator, device="cpu", precision="float32")
    makers: dict[str, Callable[[DecodeConfig], Translate]] = {
        "ctranslate2": lambda search: of_ctranslate2(own, work / "engine", search),
        "transformers": lambda search: of_transformers(own, folder, search),
    }
    for peer, make in makers.items():
        try:
            if peer == "ctranslate2":
                write_engine(own, work / "engine", "float32")
            sides = {name: make(search) for name, search in SEARCHES.items()}
        except ImportError as error:
            yield skipped(error, work=WORK, setting="float32", unit=UNIT, peer=peer)
            continue
        for name, search in SEARCHES.items():
            side, other = ours(own, search), sides[name]
            pairs = [*zip(side(texts), other(texts), strict=True)]
            same = sum(one.strip() == two.strip() for one, two in pairs) / len(pairs)
            if same < ALIKE:
                raise BenchError(
                    f"{peer}, {name}: {same:.0%} of the translations are the same: not the same work"
                )
            times = in_turns({OURS: partial(side, texts), "theirs": partial(other, texts)}, rounds=ROUNDS)
            speeds = [rates(len(texts), each) for each in times.values()]
            yield compared(
                *speeds, work=WORK, setting=f"float32, {name}", unit=UNIT, peer=named(peer),
                notes=f"{same:.0%} the same",
            )  # fmt: skip


def measure(console: Console) -> Report | None:
    files = Path(os.environ.get("REGARD_MARIAN", DATA / "marian"))
    if not (files / "source.spm").is_file():
        say(
            console,
            f"marian: no source.spm in {files}: REGARD_MARIAN names a folder with a MarianMT tokenizer",
        )
        return None
    with TemporaryDirectory() as work:
        tokenizer = read_pieces(files, MARIAN.pieces, (2**20, 2**20)).tokenizer
        folder = Path(work) / "marian"
        random_folder(base_config(len(tokenizer)), tokenizer, folder)
        texts = [pair.source for pair in phrases("test", SENTENCES)]
        rows = [*compare(folder, texts, Path(work))]
    return report("marian", title=TITLE, method=METHOD, machine=processor(), rows=rows, peers=PEERS)
