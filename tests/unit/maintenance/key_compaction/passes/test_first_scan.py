"""The results of the first scan, which the second one uses."""

import pytest

from siltstone.kafka_protocol.records.control import Outcome
from siltstone.maintenance.key_compaction.passes.first_scan import Learned, learn
from siltstone.maintenance.key_compaction.passes.time_limit import PassTimeLimit
from siltstone.maintenance.record_rewriting.source_blocks import Scanner, SourceBlocks
from siltstone.object_store.copies import Copies
from siltstone.record_columns.kernels import plain
from siltstone.runtime.clock import ManualClock
from support.maintenance.compacted_stream import CompactedStream, in_batches, numbered_keys


def learned(stream: CompactedStream, **changes: int) -> Learned:
    unit = stream.unit(**changes)
    blocks = SourceBlocks(unit, lambda _: Copies([(0, stream.store)]))
    return learn(unit, Scanner(unit.stream_id, unit.hash_key, blocks, plain), PassTimeLimit(ManualClock(), 0))


@pytest.mark.parametrize("batches", [1, 2, 50], ids=["one batch", "one block", "many blocks"])
def test_g17_the_last_batch_is_that_of_the_last_block_of_the_last_object(batches: int) -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(3 * batches, 2), 3)
    stream.close_object()
    in_batches(stream, numbered_keys(3 * batches, 2), 3)
    assert learned(stream).last_batch == stream.end_offset - 3


def test_a_marker_that_is_all_that_is_left_of_its_producer_stays() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"))
    marker = stream.end_transaction(4, Outcome.COMMIT)
    assert learned(stream).batches_that_stay == {marker}


def test_of_each_producer_the_last_batch_of_a_transaction_or_of_none_stays() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), producer_id=1, producer_epoch=0, base_sequence=0)
    last_of_1 = stream.add(("a", "2"), producer_id=1, producer_epoch=0, base_sequence=1)
    stream.add_transactional(2, ("b", "1"))
    last_of_2 = stream.add_transactional(2, ("b", "2"))
    stream.end_transaction(2, Outcome.ABORT)
    open_since = stream.add_transactional(3, ("c", "1"))
    found = learned(stream)
    assert found.batches_that_stay == {last_of_1, last_of_2, open_since}
    assert (found.mapped_bound, found.map_was_full) == (open_since, False)


@pytest.mark.parametrize(
    ("dirty_offset", "bound", "newest"),
    [(0, 4, [0, 1, 2, 3]), (0, 3, [0, 1, 2]), (0, 2, [0, 1]), (1, 3, [1, 2]), (2, 3, [2]), (3, 4, [3])],
)
def test_the_keys_from_the_dirty_offset_to_the_bound_are_mapped_also_within_a_batch(
    dirty_offset: int, bound: int, newest: list[int]
) -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"))
    found = learned(stream, dirty_offset=dirty_offset, bound=bound)
    flags = found.newest.newest_in(0, 4)
    assert [offset for offset in range(4) if flags is not None and flags[offset]] == newest
