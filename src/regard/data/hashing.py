"""Random numbers that are functions of their coordinates: a run is resumed by integers (splitmix64, Steele et
al. 2014)."""

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(keys: Keys) -> Keys:
    """The finaliser: every bit of a key depends on every bit."""
    keys = (keys ^ (keys >> np.uint64(30))) * _FIRST
    keys = (keys ^ (keys >> np.uint64(27))) * _SECOND
    return keys ^ (keys >> np.uint64(31))


def uniform(*coordinates: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1), one for each point: a hash of its whole coordinates, so always the same."""
    key = np.zeros(1, dtype=np.uint64)
    for each in coordinates:
        key = mixed(key + GOLDEN * (np.atleast_1d(each).astype(np.uint64) + np.uint64(1)))
    return (key >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mixed_seed(seed: int, step: int, part: int) -> int:
    """One seed, below 2^63, out of three numbers."""
    value = (seed * int(GOLDEN) + step * int(_FIRST) + part * int(_SECOND) + 1) % 2**64
    return int(mixed(np.array([value], dtype=np.uint64))[0]) % 2**63
