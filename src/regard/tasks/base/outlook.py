"""What a recipe would take on GPUs that are not here: lines below a dry run, by train/scaling.py."""

from collections.abc import Iterator

from regard.config import ConfigError
from regard.nn.layers import TransformerLayer
from regard.tasks.base.job import Job, workload
from regard.train.measured import DATE, GPU
from regard.train.scaling import CHINCHILLA, ROOM, USED, Cluster, Scaled, scaled

GIB = 2**30


def outlook(job: Job, cluster: Cluster, budget: float | None = None) -> Iterator[str]:
    """Comments, below a recipe. `budget` is in tokens; otherwise so many as Chinchilla's rule has them."""
    if not any(isinstance(part, TransformerLayer) for part in job.model.modules()):
        raise ConfigError("--gpus: only Transformers were measured; leave it out to time a few steps here")
    config = job.recipe.train
    parts, ranks = job.recipe.batch.parts, cluster.ranks
    if parts % ranks:
        raise ConfigError(
            f"--gpus: {ranks} ranks cannot share batch.parts={parts} evenly: choose a multiple of {ranks}"
        )
    found = scaled(
        workload(job),
        cluster,
        fsdp=config.fsdp,
        parts=parts // ranks,
        average=job.recipe.average,
        recomputed=config.activation_checkpointing,
        offloaded=config.cpu_offload,
    )
    yield f"# on {ranks} x {GPU}, {cluster.gpus} on each of {cluster.nodes} nodes; expected, not measured:"
    yield from _memory(found, config.fsdp)
    yield from _speed(found)
    yield from _links(found)
    if config.cpu_offload:
        yield "# train.cpu_offload: the update on the host, and the way there, are not in these times"
    steps, why = config.steps, "of this recipe"
    if config.minutes and 60 * config.minutes < steps * found.step:
        steps = max(1, int(60 * config.minutes / found.step))
        why = f"in train.minutes={config.minutes:g}, validations not counted"
    yield _lasts(found, steps * found.tokens, f"{steps:,} steps {why}")
    wanted = CHINCHILLA * found.work.parameters if budget is None else budget
    why = f"{CHINCHILLA} for each weight, after Chinchilla" if budget is None else "as given"
    yield _lasts(found, wanted, why)


def _memory(found: Scaled, chosen: str) -> Iterator[str]:
    memory, room = found.memory, found.cluster.memory
    way = {"ddp": "every rank has the whole model (DDP)", "fsdp": "the model is cut over ranks (FSDP)"}
    kinds = ("weights", "gradients", "optimizer", "gathered", "activations")
    each = ", ".join(f"{kind} {getattr(memory, kind) / GIB:.2f}" for kind in kinds if getattr(memory, kind))
    each += "; gradients come as activations go" if memory.fresh else ""
    yield f"# train.fsdp={chosen}: {way[found.way]}; {memory.total / GIB:.1f} GiB of {room / GIB:.0f}: {each}"
    if not found.fits:
        yield (
            f"# which is over {ROOM:.0%} of a GPU: lower batch.tokens and raise batch.parts, set "
            "train.activation_checkpointing=true, or cut it over more GPUs with train.fsdp=yes"
        )


def _speed(found: Scaled) -> Iterator[str]:
    parts, work = found.parts * found.cluster.ranks, found.work
    times = f"{_ms(found.compute)} computing, {_ms(found.update)} updating"
    beside = " meanwhile" if found.way == "fsdp" else ""
    times += f", {_ms(found.talking)} between GPUs{beside}"
    yield (f"# {found.tokens:,} tokens a step ({parts} x {work.tokens:,}) in {_ms(found.step)} ms: {times}")
    yield (
        f"# {found.speed:,.0f} tokens/s, {found.efficiency:.0%} of what as many alone would do; each at "
        f"{found.share:.0%} of the chip, as what was measured on one at {DATE} has it for such batches"
    )


def _links(found: Scaled) -> Iterator[str]:
    """What was assumed of a machine that nobody has seen."""
    own, many = found.cluster, found.cluster.ranks > 1
    links = f", {own.inside / 1e9:g} GB/s between GPUs of a node" if own.gpus > 1 else ""
    links += f", {own.between / 1e9:g} GB/s for each GPU between nodes" if own.nodes > 1 else ""
    used = f", of which {USED:.0%} is left for data" if many else ""
    yield f"# assumed: {own.memory / 1e9:g} GB in a GPU{links}{used}; docs/scale.md has the formulas"


def _ms(seconds: float) -> str:
    """Milliseconds, to three digits."""
    value = 1000 * seconds
    return f"{value:.{3 if value < 1 else 1}f}"


def _lasts(found: Scaled, tokens: float, why: str) -> str:
    hours = found.seconds(tokens) / 3600
    lasts = f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"
    if hours < 1:
        lasts = f"{60 * hours:.1f} minutes"
    return f"# {tokens:,.0f} tokens ({why}): {lasts}, {hours * found.cluster.ranks:,.1f} GPU-hours"
