"""A model as a callable in pipelines of others: Ray's, Spark's, Dask's."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from regard.config import ConfigError
from regard.corpus import Worker
from regard.corpus import worker as worker_module
from regard.tasks.base.reading import ReadingWarning
from regard.tasks.embedding.embedder import open_embedder
from regard.tasks.translation.opening import open_translator


@pytest.fixture
def short(sentences) -> list[str]:
    return [each for each in sentences if len(each) < 100][:60]


@pytest.fixture
def wanted(tiny, short) -> np.ndarray:
    return open_embedder(tiny["embedder"], device="cpu").embed(short)


@pytest.fixture
def worker(tiny) -> Worker:
    return Worker(tiny["embedder"], "embed", device="cpu", threads=1)


def test_a_dictionary_of_columns_keeps_them_and_gets_vectors(worker, short, wanted):
    found = worker({"n": np.arange(len(short)), "text": np.array(short, dtype=object)})
    assert [*found] == ["n", "text", "vector"]
    assert np.array_equal(found["vector"], wanted)


def test_data_frames_and_tables_stay_what_they_are(worker, short, wanted):
    import pandas
    import pyarrow

    frame = worker(pandas.DataFrame({"text": short}, index=range(5, 5 + len(short))))
    assert np.array_equal(np.stack([*frame["vector"]]), wanted)
    assert [*frame.index] == [*range(5, 5 + len(short))]
    table = worker(pyarrow.table({"text": short}))
    assert np.array_equal(np.array(table["vector"].to_pylist(), np.float32), wanted)


def test_it_travels_without_its_model(worker, short, wanted):
    raw = pickle.dumps(worker)
    assert len(raw) < 2000
    worker({"text": short[:1]})
    assert len(pickle.dumps(worker)) == len(raw)
    assert np.array_equal(pickle.loads(raw)({"text": short})["vector"], wanted)


def test_every_task_has_its_columns(tiny, short):
    greedy = {"greedy": True, "decoding": {"maximum": 5}}
    found = Worker(tiny["translator"], "translate", device="cpu", **greedy)({"text": short})
    translator = open_translator(tiny["translator"], device="cpu")
    own = translator.translate(short, decoding=_greedy(translator))
    assert [*found["translation"]] == [each.text for each in own]
    assert [*Worker(tiny["classifier"], "classify", device="cpu")({"text": short})][1:] == [
        "label",
        "probability",
    ]
    assert [*Worker(tiny["tagger"], "tag", device="cpu")({"text": short})][1:] == ["words", "tags", "spans"]
    asked = {"question": short[:4], "context": [" ".join(short[:3])] * 4}
    answers = Worker(tiny["answerer"], "answer", column="question", second="context", device="cpu")(asked)
    assert [*answers][2:] == ["answer", "start", "end", "probability", "no_answer"]


def _greedy(translator):
    from regard.tasks.base.decoding import changed

    return changed(translator.decoding, {"maximum": 5}, greedy=True)


def test_what_is_missing_is_told(tiny, worker):
    with pytest.raises(ConfigError, match="no column 'text' in the batch: there is 'txt'"):
        worker({"txt": ["a"]})
    with pytest.raises(ConfigError, match="reads two columns"):
        Worker(tiny["answerer"], "answer")


def test_what_is_missing_is_an_empty_text_whatever_it_is_called(worker):
    import pandas

    missing = [None, float("nan"), np.float32("nan"), pandas.NA, pandas.NaT]
    found = worker({"text": [*missing, "", "the dog"]})["vector"]
    assert all(np.array_equal(row, found[-2]) for row in found[:-2])
    assert not np.array_equal(found[-1], found[-2])
    series = pandas.Series(["the dog", None], dtype="string")  # whose None is pandas.NA
    assert np.array_equal(worker(pandas.DataFrame({"text": series}))["vector"][1], found[-2])


@pytest.mark.parametrize("kind", ["dict", "pandas", "pyarrow"])
def test_a_column_of_the_batch_is_never_written_over(kind, tiny):
    import pandas
    import pyarrow

    batch = {"text": ["a good day"], "label": ["good"]}
    make = {"dict": dict, "pandas": pandas.DataFrame, "pyarrow": pyarrow.table}[kind]
    found = Worker(tiny["classifier"], "classify", device="cpu")(make(batch))
    names = found.column_names if kind == "pyarrow" else [*found]
    assert names == ["text", "label", "predicted_label", "probability"]
    assert str(found["label"][0]) == "good"
    with pytest.raises(ConfigError, match="bad='label': there is a column of that name"):
        Worker(tiny["classifier"], "classify", device="cpu", bad="label")(make(batch))


LONG = ["the dog sleeps", "dog " * 100, "a cat"]


@pytest.mark.parametrize("kind", ["dict", "pandas", "pyarrow"])
@pytest.mark.parametrize(("task", "model"), [("embed", "embedder"), ("classify", "classifier")])
def test_texts_that_a_model_refuses_are_told(task, model, kind, tiny):
    import pandas
    import pyarrow

    make = {"dict": dict, "pandas": pandas.DataFrame, "pyarrow": pyarrow.table}[kind]
    how = {"device": "cpu", "too_long": "error"}
    with pytest.warns(ReadingWarning, match=r"1 of 3 texts have no value \(row 1: longer than 64 tokens\)"):
        plain = Worker(tiny[model], task, **how)(make({"text": LONG}))
    found = Worker(tiny[model], task, bad="why", **how)(make({"text": LONG}))
    why = found["why"].to_pylist() if kind == "pyarrow" else [*found["why"]]
    assert pandas.isna(why).tolist() == [True, False, True]
    assert why[1] == "longer than 64 tokens"
    names = {"dict": list, "pandas": list, "pyarrow": lambda table: table.column_names}[kind]
    assert names(found) == [*names(plain), "why"]
    short = Worker(tiny[model], task, bad="why", **how)(make({"text": LONG[:1]}))
    assert names(short) == names(found)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_in_a_dask_pipeline(scheduler, worker, short, wanted, monkeypatch):
    monkeypatch.setattr(worker_module, "_OPEN", {})
    opened, spec = [], worker_module.get_task("embed").bulk
    counting = replace(spec, open=lambda *given, **how: (opened.append(1), spec.open(*given, **how))[1])
    monkeypatch.setattr(worker_module, "get_task", lambda name: SimpleNamespace(bulk=counting))
    dask = pytest.importorskip("dask.dataframe")
    import pandas

    frame = dask.from_pandas(pandas.DataFrame({"text": short}), npartitions=3)
    meta = worker(frame._meta.assign(text=[]).astype({"text": "object"}))
    found = frame.map_partitions(worker, meta=meta).compute(scheduler=scheduler)
    assert len(opened) == 1, "a model for each thread"
    assert np.array_equal(np.stack([*found["vector"]]), wanted)


def test_in_a_spark_pipeline(worker, short, wanted, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    spark = sql.SparkSession.builder.master("local[1]").getOrCreate()
    try:
        frame = spark.createDataFrame([(each,) for each in short], "text string")
        found = frame.mapInPandas(
            lambda frames: map(worker, frames), "text string, vector array<float>"
        ).toPandas()
    finally:
        spark.stop()
    assert np.array_equal(np.stack([*found["vector"]]).astype(np.float32), wanted)
