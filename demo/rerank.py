r"""A reranker from an embedder and your own judgements: negatives mined by the embedder, trained with several
seeds, and measured against the embedder alone.

    python demo/rerank.py MODEL FOLDER --out runs/rerank

FOLDER/train and FOLDER/test hold queries.jsonl, corpus.jsonl and qrels.tsv, as BEIR has them. Or they are
made here from questions in SQuAD's form, whose paragraphs are the texts:

    python demo/rerank.py MODEL FOLDER --squad train.json.gz dev.json.gz --out runs/rerank

or from a table of labelled texts, where a label is a query (its name, "card_arrival" as "card arrival"), and
the texts that have it answer it; half of them are to learn from:

    python demo/rerank.py MODEL FOLDER --labelled messages.csv --text text --label category --out runs/rerank

Values of the recipe may follow: train.steps=200. What is done is what these commands do:

    regard mine-negatives MODEL --queries ... --corpus ... --qrels ... --among 1000 --relative-margin 0.05 \
        --choose any --out mined.jsonl
    regard train recipes/rerank.toml data.root=FOLDER model.start=MODEL --out RERANKER
    regard evaluate MODEL --queries ... --corpus ... --qrels ... --rerank RERANKER
"""

import argparse
import hashlib
import json
import statistics
from pathlib import Path

from rich.console import Console

import regard
from regard.meaning.evaluating import find, measure
from regard.meaning.mining import MiningConfig, mine
from regard.tasks.registry import read_recipe
from regard.text import Table, read_labelled, read_squad
from regard.text.judged import Judged, read_judged

RECIPE = Path(__file__).parent.parent / "recipes" / "rerank.toml"
FILES = ("queries.jsonl", "corpus.jsonl", "qrels.tsv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "model", type=Path, help="an embedder: it finds, mines, and is what the reranker starts from"
    )
    parser.add_argument("folder", type=Path, help="with train and test")
    parser.add_argument("--squad", type=Path, nargs=2, help="make FOLDER from these: for train, for test")
    parser.add_argument("--labelled", type=Path, help="make FOLDER from this table")
    parser.add_argument("--text", default="text", help="its column of texts")
    parser.add_argument("--label", default="label", help="its column of labels")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--candidates", type=int, default=50, help="that are reranked for each query")
    parser.add_argument("--out", type=Path, default=Path("runs/rerank"))
    given, settings = parser.parse_known_args()
    for split, path in zip(("train", "test"), given.squad or (), strict=False):
        make(path, given.folder / split)
    if given.labelled is not None:
        make_labelled(given)
    embedder = regard.load(given.model, regard.Embedder)
    mined = given.folder / "mined.jsonl"
    if not mined.exists():
        write_mined(embedder, read(given.folder / "train"), mined)
    test = read(given.folder / "test")
    print(f"test: {len(test.queries):,} queries, {len(test.corpus):,} texts", flush=True)
    found = find(embedder, test)
    rows = {"vectors": [measure(test, found).figures["vectors"]], "reranked": []}
    show("vectors", rows["vectors"][0])
    for seed in range(given.seeds):
        out = given.out / f"seed-{seed}"
        if not (out / "metrics.json").exists():
            train(given, out, seed, settings)
        reranker = regard.load(out, regard.Reranker)
        figures = measure(test, found, reranker, candidates=given.candidates).figures["reranked"]
        rows["reranked"].append(figures)
        show(f"seed {seed}", figures)
    show(
        "mean", {name: statistics.mean(row[name] for row in rows["reranked"]) for name in rows["vectors"][0]}
    )
    if given.seeds > 1:
        spread = {
            name: statistics.stdev(row[name] for row in rows["reranked"]) for name in rows["vectors"][0]
        }
        show("spread", spread)
    (given.out / "figures.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def show(name: str, figures: dict[str, float]) -> None:
    print(f"{name:<8} " + "  ".join(f"{key} {value:.4f}" for key, value in figures.items()), flush=True)


def read(folder: Path) -> Judged:
    queries, corpus, qrels = (folder / name for name in FILES)
    return read_judged(queries, corpus, qrels)


def write_mined(embedder: regard.Embedder, judged: Judged, path: Path) -> None:
    pairs = [
        (judged.queries[query], judged.corpus[text])
        for query, own in judged.judgements.items()
        for text, grade in own.items()
        if grade > 0 and text in judged.corpus
    ]
    how = MiningConfig(negatives=7, among=1000, relative=0.05, choose="any")
    found = mine(embedder, pairs, [*judged.corpus.values()], how)
    path.write_text("".join(json.dumps(each._asdict()) + "\n" for each in found), encoding="utf-8")
    count = sum(len(each.negatives) for each in found)
    print(f"{path}: {len(found):,} queries with {count:,} negatives", flush=True)


def train(given: argparse.Namespace, out: Path, seed: int, settings: list[str]) -> None:
    own = [f"data.root={given.folder.resolve()}", f"model.start={given.model.resolve()}"]
    seeds = [f"train.seed={seed}", f"batch.seed={seed}"]
    read_recipe(RECIPE, [*own, *seeds, *settings])  # a mistake is told before anything is done
    regard.fit(RECIPE, *own, *seeds, *settings, out=out, check=False, console=Console())


def make(squad: Path, folder: Path) -> None:
    """A paragraph answers each question that is asked about it; equal questions are one query."""
    found = [each for each in read_squad(squad) if each.answers]
    write(folder, [(each.text, each.context) for each in found])


def make_labelled(given: argparse.Namespace) -> None:
    """By a hash of the texts, so that they are shared out alike every time."""
    table = read_labelled(Table(path=given.labelled), text=given.text, label=given.label)
    pairs = [(each.labels[0].replace("_", " "), each.text) for each in table]
    for split, rest in (("train", 0), ("test", 1)):
        own = [pair for pair in dict.fromkeys(pairs) if digest(pair[1]) % 2 == rest]
        write(given.folder / split, own)


def write(folder: Path, pairs: list[tuple[str, str]]) -> None:
    """Queries, and texts that answer them."""
    folder.mkdir(parents=True, exist_ok=True)
    queries = {query: f"q{number}" for number, query in enumerate(dict.fromkeys(query for query, _ in pairs))}
    corpus = {text: f"d{number}" for number, text in enumerate(dict.fromkeys(text for _, text in pairs))}
    for name, own in zip(FILES, (queries, corpus), strict=False):
        lines = [json.dumps({"_id": id, "text": text}) for text, id in own.items()]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    judged = [f"{queries[query]}\t{corpus[text]}\t1" for query, text in dict.fromkeys(pairs)]
    table = ["query-id\tcorpus-id\tscore", *judged]
    (folder / FILES[2]).write_text("\n".join(table) + "\n", encoding="utf-8")


def digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


if __name__ == "__main__":
    main()
