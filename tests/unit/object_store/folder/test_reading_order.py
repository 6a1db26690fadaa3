"""Reads that continue each other go one after the other; others do not wait."""

from collections.abc import Callable
from threading import Event, Thread

import pytest

from siltstone.object_store.folder.reading_order import ReadingOrder

SECONDS = 30


class Read:
    """A read in a thread of its own, which ends when ``end`` is called."""

    def __init__(self, order: ReadingOrder, key: str, start: int, end: int, fails: bool = False) -> None:
        self.has_begun, self._may_end, self._fails = Event(), Event(), fails

        def read() -> None:
            with order.turn(key, start, end):
                self.has_begun.set()
                assert self._may_end.wait(SECONDS)
                if self._fails:
                    raise OSError("the disk")

        self._thread = Thread(target=_quiet(read))
        self._thread.start()

    def end(self) -> None:
        self._may_end.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def _quiet(read: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            read()
        except OSError:
            return

    return run


@pytest.mark.parametrize("fails", [False, True])
def test_a_read_waits_for_the_one_that_it_continues(fails: bool) -> None:
    order = ReadingOrder()
    first = Read(order, "a", 0, 10, fails)
    assert first.has_begun.wait(SECONDS)
    second = Read(order, "a", 10, 20)
    third = Read(order, "a", 20, 30)
    assert not second.has_begun.wait(0.05) and not third.has_begun.is_set()
    first.end()
    assert second.has_begun.wait(SECONDS) and not third.has_begun.wait(0.05)
    second.end()
    assert third.has_begun.wait(SECONDS)
    third.end()


def test_reads_of_other_places_and_of_other_files_do_not_wait() -> None:
    order = ReadingOrder()
    reads = [
        Read(order, "a", 0, 10),
        Read(order, "b", 10, 20),
        Read(order, "a", 15, 20),
        Read(order, "a", 0, 10),
    ]
    assert all(each.has_begun.wait(SECONDS) for each in reads)
    for each in reads:
        each.end()


def test_nothing_is_kept_of_reads_that_have_ended() -> None:
    order = ReadingOrder()
    for _ in range(3):
        with order.turn("a", 0, 10), order.turn("a", 0, 10):
            pass
    with pytest.raises(KeyError), order.turn("a", 10, 20):
        raise KeyError
    assert not order._under_way
