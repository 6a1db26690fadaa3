"""Buckets and truncated values are those of pyiceberg and of mmh3."""

from datetime import UTC, date, datetime
from typing import Any

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import BucketTransform, TruncateTransform
from pyiceberg.types import BinaryType, DateType, IntegerType, LongType, StringType, TimestamptzType

from siltstone.tables import bucketing
from siltstone.tables.bucketing import bucket_of, hashes_of, murmur3, truncated


@given(st.lists(st.none() | st.binary(max_size=40), max_size=20), st.integers(0, 3))
def test_hashes_of_binary_are_those_of_mmh3(values: list[bytes | None], skipped: int) -> None:
    column = pa.array(values, pa.binary()).slice(skipped)
    found = hashes_of(column).tolist()
    expected = [None if each is None else mmh3.hash(each, signed=False) for each in values[skipped:]]
    assert [None if e is None else f for f, e in zip(found, expected, strict=True)] == expected
    assert all(murmur3(each) == mmh3.hash(each, signed=False) for each in values if each is not None)


@pytest.mark.parametrize("length", [bucketing._LONG_BYTES - 1, bucketing._LONG_BYTES, 1_025, 4_099])
def test_a_long_value_among_short_ones(length: int) -> None:
    values = [b"x", bytes(range(251)) * (length // 251 + 1), b"", b"abcd"]
    values[1] = values[1][:length]
    assert hashes_of(pa.array(values)).tolist() == [mmh3.hash(each, signed=False) for each in values]


WHEN = datetime(2023, 11, 14, 22, 13, 20, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "iceberg", "values"),
    [
        (pa.int32(), IntegerType(), [0, -1, 34, 2**31 - 1, None]),
        (pa.int64(), LongType(), [0, -1, 34, 2**62, None]),
        (pa.string(), StringType(), ["", "iceberg", "Ü€😀", None]),
        (pa.large_string(), StringType(), ["", "iceberg", None]),
        (pa.binary(), BinaryType(), [b"", b"\0\1\2\3", None]),
        (pa.date32(), DateType(), [date(2017, 11, 16), date(1969, 1, 1), None]),
        (pa.timestamp("us", tz="UTC"), TimestamptzType(), [WHEN, None]),
    ],
)
def test_buckets_are_those_of_iceberg(kind: Any, iceberg: Any, values: list[Any]) -> None:
    for count in (1, 16, 1_000):
        transform = BucketTransform(count).transform(iceberg)
        assert bucket_of(pa.array(values, kind), count).to_pylist() == [transform(each) for each in values]


@pytest.mark.parametrize(
    ("kind", "iceberg", "values"),
    [
        (pa.int32(), IntegerType(), [0, 1, -1, 99, -100, None]),
        (pa.int64(), LongType(), [2**40, -7, None]),
        (pa.string(), StringType(), ["", "abcdef", "Ü€😀x", None]),
    ],
)
def test_truncated_values_are_those_of_iceberg(kind: Any, iceberg: Any, values: list[Any]) -> None:
    for width in (1, 3, 10):
        transform = TruncateTransform(width).transform(iceberg)
        found = truncated(pa.array(values, kind), width)
        assert found.to_pylist() == [transform(each) for each in values] and found.type == kind
