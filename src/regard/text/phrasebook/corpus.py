"""A corpus that is always at hand: English sentences and their German translations, made by a small grammar.

Sentences make sense (people read books; doors are opened), and a test asks for more than memory: an adjective
with a noun, or a verb with its object, belongs by its hash to train, valid or test. A sentence of test holds
a combination of test; a sentence of train holds none of test or valid.

| construction | English                                  | German                                          |
|--------------|------------------------------------------|-------------------------------------------------|
| statement    | She often reads the old book.            | Sie liest oft das alte Buch.                    |
| inversion    | Yesterday my friend bought a red car.    | Gestern hat mein Freund ein rotes Auto gekauft. |
| negation     | He does not drink milk.                  | Er trinkt keine Milch.                          |
| question     | Can you help the boy?                    | Kannst du dem Jungen helfen?                    |
| asking       | Which door does Anna open?               | Welche Tür macht Anna auf?                      |
| liking       | How do you like the weather today?       | Wie gefällt dir das Wetter heute?               |
| command      | Please give me three eggs!               | Gib mir bitte drei Eier!                        |
| subordinate  | He stays because she is tired.           | Er bleibt, weil sie müde ist.                   |
| conditional  | If he calls me, I open the door.         | Wenn er mich anruft, mache ich die Tür auf.     |
| reported     | I know that she closed the window.       | Ich weiß, dass sie das Fenster zugemacht hat.   |
| joined       | Tom cooks the soup and we sing.          | Tom kocht die Suppe und wir singen.             |
| comparison   | The car is more expensive than the boat. | Das Auto ist teurer als das Boot.               |
| existence    | There are two cows behind the house.     | Hinter dem Haus sind zwei Kühe.                 |
| time         | It is half past seven.                   | Es ist halb acht.                               |

The German is a function of the English. Where English leaves a choice, it is made once and for all: you is
du; people are men unless English says otherwise (teacher: Lehrer); past is perfect (but was is war, and had
is hatte); prepositions melt with their article (im, zur).

`words` holds the words, `grammar` says a clause in both languages, `sense` draws clauses that make sense,
`sentences` makes sentences of them, and here they become a corpus.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

from regard.disk import full_disk
from regard.text.phrasebook.sense import Dice
from regard.text.phrasebook.sentences import Sentence, compose
from regard.text.phrasebook.words import Two
from regard.text.records import Origin, Pair

Split = Literal["train", "valid", "test"]

VALID, TEST = 0.02, 0.03
"""The shares of all combinations that only these splits have."""
PATIENCE = 100_000
"""So many draws without a new sentence mean that there is none."""


def phrases(split: Split, count: int, seed: int = 0) -> list[Pair]:
    """So many different sentences of a split. More of them begin with the same ones."""
    return [
        Pair(sentence.english, sentence.german, Origin("phrasebook", line), Origin("phrasebook", line))
        for line, sentence in enumerate(draw(split, count, seed), 1)
    ]


def write(
    folder: Path | str, *, train: int = 60_000, valid: int = 500, test: int = 1000, seed: int = 0
) -> list[Path]:
    """The corpus as parallel files: train.en, train.de, valid.en, ... Missing folders are made."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    counts: dict[Split, int] = {"train": train, "valid": valid, "test": test}
    for split, count in counts.items():
        sentences = draw(split, count, seed)
        for language, lines in (
            ("en", [sentence.english for sentence in sentences]),
            ("de", [sentence.german for sentence in sentences]),
        ):
            file = folder / f"{split}.{language}"
            with full_disk(file):
                file.write_bytes("".join(f"{line}\n" for line in lines).encode())
            files.append(file)
    return files


def draw(split: Split, count: int, seed: int = 0) -> list[Sentence]:
    if split not in get_args(Split):
        raise ValueError(f"split={split!r} is unknown: choose from {', '.join(get_args(Split))}")
    if count < 0:
        raise ValueError(f"count={count} is no number of sentences: choose 0 or more")
    dice = Dice(seed)
    found: dict[str, Sentence] = {}
    patience = PATIENCE
    while len(found) < count:
        sentence = compose(dice)
        if sentence.english not in found and split_of(sentence.combinations) == split:
            found[sentence.english] = sentence
            patience = PATIENCE
            continue
        patience -= 1
        if patience == 0:
            raise ValueError(
                f"count={count} {split} sentences are more than there are: {len(found)} were found, and then "
                f"{PATIENCE} draws brought no new one; ask for at most {len(found)}"
            )
    return list(found.values())


@cache
def share(combination: Two) -> Split:
    """The split that a combination belongs to."""
    digest = sha256(" ".join(combination).encode()).digest()
    level = int.from_bytes(digest[:4], "big") / 2**32
    return "valid" if level < VALID else "test" if level < VALID + TEST else "train"


def split_of(combinations: frozenset[Two]) -> Split | None:
    """None where both valid and test have a part in it."""
    held = {share(combination) for combination in combinations} - {"train"}
    if len(held) == 2:
        return None
    return held.pop() if held else "train"
