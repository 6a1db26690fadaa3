"""Records made of columns are those that are built one by one; hashes of keys are those of Kafka's clients."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.kafka_protocol.records.building import append_record
from siltstone.kafka_protocol.records.key_partition import murmur2
from siltstone.kafka_protocol.records.reading import Record
from siltstone.record_columns.arrow import byte_column, nulls
from siltstone.record_columns.kernels import compiled, plain
from siltstone.record_columns.kernels.columns import NULL, ByteColumn

TEXTS = st.none() | st.binary(max_size=300)
DELTAS = st.sampled_from([0, 1, -1, 63, 64, -64, -65, 8_191, 8_192, 2**40, -(2**62), 2**63 - 1, -(2**63)])


def taken(column: ByteColumn, rows: list[int]) -> ByteColumn:
    return ByteColumn(column.data, column.starts[rows], column.lengths[rows])


@pytest.mark.parametrize("kernels", [plain, compiled])
@given(
    given_rows=st.lists(st.tuples(TEXTS, TEXTS, DELTAS, st.integers(0, 2**31 - 1)), max_size=30),
    cut=st.integers(0, 5),
)
def test_records_are_those_that_are_built_one_by_one(kernels: Any, given_rows: list[Any], cut: int) -> None:
    """Of a slice, and in another order than in the columns."""
    keys, values = (
        byte_column(pa.array([row[at] for row in given_rows], pa.binary()).slice(cut)) for at in (0, 1)
    )
    rows = list(enumerate(given_rows[cut:]))[::-1]
    order = [number for number, _ in rows]
    time_deltas, offset_deltas = (np.array([row[at] for _, row in rows], dtype=np.int64) for at in (2, 3))
    body, ends = kernels.encode_records(taken(keys, order), taken(values, order), time_deltas, offset_deltas)
    expected, expected_ends = bytearray(), []
    for _, (key, value, time_delta, offset_delta) in rows:
        append_record(expected, Record(timestamp_ms=time_delta, key=key, value=value), offset_delta, 0)
        expected_ends.append(len(expected))
    assert body.tobytes() == bytes(expected) and ends.tolist() == expected_ends


@pytest.mark.parametrize("kernels", [plain, compiled])
@given(
    keys=st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=250, max_size=300)),
    cut=st.integers(0, 3),
)
def test_hashes_are_kafkas(kernels: Any, keys: list[bytes | None], cut: int) -> None:
    hashes = kernels.key_hashes(byte_column(pa.array(keys, pa.binary()).slice(cut)))
    assert hashes.tolist() == [0 if key is None else murmur2(key) for key in keys[cut:]]


def test_a_column_of_text_and_one_of_nulls() -> None:
    column = byte_column(pa.array(["ä", None, "", "b"]).slice(1))
    assert column.lengths.tolist() == [NULL, 0, 1]
    assert nulls(2).lengths.tolist() == byte_column(pa.nulls(2, pa.binary())).lengths.tolist() == [NULL, NULL]
    assert len(byte_column(pa.array([], pa.binary())).lengths) == 0
