"""Rows as columns: the partition of each row, and the rows that have to be sent one by one."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siltstone.kafka_protocol.records.key_partition import partition_of_key
from siltstone.sinking.columns import ANY_PARTITION, RowColumns, columns_of, partitions_of
from siltstone.sinking.plan import TopicPlace

NOW_MS = 1_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def place(needs_keys: bool = False, has_own_times: bool = True, before_max_ms: int = 10**9) -> TopicPlace:
    return TopicPlace("t", "id", (7, 8, 9), 0, 10**6, needs_keys, has_own_times, before_max_ms, 5_000)


def found(of: TopicPlace | None = None, **columns: Any) -> RowColumns | None:
    return columns_of(pa.record_batch({"value": pa.array([b"v", None]), **columns}), of or place(), NOW_MS)


def times(*of_rows: int | None) -> Any:
    return pa.array(
        [None if each is None else each * 1_000 + 999 for each in of_rows], pa.timestamp("us", tz="UTC")
    )


def test_a_row_goes_to_the_partition_that_it_names_else_to_that_of_its_key() -> None:
    keys: list[bytes | None] = [b"a", b"b" * 1_000, None, b"", b"c", None]
    wanted = [None, None, None, None, 2, 1]
    rows = pa.record_batch(
        {
            "value": pa.array([b"v"] * 6),
            "key": pa.array(keys, pa.binary()),
            "partition": pa.array(wanted, pa.int32()),
        }
    )
    given = columns_of(rows, place(), NOW_MS)
    assert given is not None
    by_key = [partition_of_key(key, 3) for key in keys if key is not None]
    assert partitions_of(given, place()).tolist() == [*by_key[:2], ANY_PARTITION, by_key[2], 2, 1]


def test_times_and_sizes() -> None:
    given = found(timestamp=times(5, None), key=pa.array([b"key", None]))
    assert given is not None
    assert given.times.tolist() == [5, NOW_MS] and given.sizes.tolist() == [24 + 4, 24]
    moved = given.in_order(np.array([1, 0]))
    assert moved.times.tolist() == [NOW_MS, 5] and moved.keys.lengths.tolist() == [-1, 3]


@pytest.mark.parametrize(
    ("of", "columns", "is_refused"),
    [
        (place(), {"headers": pa.array([None, []], HEADERS)}, True),
        (place(), {"headers": pa.array([None, None], HEADERS)}, False),
        (place(needs_keys=True), {}, True),
        (place(needs_keys=True), {"key": pa.array([b"", b"k"])}, False),
        (place(), {"partition": pa.array([0, 3])}, True),
        (place(), {"partition": pa.array([-1, None])}, True),
        (place(), {"partition": pa.array([2, None])}, False),
        (place(), {"timestamp": times(NOW_MS + 5_001, 1)}, True),
        (place(has_own_times=False), {"timestamp": times(NOW_MS + 5_001, 1)}, False),
        (place(), {"timestamp": times(NOW_MS + 5_000, None)}, False),
        (place(before_max_ms=100), {"timestamp": times(NOW_MS - 101, None)}, True),
        (place(before_max_ms=100), {"timestamp": times(NOW_MS - 100, None)}, False),
    ],
)
def test_rows_that_the_topic_may_refuse_go_one_by_one(of: TopicPlace, columns: Any, is_refused: bool) -> None:
    assert (found(of, **columns) is None) == is_refused
