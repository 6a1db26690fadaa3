import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.foundation.crc32c import crc32c
from siltstone.model.segments import ActiveSegment, ClosedSegment
from siltstone.object_formats.partition_snapshot import (
    AbortedPage,
    AbortedTransaction,
    DamagedSnapshot,
    PartitionSnapshot,
    ProducerEntry,
    SequencedBatch,
    SnapshotBody,
    TimeEntry,
    TimeIndexState,
    decode_snapshot,
    encode_snapshot,
    pack_aborted,
    with_pages,
)
from support.values.examples import examples

INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
batches = st.builds(SequencedBatch, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), OFFSETS, INT64)
plain_entries = st.builds(
    ProducerEntry, OFFSETS, st.integers(-1, 2**15 - 1), INT64, st.lists(batches, max_size=5).map(tuple)
)
transactional_entries = st.builds(
    ProducerEntry,
    OFFSETS,
    st.integers(-1, 2**15 - 1),
    INT64,
    st.lists(batches, max_size=5).map(tuple),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
)
entries = plain_entries | transactional_entries
aborted = st.lists(st.builds(AbortedTransaction, OFFSETS, OFFSETS, OFFSETS), max_size=4).map(pack_aborted)
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
    aborted,
    st.lists(st.builds(AbortedPage, OFFSETS, OFFSETS), max_size=3).map(tuple),
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


OPEN = encode_snapshot(
    PartitionSnapshot(
        77,
        SnapshotBody((ProducerEntry(1, 0, 5, (), 2, 60, 7),), SNAPSHOT.body.times, aborted=bytes(24)),
    )
)
WITH_PAGES = encode_snapshot(
    PartitionSnapshot(
        77,
        SnapshotBody(
            (), SNAPSHOT.body.times, aborted=bytes(24), pages=(AbortedPage(3, 40), AbortedPage(7, 60))
        ),
    )
)


def test_a_snapshot_is_read_with_its_pages():
    snapshot = decode_snapshot(WITH_PAGES)
    older = [AbortedTransaction(1, 30, 40), AbortedTransaction(2, 50, 60)]
    whole = with_pages(snapshot, [pack_aborted(older[:1]), pack_aborted(older[1:])])
    assert whole.body.aborted_transactions() == [*older, AbortedTransaction(0, 0, 0)]
    assert whole.body.pages == snapshot.body.pages == (AbortedPage(3, 40), AbortedPage(7, 60))


def test_a_page_before_the_start_of_the_meta_stream_is_not_needed():
    body = decode_snapshot(WITH_PAGES).body
    assert [page.meta_offset for page in body.pages_from(3)] == [3, 7]
    assert [page.meta_offset for page in body.pages_from(4)] == [7]


@pytest.mark.parametrize("payload", [PAYLOAD, OPEN, WITH_PAGES], ids=["SPS2", "SPS3", "SPS4"])
def test_truncated(payload):
    for length in range(len(payload)):
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(payload[:length])


@pytest.mark.parametrize("payload", [PAYLOAD, OPEN, WITH_PAGES], ids=["SPS2", "SPS3", "SPS4"])
def test_flipped(payload):
    for position in range(len(payload)):
        damaged = bytearray(payload)
        damaged[position] ^= 0x40
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(damaged)


def test_half_of_an_aborted_transaction_is_damage():
    body = SnapshotBody((), SNAPSHOT.body.times, aborted=bytes(23))
    with pytest.raises(DamagedSnapshot, match="23 bytes"):
        decode_snapshot(encode_snapshot(PartitionSnapshot(77, body)))


def test_too_long():
    with pytest.raises(DamagedSnapshot, match="CRC-32C"):
        decode_snapshot(PAYLOAD + b"\0")


def test_another_version():
    with pytest.raises(DamagedSnapshot, match="begins with b'SPS6'"):
        decode_snapshot(b"SPS6" + PAYLOAD[4:])


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
