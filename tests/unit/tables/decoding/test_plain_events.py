"""Plain envelopes of Debezium, which are read all at once, mean what they mean one by one."""

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.tables.decoding.changes import ChangedRowsDecoder
from siltstone.tables.decoding.json import FoundFieldsDecoder, JsonFieldsDecoder
from siltstone.topic_configs.table_export import TableColumn

COLUMNS = [TableColumn("a", "long"), TableColumn("b", "string")]
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.one_of(st.none(), st.integers(-(2**65), 2**65), st.just(1.0), st.just("x")),
        "b": st.one_of(st.none(), st.text(max_size=3), st.just(7)),
        "c": st.integers(0, 9),
    },
)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "op": st.one_of(st.sampled_from([*"cudrmt", "x", ""]), st.none(), st.just(5)),
        "after": st.one_of(st.none(), ROWS, st.just([1])),
        "before": st.one_of(st.none(), ROWS, st.just("text")),
        "source": st.one_of(
            st.none(),
            st.just("s"),
            st.fixed_dictionaries({}, optional={"lsn": st.sampled_from([1, "2", None, "x", 2**70, 1.5])}),
        ),
        "schema": st.one_of(st.none(), st.just({}), st.just("s")),
        "payload": st.one_of(st.none(), ROWS),
        "__deleted": st.sampled_from([None, True, "true", "false", 3]),
    },
)
PLAIN_EVENTS = st.fixed_dictionaries(
    {"op": st.sampled_from("cudr"), "after": ROWS, "source": st.sampled_from([{}, {"lsn": 5}, {"lsn": "6"}])},
    optional={
        "__deleted": st.sampled_from([None, "true", 3]),
        "schema": st.sampled_from([None, {}]),
        "payload": st.none(),
    },
)
SKIPPED = b'{"op": "m", "source": {}}'
"""An event that is not plain, so that its neighbours are read one by one."""


@pytest.mark.parametrize("sequence", ["", "source.lsn", "a"])
@pytest.mark.parametrize("rows", [JsonFieldsDecoder, FoundFieldsDecoder])
@given(events=st.lists(st.one_of(st.none(), PLAIN_EVENTS, EVENTS), max_size=4))
def test_events_mean_the_same_all_at_once_and_one_by_one(rows: Any, sequence: str, events: list[Any]) -> None:
    values = [None if each is None else msgspec.json.encode(each) for each in events]
    decoder = ChangedRowsDecoder(rows(COLUMNS), sequence)
    at_once = decoder.decode(pa.array(values, pa.binary()))
    one_by_one = decoder.decode(pa.array([*values, SKIPPED], pa.binary()))
    count = len(values)
    assert one_by_one.skipped == {*at_once.skipped, count}
    assert (at_once.bad, at_once.found) == (one_by_one.bad, one_by_one.found)
    good = [row for row in range(count) if row not in at_once.bad]
    for name, column in [
        *at_once.columns.items(),
        ("deletes", at_once.deletes),
        ("sequences", at_once.sequences),
    ]:
        other = (
            getattr(one_by_one, name, None) if name not in one_by_one.columns else one_by_one.columns[name]
        )
        assert (column is None) == (other is None), name
        if column is not None:
            assert [column[row].as_py() for row in good] == [other[row].as_py() for row in good], name


def test_plain_events_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    event = b'{"op": "u", "before": null, "after": {"a": 1}, "source": {"lsn": 3}, "ts_ms": 4, "transaction": null}'
    seen = ChangedRowsDecoder(JsonFieldsDecoder(COLUMNS), "source.lsn").decode(
        pa.array([event] * 5_000, pa.binary())
    )
    assert seen.columns["a"].to_pylist() == [1] * 5_000 and seen.sequences.to_pylist() == [3] * 5_000
    monkeypatch.setattr(ChangedRowsDecoder, "_one_by_one", None)
    ChangedRowsDecoder(JsonFieldsDecoder(COLUMNS)).decode(pa.array([event, None], pa.binary()))
