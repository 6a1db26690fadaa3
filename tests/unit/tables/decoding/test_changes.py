"""Change events one by one: which row each makes, removes or passes over. The rounds are in test_rounds_changes.py."""

import pyarrow as pa
import pytest

from siltstone.tables.decoding.changes import ChangedKeysDecoder, ChangedRowsDecoder
from siltstone.tables.decoding.json import FoundFieldsDecoder
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
