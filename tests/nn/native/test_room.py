"""Room that is used again, and never while somebody has it."""

import sys
import threading

import torch

from regard.nn.native.room import LARGE, empty


def test_room_is_taken_again_when_nobody_has_it():
    one = empty(2, LARGE)
    place = one.data_ptr()
    del one
    other = empty(LARGE + 5)
    assert (other.data_ptr(), other.shape, other.dtype) == (place, (LARGE + 5,), torch.float32)


def test_a_view_keeps_its_room():
    first = empty(2, LARGE)
    first.fill_(1)
    row = first[1, 3:7]
    del first
    empty(2, LARGE).fill_(2)
    empty(LARGE).fill_(3)
    assert row.tolist() == [1, 1, 1, 1]


def test_room_is_not_lent_twice_however_references_are_counted(monkeypatch):
    """Python 3.14 counts fewer of them."""
    monkeypatch.setattr(sys, "getrefcount", lambda _: 1)
    one = empty(LARGE)
    assert empty(LARGE).data_ptr() != one.data_ptr()


def test_what_numpy_sees_keeps_its_room():
    seen = empty(LARGE).fill_(1).numpy()[5:7]
    empty(LARGE).fill_(2)
    assert seen.tolist() == [1, 1]


def test_every_thread_has_its_own():
    mine, found = empty(LARGE), []
    place = mine.data_ptr()
    del mine
    other = threading.Thread(target=lambda: found.append(empty(LARGE).data_ptr() == place))
    other.start()
    other.join()
    assert found == [False]


def test_what_is_small_is_ordinary():
    assert empty(3, 4).shape == (3, 4)
    assert empty(0, 7).shape == (0, 7)
