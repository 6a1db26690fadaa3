import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.partitions.producer_state import ProducerEntry, SequencedBatch
from siltstone.broker.partitions.snapshot import (
    DamagedSnapshot,
    PartitionSnapshot,
    SnapshotBody,
    decode_snapshot,
    encode_snapshot,
)
from siltstone.broker.partitions.time_index import TimeEntry, TimeIndexState
from siltstone.foundation.crc32c import crc32c
from siltstone.model.segments import ActiveSegment, ClosedSegment
from support.values.examples import examples

INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
batches = st.builds(SequencedBatch, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), OFFSETS, INT64)
entries = st.builds(
    ProducerEntry, OFFSETS, st.integers(-1, 2**15 - 1), INT64, st.lists(batches, max_size=5).map(tuple)
)
times = st.builds(
    TimeIndexState,
    st.lists(st.builds(TimeEntry, INT64, OFFSETS), max_size=5).map(tuple),
    st.builds(TimeEntry, INT64, st.integers(-1, 2**63 - 1)),
    OFFSETS,
    OFFSETS,
)
actives = st.builds(ActiveSegment, OFFSETS, OFFSETS, OFFSETS, OFFSETS, INT64, INT64)
closed = st.builds(ClosedSegment, OFFSETS, OFFSETS, OFFSETS, OFFSETS, INT64, INT64, INT64)
bodies = st.builds(
    SnapshotBody,
    st.lists(entries, max_size=4).map(tuple),
    times,
    st.none() | actives,
    st.lists(closed, max_size=3).map(tuple),
)
snapshots = st.builds(PartitionSnapshot, OFFSETS, bodies)
SNAPSHOT = PartitionSnapshot(
    77,
    SnapshotBody(
        (ProducerEntry(1, 0, 5, (SequencedBatch(0, 9, 60, -1),)),),
        TimeIndexState((TimeEntry(4, 50),), TimeEntry(9, 70), 1024, 3),
        ActiveSegment(60, 77, 300, 2, 9, 5),
        (ClosedSegment(40, 60, 900, 4, 8, 3, 5),),
    ),
)
PAYLOAD = encode_snapshot(SNAPSHOT)


@settings(max_examples=examples(100))
@given(snapshots)
def test_what_is_written_is_read(snapshot):
    assert decode_snapshot(memoryview(encode_snapshot(snapshot))) == snapshot


def test_truncated():
    for length in range(len(PAYLOAD)):
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(PAYLOAD[:length])


def test_flipped():
    for position in range(len(PAYLOAD)):
        damaged = bytearray(PAYLOAD)
        damaged[position] ^= 0x40
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(damaged)


def test_too_long():
    with pytest.raises(DamagedSnapshot, match="CRC-32C"):
        decode_snapshot(PAYLOAD + b"\0")


def test_another_version():
    with pytest.raises(DamagedSnapshot, match="begins with b'SPS3'"):
        decode_snapshot(b"SPS3" + PAYLOAD[4:])


@pytest.mark.parametrize("body", [b"", b"\x91\x90", b"\xc0", b"\x92\x90\x90\x90", b"no messagepack"])
def test_a_body_that_is_none_with_a_crc_that_holds(body):
    checked = PAYLOAD[8:16] + body
    payload = PAYLOAD[:4] + crc32c((checked,)).to_bytes(4, "little") + checked
    with pytest.raises(DamagedSnapshot, match="cannot be read"):
        decode_snapshot(payload)


def test_an_index_written_before_it_had_all_its_fields_is_read():
    """Version 1 of the snapshot: it knew of no segments."""
    body = b"\x92\x90" + b"\x93\x90\x92\x09\x05\x07"  # no producers; no entries, newest (9, 5), every 7 bytes
    checked = PAYLOAD[8:16] + body
    payload = b"SPS1" + crc32c((checked,)).to_bytes(4, "little") + checked
    assert decode_snapshot(payload).body == SnapshotBody((), TimeIndexState((), TimeEntry(9, 5), 7, 0))
