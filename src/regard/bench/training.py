"""Training on one NVIDIA GPU in bfloat16, against transformers (sdpa, compiled) on the same work, in turns.

    BERT-base      masked tokens, 15 %: lengths 128, 512, and up to 512 (log-normal, mean 160)
    ModernBERT     the same, base size, up to 512
    GPT-2          next tokens, length 1024
    Transformer    translation, base size, a vocabulary of 32,000, mean length 27: target tokens

Random tokens, real sizes. Ours is the engine as `regard train` runs it: compiled layers and loss, the step
captured, AdamW, averages, clipping. Theirs: AdamW (fused), clipping, one compiled model, padded batches. Only
real tokens count. The share of the chip is useful arithmetic by its measured speed for large matrices: 6 x
parameters of the body x tokens + the head on predicted tokens + attention.
"""

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn

from regard.bench.results import Report, Row, compared, named, report, skipped
from regard.bench.timing import OURS, in_turns, rates, seconds
from regard.data.packing import Packed, Shape, filled
from regard.hub.facts import Facts
from regard.hub.families import MODERNBERT
from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.seq2seq import Seq2Seq
from regard.nn.layers import TransformerLayer
from regard.nn.stacks import Stack
from regard.settings.models import MaskedConfig
from regard.settings.network import TransformerConfig
from regard.settings.presets import DECODERS, ENCODERS, SEQ2SEQ
from regard.settings.training import AverageConfig, OptimizerConfig
from regard.tasks.base.terminal import say
from regard.tasks.language.data import BlockBatch
from regard.tasks.language.train import LanguageLoss
from regard.tasks.pretraining.data import MaskedBatch
from regard.tasks.pretraining.train import PretrainLoss
from regard.tasks.translation.batches import PairBatch
from regard.tasks.translation.recipe import TranslateLossConfig
from regard.tasks.translation.train import TranslationLoss
from regard.train.engine import Engine
from regard.train.objectives import HIDDEN
from regard.train.ranks import Ranks

TITLE = "Training on one NVIDIA GPU in bfloat16, against transformers"
METHOD = (
    "Random tokens, real sizes, 10 steps a round; ours as `regard train` runs it, theirs compiled, with sdpa "
    "and fused AdamW, on padded batches; only real tokens count, and the share of the chip is useful "
    "arithmetic by its speed for large matrices."
)
STEPS, BATCHES, SHARE, WARMING = 10, 4, 0.15, 6
BERT, GPT = 30_522, 50_257
PEER = "transformers"

Step = Callable[[], None]


@dataclass(frozen=True)
class Work:
    """One row: what makes each side's step, and the real tokens of a step of each."""

    ours: Callable[[], Step]
    theirs: Callable[[], Step]
    tokens: tuple[float, float]
    flops: float
    """Useful ones, for one token of ours."""


def ceiling() -> float:
    """FLOP/s of a large bfloat16 product."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        a @ b
    return 50 * 2 * 8192**3 / seconds(partial(repeat, lambda: a @ b, 50), torch.cuda.synchronize)


def engine(model: nn.Module, loss: Any) -> Engine:
    for layer in model.modules():
        if isinstance(layer, TransformerLayer):
            layer.compile(fullgraph=True, dynamic=False)
    loss.compile()
    return Engine(
        model,
        loss,
        optimizer=OptimizerConfig(learning_rate=1e-4, weight_decay=0.01),
        average=AverageConfig(),
        ranks=Ranks.join("cuda"),
        seed=0,
        bfloat16=True,
        captured=True,
    )


def stepping(own: Engine, batches: Sequence[Any]) -> Callable[[], None]:
    pinned = [batch.pin() for batch in batches]
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        own.step(done, [(0, pinned[done % len(pinned)])], 1e-4)

    return step


def their_step(model: nn.Module, batches: Sequence[dict[str, Tensor]]) -> Callable[[], None]:
    model = model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled: Any = torch.compile(model, dynamic=False)
    on_device = [{name: each.cuda() for name, each in batch.items()} for batch in batches]
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(**on_device[done % len(on_device)]).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def drawn_lengths(mean: int, most: int, slots: int, chance: np.random.Generator) -> list[int]:
    """Of sequences that fill so many slots, or nearly: log-normal, or all alike."""
    if mean == most:
        return [most] * (slots // most)
    found: list[int] = []
    while True:
        length = int(np.clip(chance.lognormal(np.log(mean) - 0.18, 0.6), 4, most))
        if sum(found) + length > slots:
            return found
        found.append(length)


def laid(lengths: Sequence[int], slots: int, sequences: int, longest: int, vocabulary: int) -> Packed:
    layout = Layout.of(filled(lengths, Shape(slots, sequences, longest)), longest)
    return Packed(torch.randint(0, vocabulary, (slots,)), layout, sum(lengths), len(lengths))


def padded(lengths: Sequence[int], longest: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Ids and what is real of them."""
    ids = torch.randint(0, vocabulary, (len(lengths), longest))
    return ids, (torch.arange(longest)[None] < torch.tensor(lengths)[:, None]).long()


def like_lengths(mean: int, longest: int, slots: int, chance: np.random.Generator) -> tuple[list[int], int]:
    """A batch of sequences of like length, from the middle of many, and the width that they are padded to."""
    pool = sorted(drawn_lengths(mean, longest, 8 * slots, chance))
    width = -(-pool[len(pool) // 2] // 8) * 8
    return [length for length in pool if length <= width][-(slots // width) :], width


def body(model: nn.Module) -> int:
    layers = (part for part in model.modules() if isinstance(part, TransformerLayer))
    return sum(parameter.numel() for layer in layers for parameter in layer.parameters())


def berts() -> tuple[HeadedConfig, Callable[[], nn.Module]]:
    """BERT-base here and there."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(vocab_size=BERT, attn_implementation="sdpa")
    return HeadedConfig(encoder=ENCODERS["base"](BERT), head=MaskedConfig()), lambda: BertForMaskedLM(config)


def moderns() -> tuple[HeadedConfig, Callable[[], nn.Module]]:
    """ModernBERT-base here and there; theirs without padding where flash-attn is installed, else sdpa."""
    from transformers import ModernBertConfig, ModernBertForMaskedLM

    facts = Facts(Path("config.json"), {"model_type": MODERNBERT.name, "vocab_size": BERT}, MODERNBERT)
    head = MODERNBERT.head(MaskedConfig(eps=facts.number("eps")), facts)
    kernel = "flash_attention_2" if find_spec("flash_attn") else "sdpa"
    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
    config = ModernBertConfig(vocab_size=BERT, attn_implementation=kernel, **ids)
    return HeadedConfig(encoder=MODERNBERT.read(facts, False), head=head), lambda: ModernBertForMaskedLM(
        config
    )


def masked(
    mean: int,
    longest: int,
    slots: int = 65_536,
    sides: Callable[[], tuple[HeadedConfig, Callable[[], nn.Module]]] = berts,
    alike: bool = False,
) -> Work:
    """`alike`: their batches hold lengths that are nearly the same, as samplers by length make them, padded
    to the longest of those; else any, padded to the longest there may be."""
    own, peer = sides()
    chance = np.random.default_rng(0)
    drawn = [drawn_lengths(mean, longest, slots, chance) for _ in range(BATCHES)]
    most = max(map(len, drawn)) + slots // longest + 1
    model = Headed(own).train()
    chosen = round(SHARE * slots)
    batches = []
    for lengths in drawn:
        chosen_here = round(SHARE * sum(lengths))
        places = torch.randperm(sum(lengths))[:chosen_here]
        places = torch.cat([places, torch.zeros(chosen - len(places), dtype=torch.int64)])
        labels = torch.randint(0, BERT, (chosen,))
        labels[chosen_here:] = HIDDEN
        text = laid(lengths, slots, most, longest, BERT)
        batches.append(MaskedBatch(text, None, places, labels, None, chosen_here))
    theirs, counts = [], []
    for lengths in drawn:
        given, width = like_lengths(mean, longest, slots, chance) if alike else (lengths, longest)
        ids, real = padded(given[: slots // width], width, BERT)
        labels = ids.masked_fill((torch.rand(ids.shape) >= SHARE) | (real == 0), HIDDEN)
        theirs.append({"input_ids": ids, "attention_mask": real, "labels": labels})
        counts.append(int(real.sum()))
    d_model, stack = own.encoder.d_model, cast(Stack, model.encoder.body)
    seen = sum(tokens_seen(np.concatenate(drawn), mask.before) for mask in stack.masks)
    flops = 6 * body(model) + SHARE * 6 * (BERT * d_model + d_model**2) + 12 * seen * d_model
    return Work(
        lambda: stepping(engine(model.cuda(), PretrainLoss(model)), batches),
        lambda: their_step(peer(), theirs),
        (statistics.fmean(map(sum, drawn)), statistics.fmean(counts)),
        flops,
    )


def tokens_seen(lengths: np.ndarray, window: int | None) -> float:
    """By a token, on average: all of its sequence, or so many each way."""
    seen = lengths if window is None else np.minimum(lengths, 2 * window + 1)
    return float((lengths * seen).sum() / lengths.sum())


def language(longest: int = 1024, slots: int = 32_768) -> Work:
    from transformers import GPT2Config, GPT2LMHeadModel

    rows = slots // longest
    model = Decoder(DECODERS["base"](GPT)).train()
    batches = []
    for _ in range(BATCHES):
        text = laid([longest] * rows, slots, rows, longest, GPT)
        batches.append(BlockBatch(text, torch.randint(0, GPT, (slots,)), slots))
    ids = [torch.randint(0, GPT, (rows, longest)) for _ in range(BATCHES)]
    config = GPT2Config(vocab_size=GPT, attn_implementation="sdpa")
    flops = 6 * body(model) + 6 * GPT * 768 + 12 * 12 * longest / 2 * 768
    return Work(
        lambda: stepping(engine(model.cuda(), LanguageLoss(model)), batches),
        lambda: their_step(GPT2LMHeadModel(config), [{"input_ids": each, "labels": each} for each in ids]),
        (slots, slots),
        flops,
    )


def translation(size: str, vocabulary: int, slots: int, mean: int) -> Work:
    from transformers import MarianConfig, MarianMTModel

    chance = np.random.default_rng(0)
    longest = 128
    drawn = [drawn_lengths(mean, longest, slots, chance) for _ in range(BATCHES)]
    most = max(map(len, drawn)) + slots // longest + 1
    shape = SEQ2SEQ[size](vocabulary)
    model = Seq2Seq(shape).train()
    batches = []
    for lengths in drawn:
        source, inputs = (laid(lengths, slots, most, longest, vocabulary) for _ in range(2))
        labels = torch.randint(0, vocabulary, (slots,))
        labels[sum(lengths) :] = HIDDEN
        batches.append(PairBatch(source, inputs, labels))
    theirs, counts = [], []
    for _ in range(BATCHES):
        alike, width = like_lengths(mean, longest, slots, chance)
        ids, real = padded(alike, width, vocabulary)
        labels = ids.masked_fill(real == 0, HIDDEN)
        theirs.append({"input_ids": ids, "attention_mask": real, "labels": labels})
        counts.append(int(real.sum()))
    d_model, body_of = shape.decoder.d_model, cast(TransformerConfig, shape.decoder.body)
    d_ff, heads, layers = body_of.feed_forward.d_ff, body_of.attention.heads, body_of.layers
    config = MarianConfig(
        vocab_size=vocabulary, d_model=d_model, encoder_layers=layers, decoder_layers=layers,
        encoder_ffn_dim=d_ff, decoder_ffn_dim=d_ff, encoder_attention_heads=heads,
        decoder_attention_heads=heads, pad_token_id=0, decoder_start_token_id=0,
        max_position_embeddings=512, attn_implementation="sdpa",
    )  # fmt: skip
    return Work(
        lambda: stepping(engine(model.cuda(), TranslationLoss(model, TranslateLossConfig())), batches),
        lambda: their_step(MarianMTModel(config), theirs),
        (statistics.fmean(map(sum, drawn)), statistics.fmean(counts)),
        6 * body(model) + 6 * vocabulary * d_model,
    )


def repeat(step: Callable[[], object], times: int) -> None:
    for _ in range(times):
        step()


def rate(step: Step, tokens: float) -> float:
    """Tokens a second, of a step with so many."""
    return STEPS * tokens / seconds(partial(repeat, step, STEPS), torch.cuda.synchronize)


def compare(name: str, work: Callable[[], Work], highest: float) -> list[Row]:
    """Speed, and the most memory that either needs."""
    what = {"work": name, "setting": "bfloat16", "unit": "tokens/s"}
    torch._dynamo.reset()
    torch.manual_seed(0)
    try:
        own = work()
    except ImportError as error:
        return [skipped(error, **what, peer=PEER, ours=None)]
    sides, peaks = {}, []
    for side, make in ((OURS, own.ours), (PEER, own.theirs)):  # both are set up before either is timed
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step = make()
        repeat(step, WARMING)
        peaks.append((torch.cuda.max_memory_allocated() - before) / 2**30)
        sides[side] = partial(repeat, step, STEPS)
    times = in_turns(sides, wait=torch.cuda.synchronize)
    ours, theirs = (
        rates(STEPS * tokens, times[side]) for side, tokens in zip(sides, own.tokens, strict=True)
    )
    share, steps = statistics.median(ours) * own.flops / highest, statistics.median(ours) / own.tokens[0]
    tokens = f"{own.tokens[0]:,.0f} tokens a step, theirs {own.tokens[1]:,.0f}"
    del own, sides, step, make
    gc.collect()
    torch.cuda.empty_cache()
    notes = f"{100 * share:.0f} % of the chip; {steps:.0f} steps/s; {tokens}"
    return [
        compared(ours, theirs, **what, peer=named(PEER), notes=notes),
        compared(
            peaks[:1], peaks[1:], **what | {"setting": "memory", "unit": "GiB at most"}, peer=named(PEER)
        ),
    ]


ROWS: dict[str, Callable[[], Work]] = {
    "BERT-base, length 128": lambda: masked(128, 128),
    "BERT-base, length 512": lambda: masked(512, 512),
    "BERT-base, up to 512, mean 160": lambda: masked(160, 512),
    "BERT-base, mean 160, theirs of like length": lambda: masked(160, 512, alike=True),
    "ModernBERT-base, up to 512, mean 160": lambda: masked(160, 512, sides=moderns),
    "ModernBERT-base, mean 160, theirs of like length": lambda: masked(160, 512, sides=moderns, alike=True),
    "GPT-2, length 1024": language,
    "Transformer-base, mean 27": lambda: translation("base", 32_000, 25_600, 27),
    "Transformer-small, mean 15": lambda: translation("small", 10_000, 4096, 15),
}


def measure(console: Console) -> Report | None:
    if not torch.cuda.is_available():
        say(console, "training: no NVIDIA GPU on this machine, nothing measured")
        return None
    torch.set_float32_matmul_precision("high")
    highest = ceiling()
    machine = f"{torch.cuda.get_device_name()}, {highest / 1e12:.0f} TFLOP/s for large matrices"
    rows = [row for name, work in ROWS.items() for row in compare(name, work, highest)]
    return report("training", title=TITLE, method=METHOD, machine=machine, rows=rows, peers=[PEER])
