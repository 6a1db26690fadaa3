from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.metadata.applying import _APPLIERS
from siltstone.metadata.log_entry import (
    ENTRY_MAGIC,
    FRAME_HEADER_BYTES,
    NO_APPEND_ID,
    EntryLink,
    FrameDamaged,
    FrameOverlong,
    FrameTruncated,
    FrameVersionUnknown,
    LogEntry,
    LogForked,
    LogPosition,
    RecordUnknown,
    decode_entry,
    encode_entry,
    link_of,
    next_position,
    refuse_fork,
    seal,
    unseal,
)
from siltstone.metadata.records import Record
from siltstone.model.errors import CorruptData
from support.metadata.metadata_records import ONE_OF_EACH

APPEND_ID = "00112233445566778899aabbccddeeff"
PREVIOUS = "ff" * 16
ENTRY = LogEntry(APPEND_ID, ONE_OF_EACH, PREVIOUS)


def test_round_trip_of_every_kind() -> None:
    assert {type(record) for record in ONE_OF_EACH} == set(get_args(Record)) == set(_APPLIERS)
    assert decode_entry(encode_entry(ENTRY)) == ENTRY
    assert link_of(encode_entry(ENTRY)) == ENTRY.link == EntryLink(APPEND_ID, PREVIOUS)


def test_an_entry_older_than_the_chain_counts_as_if_it_had_no_append_id() -> None:
    older = LogEntry(APPEND_ID, ONE_OF_EACH, previous=None)
    assert decode_entry(encode_entry(older)) == older
    assert link_of(encode_entry(older)) == older.link == EntryLink(NO_APPEND_ID, None)


def test_each_entry_follows_the_one_before_it() -> None:
    assert next_position(LogPosition(), EntryLink("aa" * 16, NO_APPEND_ID)) == LogPosition(1, "aa" * 16)
    assert next_position(LogPosition(1, "aa" * 16), EntryLink("bb" * 16, "aa" * 16)) == LogPosition(
        2, "bb" * 16
    )


def test_the_chain_begins_after_entries_that_are_older_than_it() -> None:
    older = next_position(LogPosition(4), EntryLink(NO_APPEND_ID, None))
    assert older == LogPosition(5)
    assert next_position(older, EntryLink("aa" * 16, NO_APPEND_ID)) == LogPosition(6, "aa" * 16)


@pytest.mark.parametrize(
    ("position", "link"),
    [
        pytest.param(
            LogPosition(5, "aa" * 16), EntryLink("bb" * 16, "cc" * 16), id="another entry before it"
        ),
        pytest.param(
            LogPosition(5, "aa" * 16), EntryLink("bb" * 16, NO_APPEND_ID), id="the chain begins again"
        ),
        pytest.param(LogPosition(5, "aa" * 16), EntryLink(NO_APPEND_ID, None), id="the chain is left"),
        pytest.param(LogPosition(5), EntryLink("bb" * 16, "cc" * 16), id="it began elsewhere"),
    ],
)
def test_p09_an_entry_that_follows_another_is_a_fork_and_the_text_says_what_to_restore(
    position, link
) -> None:
    with pytest.raises(
        LogForked, match=f"entry 6 .* delete nothing, .* entry 5 has append id {position.append_id}"
    ):
        next_position(position, link)


def test_another_entry_at_the_same_version_is_a_fork() -> None:
    position = LogPosition(5, "aa" * 16)
    for head in (position, LogPosition(6, "bb" * 16), LogPosition(4, "bb" * 16)):
        refuse_fork(head, position)
    with pytest.raises(LogForked, match=r"entry 5 .* another one"):
        refuse_fork(LogPosition(5, "bb" * 16), position)


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


MAGIC, LABEL = b"TEST", bytes(range(16))
LABELS = st.sampled_from([LABEL, bytes(range(32))])
"""Of both formats."""


@given(st.binary(max_size=200), st.binary(min_size=16, max_size=16) | st.binary(min_size=32, max_size=32))
def test_round_trip(body, label) -> None:
    assert unseal(MAGIC, seal(MAGIC, label, body), newest=2) == (label, body)


@given(st.binary(max_size=40), LABELS, st.data())
def test_every_truncation_is_named(body, label, data) -> None:
    frame = seal(MAGIC, label, body)
    kept = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(FrameTruncated):
        unseal(MAGIC, frame[:kept], newest=2)


@given(st.binary(max_size=40), LABELS, st.binary(min_size=1, max_size=5))
def test_bytes_after_the_end_are_named(body, label, more) -> None:
    with pytest.raises(FrameOverlong):
        unseal(MAGIC, seal(MAGIC, label, body) + more, newest=2)


@given(st.binary(max_size=40), LABELS, st.data())
def test_rule_8_every_flipped_bit_is_found(body, label, data) -> None:
    frame = bytearray(seal(MAGIC, label, body))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptData):
        unseal(MAGIC, bytes(frame), newest=2)


def test_another_kind_and_another_version() -> None:
    frame = bytearray(seal(MAGIC, LABEL, b"body"))
    with pytest.raises(FrameDamaged, match="magic"):
        unseal(b"ELSE", bytes(frame))
    frame[4] = 2
    with pytest.raises(FrameVersionUnknown, match="format 2"):
        unseal(MAGIC, bytes(frame))
    assert len(frame) == FRAME_HEADER_BYTES + 4
