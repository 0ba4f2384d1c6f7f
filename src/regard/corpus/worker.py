"""A model as one callable, for pipelines of others: Ray Data, Spark, Dask, or a plain loop."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, cast

import numpy as np

from regard.config import ConfigError
from regard.corpus.writing import arrow_column, import_pyarrow
from regard.tasks.base.bulk import BulkWork, Kind
from regard.tasks.base.faster import Precision
from regard.tasks.base.reading import ReadingWarning
from regard.tasks.base.tables import free_name
from regard.tasks.registry import get_task

_OPEN: dict[tuple[Any, ...], BulkWork] = {}
"""Models of this process: however many copies of a worker there are, each model is loaded once."""
_ONE = Lock()
"""Calls of a process come one after the other, whatever thread they are made in: a model is opened once, and
has all the threads that it was given."""


class Worker:
    """Batches in, the same batches out with columns of results. It can be pickled: the model is loaded where
    it is first called, once in a process.

    `task` is what `regard corpus` calls it: embed, translate, classify, tag, answer; `settings` are its own
    (`to="de"`, `top_k=3`, ...). A batch is a dictionary of columns (Ray Data's), a pandas data frame (Spark's
    and Dask's) or a pyarrow table; what is returned is of the same kind. A column of the batch is never
    written over: a result of its name gets `predicted_` before it.

    >>> from regard.corpus import Worker
    >>> worker = Worker("runs/sentiment", "classify", column="text", device="cpu")
    >>> batch = worker({"text": ["A moving, funny film.", "A dull film."]})
    >>> list(batch), batch["label"][0]
    (['text', 'label', 'probability'], 'positive')
    """

    def __init__(
        self,
        model: Path | str,
        task: str,
        *,
        column: str = "text",
        second: str | None = None,
        device: str = "auto",
        precision: Precision | None = None,
        threads: int | None = None,
        bad: str | None = None,
        **settings: Any,
    ) -> None:
        """`column` has the texts, `second` the other texts of pairs, or what questions are about. `threads`:
        how many each process computes with on a CPU; unless given, one for each core. Calls from several
        threads of a process wait for one another. `bad` is the name of one column more, which says of texts
        that the model refuses (`too_long="error"`) why there is no value, and is null of all others; unless
        given, a warning counts them."""
        spec = get_task(task).bulk
        if spec is None:
            raise ConfigError(f"task={task!r}: it does nothing with a corpus")
        if spec.both and second is None:
            raise ConfigError(f"task={task!r} reads two columns: give second=, as in second='context'")
        self.model, self.task, self.column, self.second = str(model), task, column, second
        self.device, self.precision, self.threads, self.settings = device, precision, threads, settings
        self.bad = bad

    def __call__(self, batch: Any) -> Any:
        names = [self.column] + ([] if self.second is None else [self.second])
        texts = [[_text(each) for each in _column(batch, name)] for name in names]
        with _ONE:
            work = self._opened()
            found = work(*texts)
        there = {*_names(batch)}
        called = {name: free_name(name, there) for name in found.columns}
        columns: dict[str, Any] = {called[name]: values for name, values in found.columns.items()}
        kinds = {called[name]: kind for name, kind in work.kinds.items()}
        if self.bad is not None:
            if self.bad in there or self.bad in columns:
                raise ConfigError(f"bad={self.bad!r}: there is a column of that name; choose another")
            columns[self.bad] = [found.bad.get(row) for row in range(len(texts[0]))]
            kinds[self.bad] = "text"
        elif found.bad:
            row, why = min(found.bad.items())
            warnings.warn(
                f"{len(found.bad)} of {len(texts[0])} texts have no value (row {row}: {why}): "
                "bad='NAME' makes a column of the reasons",
                ReadingWarning,
                stacklevel=2,
            )
        return _joined(batch, columns, kinds)

    def _opened(self) -> BulkWork:
        how = (self.model, self.task, self.device, self.precision, repr(sorted(self.settings.items())))
        if how not in _OPEN:
            import torch

            if self.threads is not None:
                torch.set_num_threads(self.threads)
            spec = get_task(self.task).bulk
            if spec is None:
                raise ConfigError(f"task={self.task!r}: it does nothing with a corpus")
            _OPEN[how] = spec.open(
                Path(self.model), device=self.device, precision=self.precision, **self.settings
            )
        return _OPEN[how]


def _text(value: Any) -> Any:
    """What is missing is an empty text; a list of words stays one."""
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return ""
    if type(value).__name__ in ("NAType", "NaTType"):  # of pandas, which is not imported for it
        return ""
    return [*value] if isinstance(value, list | tuple | np.ndarray) else str(value)


def _kind(batch: Any) -> str:
    return type(batch).__module__.partition(".")[0]


def _names(batch: Any) -> list[str]:
    return [*batch] if isinstance(batch, Mapping) else [*getattr(batch, "column_names", batch.columns)]


def _column(batch: Any, name: str) -> list[Any]:
    names = _names(batch)
    if name not in names:
        raise ConfigError(f"no column {name!r} in the batch: there is {', '.join(map(repr, names))}")
    found = batch[name]
    return cast(list[Any], found.to_pylist() if _kind(found) == "pyarrow" else [*found])


def _joined(batch: Any, columns: Mapping[str, Any], kinds: Mapping[str, Kind]) -> Any:
    if isinstance(batch, Mapping):
        return {**batch, **{name: _array(values, kinds[name]) for name, values in columns.items()}}
    if _kind(batch) == "pyarrow":
        import_pyarrow()
        for name, values in columns.items():
            batch = batch.append_column(name, arrow_column(values, kinds[name]))
        return batch
    return batch.assign(**{name: [*values] for name, values in columns.items()})


def _array(values: Any, kind: str) -> Any:
    """As Ray Data takes it: lists of unequal length are objects."""
    if kind == "vector":
        return values
    if kind == "number":
        return np.array([np.nan if each is None else each for each in values], dtype=np.float64)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
