import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest

from regard.text.records import DataError, DataWarning, Line, Origin, Pair, Skipped, sift

BAD = DataError(Origin("train.de", 1041), "invalid UTF-8", "at byte 17")
GOOD = Line("gut", Origin("train.de", 1))


def test_an_origin_reads_like_a_compiler_message():
    assert str(Origin("train.de", 1041)) == "train.de:1041"
    assert str(Origin("train.de")) == "train.de"


def test_a_data_error_says_where_what_and_the_way_out():
    assert str(BAD) == 'train.de:1041: invalid UTF-8 at byte 17; fix the file or pass on_error="skip"'
    assert isinstance(BAD, ValueError)


def test_a_data_error_survives_the_way_between_processes():
    for twin in (pickle.loads(pickle.dumps(BAD)), copy.copy(BAD)):
        assert str(twin) == str(BAD)
        assert (twin.origin, twin.reason) == (BAD.origin, BAD.reason)


def test_records_cannot_be_changed():
    pair = Pair("a", "b", Origin("x", 1), Origin("y", 1))
    with pytest.raises(FrozenInstanceError):
        pair.source = "c"
    assert pair == Pair(source="a", target="b", origin=Origin("x", 1), target_origin=Origin("y", 1))


def test_skipped_counts_by_reason_and_remembers_the_first_places():
    skipped = Skipped(remembered=2)
    for line in range(1, 5):
        skipped.add(DataError(Origin("x", line), "NUL"))
    skipped.add(BAD)
    assert skipped.total == 5
    assert skipped.counts == {"NUL": 4, "invalid UTF-8": 1}
    assert skipped.first["NUL"] == [Origin("x", 1), Origin("x", 2)]
    assert str(skipped) == "5 skipped: 4 NUL (x:1, x:2, ...); 1 invalid UTF-8 (train.de:1041)"
    assert str(Skipped()) == "nothing skipped"


def test_raising_stops_at_the_first_broken_record():
    records = sift([GOOD, BAD, GOOD], "raise", None)
    assert next(records) == GOOD
    with pytest.raises(DataError) as caught:
        next(records)
    assert caught.value is BAD


def test_skipping_counts_what_it_leaves_out():
    skipped = Skipped()
    assert list(sift([GOOD, BAD, GOOD], "skip", skipped)) == [GOOD, GOOD]
    assert skipped.total == 1


def test_skipping_with_nowhere_to_count_warns():
    with pytest.warns(DataWarning, match="1 skipped: 1 invalid UTF-8"):
        assert list(sift([GOOD, BAD, GOOD], "skip", None)) == [GOOD, GOOD]


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="on_error='ignore' is unknown: choose from raise, skip"):
        list(sift([GOOD], "ignore", None))
