"""Columns become Arrow: types, batches of bounded size, only what is wanted."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siltstone.metadata.image import MetadataImage
from siltstone.metadata_tables.columns import (
    MetadataColumn,
    MetadataColumnUnknown,
    MetadataTable,
    MetadataType,
    RowsRefused,
    batches_of,
    computed,
    schema_of,
    texts,
)
from siltstone.metadata_tables.moment import Moment

MOMENT = Moment(MetadataImage(), 0)
ASKED: list[str] = []


def numbers(chunk: Any) -> Any:
    ASKED.append("number")
    return np.array(chunk.rows, np.int64)


TABLE = MetadataTable(
    "numbers",
    "Numbers.",
    (
        MetadataColumn("number", MetadataType.WHOLE, "The number.", numbers),
        computed("at", MetadataType.TIME, "Times.", lambda _, row: row - 1),
        computed("word", MetadataType.TEXT, "Words.", lambda _, row: None if row == 2 else f"w{row}"),
    ),
    lambda moment, topic: range(5) if topic is None else iter(range(5)),
)


@pytest.mark.parametrize("topic", [None, "a generator"])
def test_rows_come_in_batches_of_bounded_size(topic: str | None) -> None:
    batches = list(batches_of(TABLE, MOMENT, topic=topic, rows_max=2))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    batches = list(batches_of(TABLE, MOMENT, topic=topic, rows_max=2, offset=1, limit=3))
    assert [batch.column(0).to_pylist() for batch in batches] == [[1, 2], [3]]
    assert not list(batches_of(TABLE, MOMENT, topic=topic, offset=9))
    for wrong in ({"offset": -1}, {"limit": -1}):
        with pytest.raises(RowsRefused, match="below 0"):
            list(batches_of(TABLE, MOMENT, topic=topic, **wrong))


def test_a_column_that_is_not_wanted_is_not_computed() -> None:
    ASKED.clear()
    (batch,) = batches_of(TABLE, MOMENT, columns=["word", "at"])
    assert batch.schema.names == ["word", "at"] and not ASKED
    with pytest.raises(MetadataColumnUnknown, match="has no column nmber: did you mean number"):
        schema_of(TABLE, ["nmber"])


def test_times_of_0_and_before_are_null() -> None:
    (batch,) = batches_of(TABLE, MOMENT)
    assert batch.column(1).type == pa.timestamp("us", tz="UTC")
    assert [None if each is None else each.microsecond for each in batch.column(1).to_pylist()] == [
        None, None, 1_000, 2_000, 3_000,
    ]  # fmt: skip


def test_codes_are_the_numbers_of_labels() -> None:
    assert texts((None, "SSO", "SO"), np.array([2, 0, 1])).to_pylist() == ["SO", None, "SSO"]
