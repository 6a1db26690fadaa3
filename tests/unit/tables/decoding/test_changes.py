"""Change events one by one: which row each makes, removes or passes over. The rounds are in test_rounds_changes.py."""

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.tables.decoding.changes import ChangedKeysDecoder, ChangedRowsDecoder
from siltstone.tables.decoding.json import FoundFieldsDecoder, JsonFieldsDecoder
from siltstone.tables.decoding.port import DecodedColumns
from siltstone.topic_configs.table_export import TableColumn


class Seen:
    """Keeps what it was given to decode."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    def decode(self, values: pa.Array) -> DecodedColumns:
        self.values = values.to_pylist()
        return DecodedColumns({})


@pytest.mark.parametrize(
    ("value", "made", "is_delete", "is_skipped"),
    [
        (b'{"op": "c", "after": {"a": 1}}', b'{"a": 1}', False, False),
        (b'{"op": "d", "before": {"a": 1}, "after": null}', None, True, False),
        (b'{"op": "d", "before": null, "after": null}', None, True, False),
        (b'{"op": "m", "source": {}, "message": {}}', None, False, True),
        (b'{"schema": {}, "payload": null}', None, True, False),
        (b'{"a": 1, "op": "d"}', b'{"a": 1, "op": "d"}', False, False),
        (b'{"a": 1, "op": "t", "source": "x"}', b'{"a": 1, "op": "t", "source": "x"}', False, False),
        (b'{"a": 1, "op": "c", "after": "x"}', b'{"a": 1, "op": "c", "after": "x"}', False, False),
        (b'{"a": 1, "op": 3}', b'{"a": 1, "op": 3}', False, False),
        (b'{"schema": "s", "payload": "p"}', b'{"schema": "s", "payload": "p"}', False, False),
        (b'{"schema": {}, "payload": {"op": "r", "after": {"a": 1}}}', b'{"a": 1}', False, False),
        (b'{"schema": {}, "payload": {"a": 1}}', b'{"a": 1}', False, False),
        (b'{"schema": null, "payload": {"a": 1}}', b'{"schema": null, "payload": {"a": 1}}', False, False),
        (b'{"a": 1, "__deleted": true}', None, True, False),
        (b'{"a": 1, "__deleted": "false"}', b'{"a": 1, "__deleted": "false"}', False, False),
        (b'\x00\x00\x00\x00\x07{"op": "u", "after": {"a": 1}}', b'{"a": 1}', False, False),
        (None, None, True, False),
    ],
)
def test_an_event(value: bytes | None, made: bytes | None, is_delete: bool, is_skipped: bool) -> None:
    seen = Seen()
    decoded = ChangedRowsDecoder(seen).decode(pa.array([value], pa.binary()))
    assert (seen.values, decoded.deletes.to_pylist(), 0 in decoded.skipped) == (
        [made],
        [is_delete],
        is_skipped,
    )
    assert not decoded.bad


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b'{"op": "t", "source": {}}', "skipped.operations"),
        (b'{"op": "zz", "source": {}}', "its op is zz"),
        (b'{"op": "u", "source": {}, "after": [1]}', "after is no row"),
        (b'{"before": {}}', "no op"),
        (b"[1]", "Expected `object`"),
        (b"{", "truncated"),
        (b'{"a": 1, "__deleted": 3}', "Expected"),
    ],
)
def test_what_is_no_event_is_bad(value: bytes, words: str) -> None:
    decoded = ChangedRowsDecoder(Seen()).decode(pa.array([b'{"a": 1}', value], pa.binary()))
    assert list(decoded.bad) == [1] and words in decoded.bad[1]


def test_the_rows_are_decoded_as_values_are() -> None:
    events = [b'{"op": "c", "after": {"a": 1, "b": 2}}', b'{"op": "d", "after": null}']
    decoded = ChangedRowsDecoder(FoundFieldsDecoder([TableColumn("a", "long")])).decode(
        pa.array(events, pa.binary())
    )
    assert decoded.columns["a"].to_pylist() == [1, None]
    assert decoded.columns["_rescued_data"].to_pylist() == ['{"b":2}', None] and list(decoded.found) == ["b"]


def test_keys_lose_the_schema_around_them() -> None:
    seen = Seen()
    keys = [b'{"schema": {}, "payload": {"id": 1}}', b'{"id": 2}', b"text", None, b'{"payload": 3}']
    ChangedKeysDecoder(seen).decode(pa.array(keys, pa.binary()))
    assert seen.values == [b'{"id": 1}', b'{"id": 2}', b"text", None, b'{"payload": 3}']


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
