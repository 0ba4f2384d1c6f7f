"""A checkpoint that every rank writes its own part of, and that any number of ranks can read.

    checkpoint-120/    shard-*.safetensors     torch's distributed checkpoint (DCP), in safetensors
                       standing.json           the step, the best figures so far, digests of the shards

It is written under another name, and renamed when all of it is on the disk; then the one before is removed
(of the same step, it is renamed first): there is always a whole one. Nothing is ever pickled: DCP's usual
files are, those for safetensors are not. All ranks must see the same folder.
"""

import hashlib
import json
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from regard.disk import full_disk, read_plain, replace, sync_folder, write_text
from regard.train.checkpoint import CheckpointError
from regard.train.digests import of_weights
from regard.train.ranks import Ranks
from regard.train.standing import Standing, as_standing, check_count

FORMAT = "regard shards 1"
FACTS = "standing.json"
_NAME = re.compile(r"checkpoint-(\d+)(\.aside)?")
"""Aside is what another of the same step is about to take the place of."""

State = dict[str, Tensor]
"""What a checkpoint holds, by `KIND/NAME OF A PARAMETER`; of a matrix that is cut, a DTensor."""


def newest(folder: Path) -> Path | None:
    """The last whole one there."""
    whole = [path for path in _every(folder) if (path / FACTS).is_file()]
    return max(whole, key=lambda path: (step_of(path), path.suffix != ".aside"), default=None)


def _every(folder: Path) -> list[Path]:
    return [path for path in folder.glob("checkpoint-*") if _NAME.fullmatch(path.name)]


def step_of(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    if found is None:
        raise ValueError(f"{path} is not named as a checkpoint is: checkpoint-STEP")
    return int(found[1])


def clear(folder: Path, but: Path | None = None) -> None:
    """Remove all there, also those that were never whole, `but` this one."""
    for path in folder.glob("checkpoint-*"):
        if path != but and _NAME.match(path.name):
            shutil.rmtree(path, ignore_errors=True)


def write(
    folder: Path,
    state: State,
    standing: Standing,
    ranks: Ranks,
    *,
    updates: int,
    optimizer: str,
) -> Path:
    """All ranks together."""
    path = folder / f"checkpoint-{standing.step}"
    partial = path.with_name(f"{path.name}.partial")
    if ranks.first:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    ranks.wait()
    writer = HuggingFaceStorageWriter(str(partial), save_distributed=True)
    with _told(path, "the checkpoint could not be written"):
        save(state, storage_writer=writer)
    digests = ranks.gathered(_digests(partial, ranks.rank, ranks.count))
    if ranks.first:
        shapes = {name: [*each.shape] for name, each in state.items()}
        facts = {
            "format": FORMAT,
            "standing": asdict(standing),
            "updates": updates,
            "optimizer": optimizer,
            "shapes": shapes,
            "files": {name: digest for own in digests for name, digest in own.items()},
        }
        facts["digest"] = _of(facts)
        with full_disk(path):
            write_text(partial / FACTS, json.dumps(facts, indent=1))
            if path.exists():  # of the same step: one of the two is there, whenever this is killed
                aside = path.with_name(f"{path.name}.aside")
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)
            partial.rename(path)
            sync_folder(folder)
        clear(folder, but=path)
    ranks.wait()
    return path


def read_facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(read_plain(path / FACTS))
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise ValueError("no checkpoint of this version")
        if facts.pop("digest", None) != _of(facts):
            raise ValueError("damaged: its content is not what was written")
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path / FACTS}: cannot be read ({error}); start again in a new folder"
        ) from error
    return facts


def check_files(path: Path, facts: Mapping[str, Any], share: tuple[int, int] = (0, 1)) -> None:
    """Whether its files are what was written; of so many ranks, each looks at its share."""
    rank, count = share
    for name, digest in sorted(facts["files"].items())[rank::count]:
        if Path(name).name != name or not (path / name).is_file() or _digest(path / name) != digest:
            raise CheckpointError(
                f"{path / name}: damaged: its content is not what was written; start again in a new folder"
            )


def standing_of(path: Path, facts: Mapping[str, Any]) -> tuple[Standing, int]:
    """Where the run stood, and how many updates its optimizer had made."""
    try:
        return as_standing(facts.get("standing")), check_count("updates", facts.get("updates"))
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged: {error}; start again in a new folder") from error


def read(path: Path, state: State, *, alone: bool) -> None:
    """Into these tensors, each rank its own rows; `alone`, without asking other ranks."""
    with _told(path, "cannot be read"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)  # as it shall be
        load(state, storage_reader=HuggingFaceStorageReader(str(path)), no_dist=alone)


def whole_weights(path: Path, kinds: Sequence[str] = ("weights", "fixed")) -> dict[str, Tensor]:
    """All weights of a checkpoint by their names, put together: as a model folder has them. `kinds` may ask
    for averages instead: `average.mean`."""
    facts = read_facts(path)
    check_files(path, facts)
    shapes = {name: each for name, each in facts["shapes"].items() if name.partition("/")[0] in kinds}
    kept = _kinds(path)
    state = {name: torch.zeros(shape, dtype=kept[name]) for name, shape in shapes.items()}
    read(path, state, alone=True)
    return {name.partition("/")[2]: each for name, each in state.items()}


def write_weights(checkpoint: Path | str, path: Path | str, kinds: Sequence[str] | None = None) -> Path:
    """All weights of a checkpoint as one safetensors file, as `model.safetensors` of a model folder is.
    Unless given, `kinds` are those of the mean where the run keeps one (`average.kind = "ema"`), else of the
    last step."""
    source, target = Path(checkpoint), Path(path)
    if kinds is None:
        has = {name.partition("/")[0] for name in read_facts(source)["shapes"]}
        kinds = ("average.mean" if "average.mean" in has else "weights", "fixed")
    weights = {name: each.contiguous() for name, each in whole_weights(source, kinds).items()}
    replace(target, lambda partial: save_file(weights, partial, of_weights(weights)))
    return target


def _kinds(path: Path) -> dict[str, torch.dtype]:
    found = HuggingFaceStorageReader(str(path)).read_metadata().state_dict_metadata
    return {name: each.properties.dtype for name, each in found.items() if hasattr(each, "properties")}


@contextmanager
def _told(path: Path, what: str) -> Iterator[None]:
    """DCP raises what failed on any rank in an error of its own."""
    try:
        with full_disk(path):
            yield
    except (OSError, CheckpointError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise CheckpointError(f"{path}: {what} ({said})") from error


def _digests(folder: Path, rank: int, count: int) -> dict[str, str]:
    """Of this rank's share of the files: in the order of their names, each rank has written one."""
    return {file.name: _digest(file) for file in sorted(folder.glob("*.safetensors"))[rank::count]}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _of(facts: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in facts.items() if key != "digest"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
