from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.base.splits import Splits, check_hold_out
from regard.text import DataError, Origin, Skipped, read_lines

PATH = Path("train.txt")


def of(items: list[str], *, on_error: Any, skipped: Skipped) -> Iterator[str]:
    yield from items


def splits(
    train: list[list[str]], valid: list[list[str]] | None = None, hold_out: int = 0, test: Any = ()
) -> Splits[str]:
    readers: Any = {"train": train, "valid": valid or [], "test": test}
    readers = {split: [partial(of, items) for items in files] for split, files in readers.items()}
    return Splits(
        readers, paths=[PATH], what="words", key=lambda word: word, hold_out=hold_out, on_error="raise"
    )


def test_files_that_are_named_are_read_one_after_the_other() -> None:
    own = splits([["a", "b"], ["c"]], [["d"]], test=[["e"], ["f"]])
    assert [list(own.read(split)) for split in ("train", "valid", "test")] == [
        ["a", "b", "c"],
        ["d"],
        ["e", "f"],
    ]
    assert own.size == 3


@given(st.lists(st.text(max_size=3), min_size=1, max_size=60), st.integers(0, 40))
def test_what_is_held_out_is_never_learned_from(items: list[str], hold_out: int) -> None:
    distinct = {item.strip() for item in items} - {""}
    own = splits([items], hold_out=hold_out)
    if len(distinct) < 2:
        with pytest.raises(DataError, match=r"train.txt: too few words to hold some out.*data.valid"):
            list(own.read("train"))
        return
    train, valid = list(own.read("train")), list(own.read("valid"))
    assert Counter(train) + Counter(valid) == Counter(items)
    assert not {item.strip() for item in train} & {item.strip() for item in valid}
    wanted = hold_out or max(len(items) // 20, 1)
    held = {item.strip() for item in valid} - {""}
    assert len(held) == min(wanted, len(distinct) // 2)
    assert train == [item for item in items if item in set(train)]  # in their order


def test_which_are_held_out_does_not_depend_on_their_order() -> None:
    items = [f"word {number}" for number in range(100)]
    assert set(splits([items]).read("valid")) == set(splits([items[50:], items[:50][::-1]]).read("valid"))


def test_at_most_a_thousand_are_held_out_unless_more_are_wanted() -> None:
    items = [str(number) for number in range(30_000)]
    assert len(list(splits([items]).read("valid"))) == 1000
    assert len(list(splits([items], hold_out=1234).read("valid"))) == 1234


def test_nothing_to_train_on_is_told_with_the_file() -> None:
    with pytest.raises(DataError, match=r"train.txt: no words to train on"):
        _ = splits([[]]).size


def test_a_broken_line_is_told_in_the_words_of_a_recipe(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n\xff\nalso good\n")

    def own(on_error: Any) -> Splits[Any]:
        readers: Any = {
            "train": [partial(read_lines, path)],
            "valid": [partial(read_lines, path)],
            "test": [],
        }
        return Splits(
            readers, paths=[path], what="lines", key=lambda line: line.text, hold_out=0, on_error=on_error
        )

    with pytest.raises(DataError, match=r"a.txt:2: invalid UTF-8.*data.on_error=skip"):
        list(own("raise").read("train"))
    skipped = Skipped()
    assert [line.text for line in own("skip").read("train", skipped)] == ["good", "also good"]
    assert skipped.total == 1


def test_an_error_that_cannot_be_skipped_keeps_its_remedy() -> None:
    def broken(**_: Any) -> Iterator[str]:
        raise DataError(Origin("a.txt"), "gone", remedy="find it")
        yield

    own: Splits[str] = Splits(
        {"train": [broken], "valid": [broken], "test": []},
        paths=[PATH],
        what="words",
        key=str,
        hold_out=0,
        on_error="skip",
    )
    with pytest.raises(DataError, match=r"a.txt: gone; find it"):
        list(own.read("train"))


def test_held_out_words_beside_files_of_their_own_are_refused() -> None:
    with pytest.raises(ValueError, match="hold_out=-1"):
        check_hold_out(-1, ())
    with pytest.raises(ValueError, match="hold_out=5, but valid names files"):
        check_hold_out(5, ("valid.tsv",))
    check_hold_out(5, ())
    check_hold_out(0, ("valid.tsv",))
