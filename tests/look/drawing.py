"""What tests ask of a picture, and a model to draw."""

import math

import numpy as np

from regard.settings.models import EmbedConfig
from regard.tasks.embedding.embedder import Embedder
from tests.tasks.encoders import toys


def image(axes) -> np.ndarray:
    """The numbers of the one matrix."""
    (only,) = axes.images
    return np.asarray(only.get_array())


def names(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def embedder(**shape) -> Embedder:
    """Whose tokens are pieces of words."""
    own = toys.subwords()
    made = toys.model(EmbedConfig(), vocabulary=len(own), **({**toys.TINY, **shape} if shape else {}))
    return Embedder(toys.reader(made, own=own))


def cosines(rows: np.ndarray) -> np.ndarray:
    return np.array([[a @ b / math.sqrt((a @ a) * (b @ b)) for b in rows] for a in rows])
