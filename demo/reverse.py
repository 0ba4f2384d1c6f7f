"""A small Transformer learns to write words backwards, and shows what it looked at.

The parts are those of any translator here: a tokenizer trained on the text, batches by token budget, the
paper's encoder-decoder, cached decoding, and the cross-attention of the trained model as a picture in the
terminal.
"""

import argparse
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import track

from regard.data.batches import BatchConfig, Plan
from regard.data.packing import pack
from regard.models import SEQ2SEQ, Seq2Seq
from regard.text import Specials, Tokenizer, TokenizerConfig

WORDS = [
    "attention",
    "regard",
    "mirror",
    "letter",
    "window",
    "garden",
    "silver",
    "travel",
    "planet",
    "bridge",
    "summer",
    "winter",
    "forest",
    "candle",
    "harbour",
    "pocket",
    "island",
    "meadow",
    "thunder",
    "lantern",
    "village",
    "compass",
    "feather",
    "journey",
    "morning",
    "evening",
    "whisper",
    "station",
    "orchard",
    "kitchen",
    "history",
    "picture",
    "message",
    "science",
    "culture",
    "teacher",
    "student",
    "machine",
    "library",
    "mountain",
]
SHADES = " ░▒▓█"
console = Console()


def corpus(count: int, seed: int) -> list[str]:
    """Made-up words: syllables of the list above, put together anew."""
    chance = random.Random(seed)
    pieces = [word[i : i + 3] for word in WORDS for i in range(0, len(word), 3)]
    return ["".join(chance.choices(pieces, k=chance.randint(1, 4))) for _ in range(count)]


def encode(tokenizer: Tokenizer, words: list[str]) -> list[np.ndarray]:
    """Sources end with a mark, so that the model can tell where a word ends."""
    return [np.append(ids, tokenizer.require("end")) for ids in tokenizer.encode_batch(words)]


def train(model: Seq2Seq, tokenizer: Tokenizer, words: list[str], steps: int) -> None:
    sources = encode(tokenizer, words)
    targets = [np.array(ids) for ids in tokenizer.encode_batch([word[::-1] for word in words])]
    start, end = tokenizer.require("start"), tokenizer.require("end")
    plan = Plan([[len(s) for s in sources], [len(t) + 1 for t in targets]], BatchConfig(tokens=1024))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    console.print(f"{plan.steps(0)} batches, {plan.efficiency():.1%} of their slots are real tokens")
    for step in track(range(steps), "learning", console=console):
        (batch,) = plan.batches(*plan.locate(step))
        source = pack([sources[i] for i in batch])
        inputs = pack([np.append(start, targets[i]) for i in batch])
        labels = pack([np.append(targets[i], end) for i in batch])
        states = model(source.ids, source.layout, inputs.ids, inputs.layout)
        loss = F.cross_entropy(model.decoder.head(states), labels.ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    console.print(f"loss {loss.item():.4f}")


@torch.no_grad()
def reverse(model: Seq2Seq, tokenizer: Tokenizer, words: list[str]) -> list[str]:
    """Greedy decoding: each step gets what the step before produced, until all rows have ended."""
    source = pack(encode(tokenizer, words))
    state = model.start(source.ids, source.layout)
    start, end = tokenizer.require("start"), tokenizer.require("end")
    tokens, columns = torch.full((len(words),), start), []
    ended = torch.zeros(len(words), dtype=torch.bool)
    while not bool(ended.all()) and len(columns) < 24:
        tokens = model.step(tokens, state).argmax(dim=-1)
        ended |= tokens == end
        columns.append(tokens.masked_fill(ended, end))
    return [tokenizer.decode([i for i in row if i != end]) for row in torch.stack(columns, dim=1).tolist()]


@torch.no_grad()
def picture(model: Seq2Seq, tokenizer: Tokenizer, word: str) -> str:
    """The cross-attention of the last layer, mean over the heads: rows are written, columns are read."""
    source = pack(encode(tokenizer, [word]))
    target = pack([np.array([tokenizer.require("start"), *tokenizer.encode(word[::-1]).ids])])
    memory = model.encoder.remember(source.ids, source.layout)
    x = model.decoder.embedding(target.ids, target.layout.positions, target.layout.longest)
    *before, last = model.decoder.body.each
    for layer in before:
        x = layer(x, target.layout, model.decoder.body.mask, memory)
    x = last.attention_residual(x, lambda x: last.attention(x, target.layout, model.decoder.body.mask))
    weights = last.cross_attention.weights(x, target.layout, memory.states, source.layout)[0].mean(dim=0)
    rows = ["    " + " ".join(f"{letter:<2}" for letter in word)]
    for letter, row in zip(word[::-1], weights[:-1], strict=True):
        shades = " ".join(SHADES[min(4, int(weight * 5))] * 2 for weight in row.tolist()[:-1])
        rows.append(f"  {letter} {shades}")
    return "\n".join(rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=600)
    options.add_argument("words", nargs="*", default=["attention", "regard", "transformer"])
    chosen = options.parse_args()
    torch.manual_seed(0)
    words = corpus(20_000, seed=0)
    # Every word of the user's choice can be written: the tokenizer knows each letter of the alphabet.
    alphabet = [*words, "abcdefghijklmnopqrstuvwxyz"]
    specials = Specials(cls=None, sep=None, mask=None)
    tokenizer = Tokenizer.train(
        alphabet, TokenizerConfig(kind="characters", vocabulary=40, specials=specials)
    )
    model = Seq2Seq(SEQ2SEQ["tiny"](len(tokenizer)))
    console.print(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(words):,} words to learn from"
    )
    began = time.perf_counter()
    train(model.train(), tokenizer, words, chosen.steps)
    console.print(f"trained in {time.perf_counter() - began:.0f} s on {torch.get_num_threads()} threads")
    model.eval()
    seen = set(words)
    unseen = [word for word in corpus(3000, seed=1) if word not in seen][:500]
    right = sum(a == b[::-1] for a, b in zip(reverse(model, tokenizer, unseen), unseen, strict=True))
    console.print(
        f"{right / len(unseen):.1%} of {len(unseen)} unseen words are written backwards without a fault\n"
    )
    for word, found in zip(chosen.words, reverse(model, tokenizer, chosen.words), strict=True):
        console.print(f"  {word} -> {found}")
    console.print(f"\nwhat it looks at while it writes {chosen.words[0]} backwards:\n")
    console.print(picture(model, tokenizer, chosen.words[0]))


if __name__ == "__main__":
    main()
