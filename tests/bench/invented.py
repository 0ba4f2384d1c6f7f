"""Reports of benchmarks that nobody ran."""

from regard.bench.results import Report, Row, compared, skipped

FAST = compared(
    [300.0, 200.0, 400.0],
    [100.0, 100.0, 100.0],
    work="writing",
    setting="int8, batch 8",
    unit="tokens/s",
    peer="transformers 5.0.0",
    notes="same tokens: 100 %",
)
SLOW = compared([4.0], [2.0], work="reading | aloud", setting="", unit="ms", peer="torch 2.13.0")
COST = compared([10.0], [9.0], work="one head", setting="traced", unit="ms", peer="regard, not traced")
ALONE = Row(work="the page", setting="drawn", unit="ms", ours=33.8)
MISSING = skipped(
    ImportError(name="sentence_transformers.models"),
    work="vectors",
    setting="float32",
    unit="sentences/s",
    peer="sentence-transformers",
    ours=1234.0,
)
ROWS = (FAST, SLOW, COST, ALONE, MISSING)


def invented(benchmark: str = "generation", rows: tuple[Row, ...] = ROWS) -> Report:
    return Report(
        benchmark=benchmark,
        title=f"What {benchmark} takes",
        method="Nobody did anything.",
        machine="An abacus, 2 threads",
        versions={"regard": "0.1.0", "torch": "2.13.0"},
        date="2026-01-31",
        rows=rows,
    )
