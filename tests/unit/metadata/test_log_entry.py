from typing import get_args

import msgspec
import pytest

from siltstone.metadata.applying import _APPLIERS
from siltstone.metadata.framing import seal
from siltstone.metadata.log_entry import (
    ENTRY_MAGIC,
    LogEntry,
    RecordUnknown,
    append_id_of,
    decode_entry,
    encode_entry,
)
from siltstone.metadata.records import Record
from support.metadata.metadata_records import ONE_OF_EACH

APPEND_ID = "00112233445566778899aabbccddeeff"
ENTRY = LogEntry(APPEND_ID, ONE_OF_EACH)


def test_round_trip_of_every_kind() -> None:
    assert {type(record) for record in ONE_OF_EACH} == set(get_args(Record)) == set(_APPLIERS)
    assert decode_entry(encode_entry(ENTRY)) == ENTRY
    assert append_id_of(encode_entry(ENTRY)) == APPEND_ID


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(msgspec.msgpack.encode([[99, 1]]), id="a tag of the future"),
        pytest.param(msgspec.msgpack.encode([[11, 3]]), id="fields missing"),
        pytest.param(b"\xc1", id="no msgpack"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_records_that_cannot_be_read_are_named(body) -> None:
    with pytest.raises(RecordUnknown, match="use the version that wrote it"):
        decode_entry(seal(ENTRY_MAGIC, bytes(16), body))


def test_a_field_added_later_is_passed_over() -> None:
    newer = msgspec.msgpack.encode([[12, 3, "added later"]])
    (record,) = decode_entry(seal(ENTRY_MAGIC, bytes(16), newer)).records
    assert record == ONE_OF_EACH[3]
