"""What one GPU was measured to do: rows of `regard bench training`, as docs/speed/training.json has them.

They are of one NVIDIA H200, of 16 November 2026, torch 2.11; what was changed since then may have made them
faster. tests/train/test_scaling.py holds this table equal to that file: measure anew, and it says so.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from regard.train.workload import Workload

GPU = "NVIDIA H200"
DATE = "2026-11-16"
VERSIONS = "torch 2.11.0+cu130"
CEILING = 752e12
"""FLOP/s of a large product in bfloat16, measured beside them."""
MEMORY_SPEED = 4.8e12
"""Bytes a second from its memory: data sheet."""
UPDATE = 44
"""Bytes that an update moves for each weight, in float32: weights, gradients, means, squares and the average
are read, all but the gradients are written, which are scaled and zeroed."""

CUT = 0.79
"""Of the speed of the same model whole, what is left of one that is cut, on one GPU: GPT-2's large shape,
whose steps are then not captured (docs/speed/sharding.json; rounds were from 0.73 to 0.85)."""


@dataclass(frozen=True, slots=True)
class Measured:
    name: str
    speed: float
    """Tokens a second."""
    memory: float
    """GiB at most."""
    d_model: int
    flops: float
    """Useful ones, for one token."""
    tokens: int
    """Places for them in a step; a few may have been empty."""
    parameters: int

    @property
    def size(self) -> float:
        return product_size(self.tokens, self.d_model)

    @property
    def share(self) -> float:
        """Of the chip: useful arithmetic by its speed for large matrices, the update of the weights aside."""
        update = UPDATE * self.parameters / MEMORY_SPEED
        return self.tokens * self.flops / (self.tokens / self.speed - update) / CEILING


ROWS = (
    Measured("BERT-base, length 128", 751_244, 22.400, 768, 545_579_366, 65_536, 109_514_298),
    Measured("BERT-base, length 512", 680_202, 22.368, 768, 588_046_694, 65_536, 109_514_298),
    Measured("BERT-base, up to 512, mean 160", 722_966, 22.368, 768, 555_194_031, 65_536, 109_514_298),
    Measured("GPT-2, length 1024", 507_096, 13.326, 768, 798_534_144, 32_768, 124_439_808),
    Measured("Transformer-base, mean 27", 791_493, 6.821, 512, 363_134_976, 25_600, 60_522_496),
    Measured("Transformer-small, mean 15", 1_146_445, 0.612, 256, 59_596_800, 4_096, 9_933_824),
)


def expected_share(work: Workload, rows: Sequence[Measured] = ROWS) -> float:
    """Of the chip, of a model that was not measured: by how large its products are, between those that were.
    Both on logarithmic scales; larger than all is as good as the largest, and smaller than all goes on as
    between the two smallest."""
    sizes: dict[float, list[float]] = {}
    for row in rows:
        sizes.setdefault(row.size, []).append(row.share)
    known = sorted((math.log(size), math.log(fmean(shares))) for size, shares in sizes.items())
    own = math.log(product_size(work.tokens, work.d_model))
    for (low, before), (high, after) in itertools.pairwise(known):
        if own <= high:
            return math.exp(before + (after - before) * (own - low) / (high - low))
    return math.exp(known[-1][1])


def product_size(tokens: float, d_model: int) -> float:
    """What a product of a layer computes for such a batch, up to a factor."""
    return tokens * d_model**2
