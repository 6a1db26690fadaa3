"""What the first scan tells the second."""

import pytest

from siltstone.maintenance.key_compaction.kernels import plain
from siltstone.maintenance.key_compaction.passes.first_scan import Learned, learn
from siltstone.maintenance.key_compaction.passes.source_blocks import Scanner, SourceBlocks
from siltstone.maintenance.key_compaction.passes.time_limit import TimeLimit
from siltstone.runtime.clock import ManualClock
from support.maintenance.compacted_stream import CompactedStream, in_batches, numbered_keys


def learned(stream: CompactedStream) -> Learned:
    unit = stream.unit()
    blocks = SourceBlocks(unit, lambda _: stream.store)
    return learn(unit, Scanner(unit.stream_id, unit.hash_key, blocks, plain), TimeLimit(ManualClock(), 0))


@pytest.mark.parametrize("batches", [1, 2, 50], ids=["one batch", "one block", "many blocks"])
def test_g17_the_last_batch_is_that_of_the_last_block_of_the_last_object(batches: int) -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(3 * batches, 2), 3)
    stream.close_object()
    in_batches(stream, numbered_keys(3 * batches, 2), 3)
    assert learned(stream).last_batch == stream.end_offset - 3
