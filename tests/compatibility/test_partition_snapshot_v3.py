"""A partition's snapshot of version 3: that of version 2, made by hand, and what is said of transactions."""

from pathlib import Path

import msgspec

from siltstone.model.segments import ActiveSegment, ClosedSegment
from siltstone.object_formats.partition_snapshot import (
    AbortedTransaction,
    PartitionSnapshot,
    ProducerEntry,
    SequencedBatch,
    SnapshotBody,
    TimeEntry,
    TimeIndexState,
    decode_snapshot,
    encode_snapshot,
    pack_aborted,
)

FOLDER = Path(__file__).parent / "golden"
GOLDEN = bytes.fromhex((FOLDER / "partition_snapshot_v3.hex").read_text())
GOLDEN_V2 = bytes.fromhex((FOLDER / "partition_snapshot_v2.hex").read_text())
BATCHES = (SequencedBatch(2**31 - 2, 0, 100, -1), SequencedBatch(1, 2, 103, 1_700_000_000_000))
ABORTED = [AbortedTransaction(9, 50, 60), AbortedTransaction(11, 2**33 - 9, 2**33 - 4)]
SNAPSHOT = PartitionSnapshot(
    next_offset=2**33,
    body=SnapshotBody(
        producers=(ProducerEntry(9, 3, 1_700_000_000_000, BATCHES, 4, 2**33 - 3, 1_700_000_000_002),),
        times=TimeIndexState(
            entries=(TimeEntry(1_000, 50), TimeEntry(2_000, 90)),
            newest=TimeEntry(2_000, 80),
            interval_bytes=1_048_576,
            bytes_since_entry=77,
        ),
        active=ActiveSegment(2**33 - 5, 2**33, 700, 2, 2_000, 1_700_000_000_001),
        unwritten=(ClosedSegment(90, 2**33 - 5, 2**40, 3, -1, 1_700_000_000_000, 1_700_000_000_001),),
        aborted=pack_aborted(ABORTED),
    ),
)


def test_it_is_read() -> None:
    assert decode_snapshot(GOLDEN) == SNAPSHOT
    assert decode_snapshot(GOLDEN).body.aborted_transactions() == ABORTED


def test_it_is_written_again() -> None:
    assert encode_snapshot(SNAPSHOT) == GOLDEN


def test_tp21_version_2_is_read_and_has_no_transactions() -> None:
    body = decode_snapshot(GOLDEN_V2).body
    assert not body.has_transactions and body.aborted_transactions() == []


def test_without_transactions_version_2_is_written_for_older_brokers() -> None:
    (entry,) = SNAPSHOT.body.producers
    plain = msgspec.structs.replace(entry, coordinator_epoch=-1, open_from=-1, open_number=-1)
    body = msgspec.structs.replace(SNAPSHOT.body, producers=(plain,), aborted=b"")
    assert encode_snapshot(PartitionSnapshot(2**33, body)) == GOLDEN_V2
