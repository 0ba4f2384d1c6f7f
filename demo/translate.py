"""From two text files to a translator, command by command, on the built-in English-German corpus.

Everything here is done by the `regard` command and can be done the same way with other files. The sentences
of demo/sentences.txt are translated at the end: write your own there, in words like those of the corpus.
"""

import argparse
import shlex
import time
from pathlib import Path

from rich.console import Console

from regard.cli import build

HERE = Path(__file__).parent
RECIPE = HERE.parent / "recipes" / "phrasebook.toml"
console = Console(highlight=False)


def regard(*arguments: object) -> None:
    """Say the command, then do it."""
    words = [str(argument) for argument in arguments]
    console.print(f"\n[bold]$ regard {shlex.join(words)}[/bold]", soft_wrap=True)
    try:
        build()(words, standalone_mode=False)
    except SystemExit as end:
        if end.code:
            raise


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path, default=Path("runs"), help="where text and model go")
    options.add_argument("--again", action="store_true", help="train anew, even if there is a model")
    options.add_argument("settings", nargs="*", help="values on top of the recipe: train.steps=500")
    chosen = options.parse_args()
    text, model = chosen.folder / "phrasebook-text", chosen.folder / "phrasebook"
    root = f"data.root={text}"
    began = time.perf_counter()
    if chosen.again or not (model / "model.safetensors").exists():
        regard("phrasebook", text)
        regard("check", RECIPE, root)
        regard("train", RECIPE, root, *chosen.settings, "--out", model, "--overwrite", "--no-check")
    else:
        console.print(f"{model} holds a trained model; to train it anew: make demo AGAIN=--again")
    regard("evaluate", model, "--source", text / "test.en", "--reference", text / "test.de")
    regard("translate", model, HERE / "sentences.txt")
    first = (HERE / "sentences.txt").read_text(encoding="utf-8").splitlines()[1]
    regard("align", model, first)
    console.print(
        f"\nDone in {time.perf_counter() - began:.0f} s. The test sentences hold combinations of words "
        "that were never trained on.\n\n"
        "Now with your own text: two files, line by line translations of each other.\n\n"
        "  regard check --pairs mine.en mine.de\n"
        '  printf \'[data]\\ntrain = ["mine.en", "mine.de"]\\n\' > mine.toml\n'
        "  regard train mine.toml --dry-run        says what would be done, and how long it takes\n"
        "  regard train mine.toml --out runs/mine\n"
        "  regard translate runs/mine letter.en\n\n"
        "(regard is .venv/bin/regard here.)",
        markup=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
