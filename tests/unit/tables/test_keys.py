"""Keys as bytes: equal bytes for equal keys, and for no others."""

from datetime import UTC, date, datetime
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from siltstone.tables.keys import column_at, key_bytes

TEXTS = [None, "", "1", "1:", ":1", "1:1", "11"]


def test_keys_of_several_texts_are_the_same_where_all_texts_are() -> None:
    kind = pa.struct([("a", pa.string()), ("b", pa.string()), ("c", pa.int64())])
    keys = [{"a": a, "b": b, "c": c} for a, b, c in product(TEXTS, TEXTS, [None, 1, 11])]
    found = key_bytes(pa.array([*keys, *keys, None], kind)).to_pylist()
    assert len(set(found)) == len(keys) + 1 and found[-1] is None
    assert found[: len(keys)] == found[len(keys) : -1]
    cut = pa.array([*keys[::-1], *keys], kind).slice(len(keys))
    assert key_bytes(cut).to_pylist() == found[: len(keys)], "of a slice, too"


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (pa.bool_(), True, False),
        (pa.float64(), 0.1, 0.2),
        (pa.date32(), date(2013, 1, 1), date(2013, 1, 2)),
        (
            pa.timestamp("us", tz="UTC"),
            datetime(2013, 1, 1, tzinfo=UTC),
            datetime(2013, 1, 1, 0, 0, 0, 1, UTC),
        ),
    ],
)
def test_fields_of_every_type(kind: Any, one: Any, other: Any) -> None:
    column = pa.array([{"a": one}, {"a": other}, {"a": one}], pa.struct([("a", kind)]))
    first, second, third = key_bytes(column).to_pylist()
    assert first == third != second


def test_plain_keys_are_their_own_bytes() -> None:
    assert key_bytes(pa.array(["a", None])).to_pylist() == [b"a", None]
    assert key_bytes(pa.array([b"\0", b""])).to_pylist() == [b"\0", b""]


def test_a_path_goes_into_structs() -> None:
    rows = pa.record_batch({"kafka": [{"key": {"id": 1}}, {"key": None}, None], "a": [1, 2, 3]})
    assert column_at(rows, "kafka.key.id").to_pylist() == [1, None, None]
    assert column_at(rows, "a").to_pylist() == [1, 2, 3]


def test_dates_that_have_no_text_are_keys_like_others() -> None:
    days = [2**31 - 1, -(2**31), 2_932_897, 0]
    column = pa.StructArray.from_arrays([pa.array(days, pa.date32())], names=["day"])
    assert key_bytes(column).to_pylist() == [f"{len(str(day))}:{day}".encode() for day in days]
