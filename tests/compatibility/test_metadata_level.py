"""Golden bytes of the record that raises the level of a store, and of a snapshot that has a level.

Never change them: every later program is refused by what is read of these bytes. What a later one adds at the end is
passed over.
"""

import pytest

from siltstone.metadata.entities import StoreLevel
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.levels import LevelUnknown
from siltstone.metadata.log_entry import LogEntry, decode_entry, encode_entry
from siltstone.metadata.records import LevelRaised
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from support.metadata.metadata_records import LEVELS

APPEND_ID = "00112233445566778899aabbccddeeff"
PREVIOUS = "ffeeddccbbaa99887766554433221100"
RAISED_MS = "cf0000018bcfe56800"
ENTRY_HEAD = "534c4f4702000000{}00000000000000" + APPEND_ID + PREVIOUS
LEVEL_ENTRY = ENTRY_HEAD.format("13") + f"4a393e9a 91 94 5b 02 a5302e312e30 {RAISED_MS}"
LATER_ENTRY = ENTRY_HEAD.format("18") + f"e5069761 91 95 5b 03 a5302e322e30 {RAISED_MS} a46d6f7265"
"""Level 3, by a program that writes a further field."""

CONTENTS = (
    "53494d4701000000180000000000000000000000000000002a000000000000009d637dff 960100000001c410" + APPEND_ID
)
LEVEL_CHUNK = (
    "53494d4701000000150000000000000001000000000000002a000000000000005de0e55d"
    f"92 5b 91 94 02 a5302e312e30 {RAISED_MS} 11"
)
LATER_CHUNK = (
    "53494d47010000001a0000000000000001000000000000002a0000000000000095f913c7"
    f"92 5b 91 95 03 a5302e322e30 {RAISED_MS} 11 a46d6f7265"
)
UNKNOWN_CHUNK = "53494d4701000000040000000000000002000000000000002a00000000000000c9cab09a 92cc8c90"
"""A part of a later program."""


def test_log_entry_with_a_level() -> None:
    entry = LogEntry(APPEND_ID, LEVELS, PREVIOUS)
    assert encode_entry(entry) == bytes.fromhex(LEVEL_ENTRY)
    assert decode_entry(bytes.fromhex(LEVEL_ENTRY)) == entry


def test_snapshot_with_a_level() -> None:
    image = MetadataImage(
        version=42, append_id=APPEND_ID, level=StoreLevel(2, "0.1.0", 1_700_000_000_000, 17)
    )
    chunks = [bytes.fromhex(CONTENTS), bytes.fromhex(LEVEL_CHUNK)]
    assert list(encode_snapshot(image)) == chunks
    assert decode_snapshot(42, chunks) == image


def test_a_store_that_was_never_raised_writes_the_bytes_of_before() -> None:
    assert len(list(encode_snapshot(MetadataImage(version=42)))) == 1


def test_op04_a_later_level_is_read_whatever_a_later_program_adds() -> None:
    (record,) = decode_entry(bytes.fromhex(LATER_ENTRY)).records
    assert record == LevelRaised(3, "0.2.0", 1_700_000_000_000)


def test_op04_a_snapshot_of_a_later_level_is_refused_by_its_level_and_not_by_its_parts() -> None:
    chunks = map(bytes.fromhex, (CONTENTS, LATER_CHUNK, UNKNOWN_CHUNK))
    with pytest.raises(LevelUnknown, match=r"the store has level 3, to which siltstone 0\.2\.0 raised it"):
        decode_snapshot(42, chunks)
