"""Writes docs/scale.md: what 1, 8, 64 and 512 GPUs would do, by the model of src/regard/train/scaling.py.

python docs/scale.py            check that scale.md is up to date
python docs/scale.py --write    write it
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from regard.models.decoder import Decoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import MaskedConfig
from regard.settings.presets import SEQ2SEQ, bert, gpt
from regard.train import measured, scaling
from regard.train.scaling import Cluster, Scaled, memory_of, scaled
from regard.train.workload import Workload, workload_of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "scale.md"
GPUS = (1, 8, 64, 512)
NODE = 8
"""GPUs of a node."""
GIB, BILLION = 2**30, 1e9
SENTENCES = 1.4 * BILLION
LENGTH = 27
"""Tokens of a sentence: the mean of the translator that was measured."""
PRICE, CORE_PRICE = 3.0, 0.04

TEMPLATE = """# A model of scale

What 1, 8, 64 and 512 GPUs would do. **Nothing here with more than one GPU was measured.** It is computed by
`python docs/scale.py --write` from the formulas of `src/regard/train/scaling.py` and from what one GPU was
measured to do: [speed](speed.md), {gpu}, {date}, {versions}, so older than the code. For
a recipe of your own: `regard train recipe.toml --dry-run --gpus 8 --nodes 2`;
[several GPUs](guides/several-gpus.md) says how to train on them.

## The model

* **Arithmetic** of a token: 6 x weights of the layers + 6 x d_model x vocabulary of what is predicted
  + 12 x layers x d_model x tokens seen. **A chip** does so much of its {ceiling:.0f} TFLOP/s for large
  matrices as was measured for batches of that size (tokens x d_model²), between the rows below on
  logarithmic scales; more than the largest is never expected.
* **Memory**: 4 bytes each for weights, gradients, two moments and the average; activations by a formula
  whose constants are read off three of the rows.
* **Links**: {inside:.0f} GB/s from a GPU to its node and {between:.0f} GB/s to others, {node} GPUs a node:
  data sheets of NVLink 4, and of 400 Gbit/s for each GPU. {used:.0%} of that is used, and {delay:.0f} µs
  go by for each doubling of the ranks: both are assumed.
* **DDP** (`train.fsdp=no`): gradients of all weights travel in float32 after all are there, so nothing of it
  is hidden. **FSDP**: layers are gathered twice in bfloat16 and their gradients added up in float32, while
  others are computed; of its speed {cut:.0%} is left where nothing has to travel, as was measured for
  GPT-2-large on one GPU; gradients of a rank with one batch a step come as its activations go. `auto` takes
  DDP for whatever fits, which is all models of this page.

What the model says of one GPU, and what was measured:

{checked}

Speeds in the third column are foreseen from rows of other sizes only. The smallest is then a guess far from
all others, and a bad one: small models in small batches need a measurement.

## Training

{training}
## Where it stops, and why

With a batch for each GPU, communication costs a few per cent at any size here: it takes about as long for 512
GPUs as for 8, because every byte passes each GPU twice, however many there are. But steps grow with the GPUs,
and beyond some size more tokens in a step do not mean fewer steps. With steps of one size, each GPU has less
to do: its products become small and its chip idle, and what travels stays as large as the model. That is
the end: batches first, then links.

Where it would be worth going on:

* Adding gradients up while others are still computed would hide most of what DDP has between GPUs: at 512
  GPUs and steps of one size, at most the share in the table.
* **Tensor parallelism** splits the products of a layer; it is for layers that do not fit, or for batches of
  few sequences, inside a node. The largest model here takes half of one GPU, so nothing was measured that
  needs it. It would need: column- and row-wise shards of `project`, `output` and the feed-forward matrices,
  and an all-reduce of the residual stream twice a layer.
* **Context parallelism** splits sequences; it is for contexts whose activations do not fit beside
  `train.activation_checkpointing`. It would need keys and values passed around in a ring inside
  `nn/flash.py`, and layouts that know which part of a sequence they hold.

## Corpora

{sentences:g} billion sentences, as many as a web crawl may have, of {length} tokens each: no GPU talks to
another, so time is divided by their number, but for one
process that reads the input once before they start. Cost is hours x price, at {price:g} for a GPU-hour and
{core_price:g} for a thread's: examples, not offers; put in your own.

{corpora}

* *Vectors on a GPU* were not measured. At least: training on as many tokens was (BERT-base, mean 160), and
  reads them all. At most three times that, because reading is a third of its arithmetic.
* *Translation on a GPU* was not measured either. At least: GPT-2's small shape writes so many tokens a second
  (batches of 64, greedy), and has twice the layers of a base translator, and wider ones.
* *On a CPU*: measured on two threads of an AMD EPYC, of which a half is taken here.
"""


@dataclass(frozen=True)
class Subject:
    work: Workload
    budget: float
    """Tokens to learn from."""
    why: str
    step: int
    """Tokens of a step, beyond which more are known to be of little use, or were not tried."""
    after: str


def subjects() -> list[Subject]:
    with torch.device("meta"):
        base = bert(30_522, layers=12, d_model=768, heads=12, d_ff=3072)
        large = bert(30_522, layers=24, d_model=1024, heads=16, d_ff=4096)
        encoders = [Headed(HeadedConfig(encoder=each, head=MaskedConfig())) for each in (base, large)]
        billion = Decoder(gpt(50_257, layers=20, d_model=2048, heads=16, d_ff=8192, longest=2048))
        translator = Seq2Seq(SEQ2SEQ["base"](32_000))
    roberta = "8,192 sequences of 512: RoBERTa (Liu et al. 2019)"
    epochs = "1 M steps of 256 x 512, as BERT's (Devlin et al. 2019)"
    return [
        Subject(
            workload_of(encoders[0], name="BERT-base, length 512", tokens=65_536, predicted=0.15, seen=512),
            131 * BILLION, epochs, 8192 * 512, roberta,
        ),
        Subject(
            workload_of(encoders[1], name="BERT-large, length 512", tokens=32_768, predicted=0.15, seen=512),
            131 * BILLION, epochs, 8192 * 512, roberta,
        ),
        Subject(
            workload_of(billion, name="a decoder of 1.1 B, length 2048", tokens=32_768, seen=1024),
            scaling.CHINCHILLA * sum(each.numel() for each in billion.parameters()),
            f"{scaling.CHINCHILLA} tokens for each weight (Hoffmann et al. 2022)",
            2**20, "1 million tokens: GPT-3 of 1.3 B (Brown et al. 2020)",
        ),
        Subject(
            workload_of(translator, name="Transformer-base on 1 B pairs", tokens=25_600),
            BILLION * LENGTH, f"one epoch, {LENGTH} target tokens a pair",
            400_000, "400,000 tokens: Ott et al. 2018",
        ),
    ]  # fmt: skip


def cluster(gpus: int) -> Cluster:
    return Cluster(gpus=min(gpus, NODE), nodes=max(1, gpus // NODE))


def weak(subject: Subject, gpus: int) -> Scaled:
    """Every GPU with a whole batch, however large steps become."""
    return scaled(subject.work, cluster(gpus))


def strong(subject: Subject, gpus: int) -> Scaled:
    """Steps of one size, shared out."""
    own = subject.step // gpus
    parts = -(-own // subject.work.tokens)
    return scaled(replace(subject.work, tokens=own // parts), cluster(gpus), parts=parts)


def half_way(subject: Subject) -> int:
    """From so many GPUs on, steps of one size are less than half as fast as as many alone would be."""
    gpus, alone = 1, strong(subject, 1).speed
    while strong(subject, gpus).speed > alone * gpus / 2:
        gpus *= 2
    return gpus


def days(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours / 24:,.1f} days" if hours >= 48 else f"{hours:,.1f} h"


def table(*rows: tuple[object, ...]) -> Iterator[str]:
    head, *rest = rows
    yield "| " + " | ".join(map(str, head)) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in rest:
        yield "| " + " | ".join(map(str, row)) + " |"


def training(subject: Subject) -> Iterator[str]:
    work = subject.work
    whole = memory_of(work, "ddp", 1)
    state = (whole.weights + whole.gradients + whole.optimizer) / GIB
    yield f"### {work.name[0].upper()}{work.name[1:]}"
    yield ""
    size, total = f"{work.parameters / 1e6:,.0f} M weights", f"{whole.total / GIB:.1f} GiB"
    yield f"{size}; {work.tokens:,} tokens in a batch, {total} on each GPU: {state:.1f} for weights,"
    yield f"gradients, the optimizer and the average, {whole.activations / GIB:.1f} for activations."
    yield f"To {subject.budget / BILLION:,.0f} B tokens: {subject.why}."
    yield ""
    rows: list[tuple[object, ...]] = [
        ("GPUs", "a batch each: tokens/s", "of as many alone", "tokens a step", "to the end",
         f"steps of {subject.step:,}: tokens/s", "of as many alone", "ms a step", "between GPUs",
         "to the end"),
    ]  # fmt: skip
    for gpus in GPUS:
        one, other = weak(subject, gpus), strong(subject, gpus)
        alone = strong(subject, 1).speed * gpus
        rows.append(
            (
                gpus, f"{one.speed:,.0f}", f"{one.efficiency:.0%}", f"{one.tokens:,}",
                days(one.seconds(subject.budget)), f"{other.speed:,.0f}", f"{other.speed / alone:.0%}",
                f"{1000 * other.step:,.1f}", f"{other.talking / other.step:.0%}",
                days(other.seconds(subject.budget)),
            )
        )  # fmt: skip
    yield from table(*rows)
    yield ""
    stop = half_way(subject)
    own = strong(subject, stop)
    yield (
        f"Steps of {subject.step:,} tokens ({subject.after}) stop scaling at about {stop:,} GPUs: each has "
        f"{own.work.tokens:,} tokens, at which a chip is used to {own.share:.0%} instead of "
        f"{expected(subject.work):.0%}, and {own.talking / own.step:.0%} of a step is between GPUs."
    )
    yield ""


def expected(work: Workload) -> float:
    return measured.expected_share(work)


def speeds(name: str, work: str, setting: str) -> float:
    rows = json.loads((ROOT / "docs" / "speed" / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return next(row["ours"] for row in rows if row["work"] == work and row["setting"] == setting)


def corpora() -> Iterator[str]:
    reading = (
        next(row for row in measured.ROWS if row.name == "BERT-base, up to 512, mean 160").speed / LENGTH
    )
    writing = speeds("generation-cuda", "GPT-2 small, 128 new tokens", "bfloat16, batch 64") / LENGTH
    mini = {
        kind: speeds("embedding", "MiniLM, text to vectors", kind) * 3600 / 2 for kind in ("float32", "int8")
    }
    translating = {
        setting: speeds("translation", "sentences, text to text", setting) * 3600 / 2
        for setting in ("int8, greedy", "int8, beam 4")
    }
    yield from table(
        ("work", "on", "sentences an hour", f"hours for {SENTENCES / BILLION:g} B", "cost"),
        *(
            (what, where, f"{rate:,.0f}", f"{SENTENCES / rate:,.0f}", f"{SENTENCES / rate * price:,.0f}")
            for what, where, rate, price in (
                ("vectors, BERT-base's size, at least", "one H200", reading * 3600, PRICE),
                ("vectors, the same, at most", "one H200", 3 * reading * 3600, PRICE),
                ("translation, greedy, at least", "one H200", writing * 3600, PRICE),
                ("vectors, MiniLM, float32", "one CPU thread", mini["float32"], CORE_PRICE),
                ("vectors, MiniLM, int8", "one CPU thread", mini["int8"], CORE_PRICE),
                (
                    "translation, base size, int8, greedy",
                    "one CPU thread",
                    translating["int8, greedy"],
                    CORE_PRICE,
                ),
                (
                    "translation, base size, int8, beam 4",
                    "one CPU thread",
                    translating["int8, beam 4"],
                    CORE_PRICE,
                ),
            )
        ),
    )


def page() -> str:
    given = cluster(512)
    return TEMPLATE.format(
        gpu=measured.GPU,
        date=measured.DATE,
        versions=measured.VERSIONS,
        ceiling=measured.CEILING / 1e12,
        inside=given.inside / 1e9,
        between=given.between / 1e9,
        node=NODE,
        used=scaling.USED,
        delay=1e6 * scaling.DELAY,
        cut=measured.CUT,
        checked="\n".join(_checked()),
        training="\n".join(line for subject in subjects() for line in training(subject)),
        sentences=SENTENCES / BILLION,
        length=LENGTH,
        price=PRICE,
        core_price=CORE_PRICE,
        corpora="\n".join(corpora()),
    )


def _checked() -> Iterator[str]:
    works = {subject.work.name: subject.work for subject in subjects()}
    language = gpt(50_257, layers=12, d_model=768, heads=12, d_ff=3072)
    with torch.device("meta"):
        small = Seq2Seq(SEQ2SEQ["small"](10_000))
        shapes = {
            "BERT-base, length 512": works["BERT-base, length 512"],
            "GPT-2, length 1024": workload_of(Decoder(language), name="", tokens=32_768, seen=512),
            "Transformer-base, mean 27": works["Transformer-base on 1 B pairs"],
            "Transformer-small, mean 15": workload_of(small, name="", tokens=4096),
        }
    rows: list[tuple[object, ...]] = [
        ("work", "tokens/s, measured", "from rows of other sizes", "GiB, measured", "by the formula"),
    ]
    for row in measured.ROWS:
        if row.name in shapes:
            work = shapes[row.name]
            others = [each for each in measured.ROWS if each.size != row.size]
            guess = row.speed * measured.expected_share(work, others) / row.share
            memory = memory_of(work, "ddp", 1).total / GIB
            rows.append(
                (row.name, f"{row.speed:,.0f}", f"{guess:,.0f}", f"{row.memory:.2f}", f"{memory:.2f}")
            )
    yield from table(*rows)


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/scale.md is not what docs/scale.py writes: python docs/scale.py --write")
