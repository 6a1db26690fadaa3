"""A partition's snapshot of version 2: that of version 1, made by hand, with what is said of segments put behind it."""

from pathlib import Path

from siltstone.model.segments import ActiveSegment, ClosedSegment
from siltstone.object_formats.partition_snapshot import (
    PartitionSnapshot,
    ProducerEntry,
    SequencedBatch,
    SnapshotBody,
    TimeEntry,
    TimeIndexState,
    decode_snapshot,
    encode_snapshot,
)

GOLDEN = bytes.fromhex((Path(__file__).parent / "golden" / "partition_snapshot_v2.hex").read_text())
BATCHES = (SequencedBatch(2**31 - 2, 0, 100, -1), SequencedBatch(1, 2, 103, 1_700_000_000_000))
SNAPSHOT = PartitionSnapshot(
    next_offset=2**33,
    body=SnapshotBody(
        producers=(ProducerEntry(9, 3, 1_700_000_000_000, BATCHES),),
        times=TimeIndexState(
            entries=(TimeEntry(1_000, 50), TimeEntry(2_000, 90)),
            newest=TimeEntry(2_000, 80),
            interval_bytes=1_048_576,
            bytes_since_entry=77,
        ),
        active=ActiveSegment(2**33 - 5, 2**33, 700, 2, 2_000, 1_700_000_000_001),
        unwritten=(ClosedSegment(90, 2**33 - 5, 2**40, 3, -1, 1_700_000_000_000, 1_700_000_000_001),),
    ),
)


def test_it_is_read():
    assert decode_snapshot(GOLDEN) == SNAPSHOT


def test_it_is_written_again():
    assert encode_snapshot(SNAPSHOT) == GOLDEN
