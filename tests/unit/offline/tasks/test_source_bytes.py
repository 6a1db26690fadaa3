from concurrent.futures import ThreadPoolExecutor

import pytest

from siltstone.model.errors import Unavailable
from siltstone.offline.blocks.columns import Read
from siltstone.offline.tasks.source_bytes import SourceBytes, store_at

SOURCES = [bytes(range(100)), bytes(range(100, 200))]
READS = [Read(0, 10, 20), Read(0, 20, 25), Read(0, 50, 60), Read(1, 0, 10)]


def fetch(read: Read) -> bytes:
    return SOURCES[read.source][read.start : read.end]


@pytest.mark.parametrize(
    ("source", "position", "size"), [(0, 10, 10), (0, 12, 3), (0, 18, 7), (0, 50, 10), (1, 0, 10), (0, 20, 5)]
)
def test_views_are_the_bytes_asked_for(source: int, position: int, size: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        views = SourceBytes(READS, [], fetch, pool).views(source, position, size)
    assert b"".join(views) == SOURCES[source][position : position + size]


def test_bytes_that_were_not_planned_are_a_bug() -> None:
    with ThreadPoolExecutor(2) as pool, pytest.raises(AssertionError, match="no read holds 30"):
        SourceBytes(READS, [], fetch, pool).views(0, 30, 5)


def test_the_failure_of_a_read_reaches_whoever_needs_it() -> None:
    def failing(read: Read) -> bytes:
        if read.source == 1:
            raise Unavailable("down")
        return fetch(read)

    with ThreadPoolExecutor(2) as pool:
        brought = SourceBytes(READS, [], failing, pool)
        assert brought.views(0, 50, 1) == [SOURCES[0][50:51]]
        with pytest.raises(Unavailable, match="down"):
            brought.views(1, 0, 1)


def test_reads_are_begun_in_the_order_in_which_the_outputs_need_them() -> None:
    begun: list[Read] = []

    def fetch_in_turn(read: Read) -> bytes:
        begun.append(read)
        return fetch(read)

    wanted = [(1, 3), (0, 55), (1, 0), (0, 12)]
    with ThreadPoolExecutor(1) as pool:
        SourceBytes(READS, wanted, fetch_in_turn, pool)
    assert begun == [READS[3], READS[2], READS[0], READS[1]]


def test_a_process_opens_a_store_once() -> None:
    one, other = store_at("memory:one-of-two"), store_at("memory:another-of-two")
    assert store_at("memory:one-of-two") is one is not other
    one.put("k", [b"v"])
    assert store_at("memory:one-of-two").get_range("k", 0, 1) == b"v"
