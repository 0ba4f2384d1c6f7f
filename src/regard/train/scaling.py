"""What a training would take on so many GPUs: memory of a rank, tokens a second. A model, not a measure.

    compute       tokens of a rank x flops / (share of the chip x CEILING), as measured on one GPU
    update        UPDATE x weights of a rank / speed of the memory
    whole         (DDP) step = compute + update + 2 c(4 N): gradients are added up when all are there
    cut           (FSDP) step = max(compute / CUT, c(2 B) + c(2 B) + c(4 N) + c(4 E)) + update / CUT
                  CUT is what cutting by itself was measured to leave of the speed, on one GPU;
                  B weights inside of layers, gathered twice in bfloat16; E those outside, once in float32;
                  N = B + E gradients; gathered while the layers before are computed

    c(bytes)      bytes x max((n - 1) / n / inside, (m - 1) / m / (g between)) / USED + log2(n) x DELAY
                  n = g m GPUs, g on each of m nodes; a ring over all, every GPU with a link of its own to
                  other nodes: each byte passes every GPU once

Link speeds are those of data sheets; USED and DELAY are assumed, not measured.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from regard.settings.training import AverageConfig
from regard.train.measured import CEILING, CUT, MEMORY_SPEED, UPDATE, expected_share
from regard.train.workload import WORKSPACE, Workload

USED = 0.8
"""The share of a link's speed that is left for data. Assumed."""
DELAY = 10e-6
"""Seconds for each doubling of the ranks that wait for one another. Assumed."""
ROOM = 0.9
"""The share of a GPU's memory that a training may fill: the rest is lost between what is in use."""
CHINCHILLA = 20
"""Tokens for each weight of a language model, beyond which a larger one is the better use of a chip:
Hoffmann et al. 2022, about."""

Way = Literal["ddp", "fsdp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    gpus: int = 1
    """On each node."""
    nodes: int = 1
    memory: float = 150e9
    """Bytes of a GPU that a process can use, as torch tells them. H200: 139.8 GiB, which its data sheet calls
    141 GB."""
    memory_speed: float = MEMORY_SPEED
    """Bytes a second."""
    inside: float = 450e9
    """Bytes a second from a GPU to others of its node, one way. NVLink 4: data sheet."""
    between: float = 50e9
    """Bytes a second from a GPU to those of other nodes: 400 Gbit/s for each GPU."""

    def __post_init__(self) -> None:
        for name in ("gpus", "nodes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    @property
    def ranks(self) -> int:
        return self.gpus * self.nodes

    def passing(self, size: float) -> float:
        """Seconds until every GPU has had so many bytes pass by."""
        ranks, nodes = self.ranks, self.nodes
        slowest = max((ranks - 1) / ranks / self.inside, (nodes - 1) / nodes / (self.gpus * self.between))
        return size * slowest / USED + math.ceil(math.log2(ranks)) * DELAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of a rank."""

    weights: float
    gradients: float
    fresh: bool = False
    """There are no gradients when a step begins, and they come as activations go: of what is cut, if a rank
    has one batch a step."""
    optimizer: float
    """With the averages."""
    gathered: float
    """What is whole for a moment of what is cut, and its gradients."""
    activations: float
    """With the scores of the head, and what libraries take."""
    validating: float = 0.0
    """The whole model that the first rank validates with, of one that is cut: instead of what is gathered
    and kept while it trains."""

    @property
    def total(self) -> float:
        one, other = self.gradients, self.activations
        training = self.gathered + (max(one, other) if self.fresh else one + other)
        return self.weights + self.optimizer + max(training, self.validating)


def memory_of(
    work: Workload,
    way: Way,
    ranks: int,
    *,
    parts: int = 1,
    average: AverageConfig | None = None,
    recomputed: bool = False,
    offloaded: bool = False,
) -> Memory:
    """`parts` are the batches of a rank in each step."""
    average = average or AverageConfig()
    averages = {"ema": 1, "last": average.last, "none": 0}[average.kind] + bool(average.start)
    own = 1 if way == "ddp" else ranks
    kept = 0.0 if offloaded else 1 / own
    gathered = 0.0
    if way == "fsdp":
        largest = max((layer.parameters for layer in work.layers), default=0)
        # two layers in half precision, the gradients of one, and its sums over ranks; what is outside whole
        gathered = 2 * 2 * largest + (2 + 4) * largest + (4 + 4) * work.beside
    return Memory(
        weights=4 * work.parameters * kept,
        gradients=4 * work.trained * kept,
        fresh=way == "fsdp" and parts == 1,
        optimizer=4 * (2 + averages) * work.trained * kept,
        gathered=gathered,
        activations=work.activations(recomputed=recomputed) + work.scores + WORKSPACE,
        validating=4 * work.parameters + WORKSPACE if way == "fsdp" else 0.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A training on a cluster."""

    work: Workload
    cluster: Cluster
    way: Way
    memory: Memory
    parts: int
    """Batches of a rank in each step."""
    compute: float
    """Seconds of a step."""
    update: float
    """Of it, where that is done on the GPU."""
    talking: float
    """Seconds of a step in which data is under way; of what is cut, while others are computed."""
    share: float
    """Of the chip, that is expected while it computes."""

    @property
    def step(self) -> float:
        if self.way == "ddp":
            return self.compute + self.update + self.talking
        return max(self.compute, self.talking) + self.update

    @property
    def tokens(self) -> int:
        """Of a step, all ranks together."""
        return self.work.tokens * self.parts * self.cluster.ranks

    @property
    def speed(self) -> float:
        return self.tokens / self.step

    @property
    def efficiency(self) -> float:
        """Of so many GPUs that would not have to talk."""
        return (self.compute + self.update) / self.step

    @property
    def fits(self) -> bool:
        return self.memory.total <= ROOM * self.cluster.memory

    def seconds(self, tokens: float) -> float:
        """To learn from so many."""
        return tokens / self.speed


def scaled(
    work: Workload,
    cluster: Cluster,
    *,
    fsdp: Literal["auto", "yes", "no"] = "auto",
    parts: int = 1,
    average: AverageConfig | None = None,
    recomputed: bool = False,
    offloaded: bool = False,
) -> Scaled:
    """`parts` are the batches of a rank in each step."""
    ranks = cluster.ranks
    whole = memory_of(work, "ddp", ranks, average=average, recomputed=recomputed)
    cut = fsdp == "yes" or (fsdp == "auto" and is_too_large(whole, cluster.memory, ranks))
    way: Way = "fsdp" if cut else "ddp"
    memory = whole
    if way == "fsdp":
        kept: dict[str, Any] = {"average": average, "recomputed": recomputed, "offloaded": offloaded}
        memory = memory_of(work, way, ranks, parts=parts, **kept)
    share = expected_share(work)
    again = 4 / 3 if recomputed else 1.0
    own, left = (1, 1.0) if way == "ddp" else (ranks, CUT)
    compute = parts * work.tokens * work.flops * again / (share * CEILING * left)
    talking = 0.0
    if ranks > 1 and way == "ddp":
        talking = 2 * cluster.passing(4 * work.trained)
    elif ranks > 1:
        layers = len(work.layers) or 1
        each = 2 * cluster.passing(2 * work.body / layers) + cluster.passing(4 * work.body / layers)
        talking = parts * (layers * each + 2 * cluster.passing(4 * work.beside))
    return Scaled(
        work=work,
        cluster=cluster,
        way=way,
        memory=memory,
        parts=parts,
        compute=compute,
        update=0.0 if offloaded else UPDATE * work.trained / own / cluster.memory_speed / left,
        talking=talking,
        share=share,
    )


def is_too_large(whole: Memory, memory: float, ranks: int) -> bool:
    """Whether a GPU of so many bytes has no room for a whole model, and there are others to share it with."""
    return ranks > 1 and whole.total > ROOM * memory
