"""A partition's snapshot of version 1, made from the layout table by hand-written code with a checksum of its own."""

from pathlib import Path

from siltstone.object_formats.partition_snapshot import (
    PartitionSnapshot,
    ProducerEntry,
    SequencedBatch,
    SnapshotBody,
    TimeEntry,
    TimeIndexState,
    decode_snapshot,
)

GOLDEN = bytes.fromhex((Path(__file__).parent / "golden" / "partition_snapshot_v1.hex").read_text())
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
    ),
)


def test_it_is_read():
    assert decode_snapshot(GOLDEN) == SNAPSHOT
    assert SNAPSHOT.body.active is None
