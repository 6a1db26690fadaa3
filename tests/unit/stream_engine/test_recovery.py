import asyncio

import pytest
from msgspec.structs import replace

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata import streams
from siltstone.metadata.image import MetadataImage
from siltstone.object_formats.log_file import WalRecord
from siltstone.stream_engine.record_fates import Fate
from siltstone.stream_engine.recovery import RecordsFitNowhere, RecoveryFilter, recovered_blocks
from support.engine.batches import batch

FULL = 10**9
NODE = 0


def image_of(ends, start_offsets=()):
    """Streams that the node has open under epoch 0, and has committed up to these ends."""
    starts = dict(start_offsets)
    opened = {
        stream_id: streams.trimmed(
            streams.advanced(streams.opened(streams.created(stream_id, {}), 0, NODE), end),
            starts.get(stream_id, 0),
        )
        for stream_id, end in ends.items()
    }
    draft = ShardedMap().draft()
    for stream_id, stream in opened.items():
        draft[stream_id] = stream
    return replace(MetadataImage(), version=7, next_stream_id=1_000, streams=draft.frozen())


def record(one, end_position=0):
    return WalRecord(0, 0, end_position, one)


def blocks_of(segments, ends, bytes_max=FULL, streams_max=FULL):
    async def read():
        for segment in segments:
            yield segment

    async def main():
        wanted = RecoveryFilter(image_of(ends), NODE)
        return [block async for block in recovered_blocks(read(), wanted, bytes_max, streams_max)], wanted

    return asyncio.run(main())


def offsets(block):
    return {
        stream_id: [one.batch.base_offset for one in batches] for stream_id, batches in block.streams.items()
    }


@pytest.mark.parametrize(
    ("log", "ends", "accepted"),
    [
        ([(233, 10), (233, 11), (233, 12), (233, 15), (234, 20)], {233: 11}, {233: [11, 12]}),
        ([(233, 10), (233, 11), (233, 12)], {233: 5}, {}),
        ([(42, at) for at in (9, 10, 13, 11, 12, 14, 20)], {42: 10}, {42: [10, 11, 12]}),
    ],
)
def test_t19_wal_recovery_records(log, ends, accepted):
    blocks, _ = blocks_of([[record(batch(stream_id, offset)) for stream_id, offset in log]], ends)
    found: dict[int, list[int]] = {}
    for block in blocks:
        found |= offsets(block)
    assert found == accepted


def test_t19_wal_recovery_records_cut_into_blocks():
    """The table's blocks end behind the record that passes the limit; ours before it, so that the limit holds."""
    segment = [record(batch(42, at, 1, 1025), at) for at in range(10, 15)]
    blocks, _ = blocks_of([segment], {42: 10}, bytes_max=2 * (1025 + 72))
    assert [offsets(block) for block in blocks] == [{42: [10, 11]}, {42: [12, 13]}, {42: [14]}]
    assert [block.end_position for block in blocks] == [11, 13, 14]
    assert all(block.size_bytes <= 2 * (1025 + 72) for block in blocks)


def test_t19_wal_recovery_records_with_a_range_beyond_32_bits():
    log = [batch(42, 0, 1, 100, offsets=2**31 - 1), batch(42, 2**31 - 1), batch(42, 2**31)]
    blocks, _ = blocks_of([[record(one) for one in log]], {42: 0})
    assert [offsets(block) for block in blocks] == [{42: [0, 2**31 - 1, 2**31]}]


def test_rule_13_a_hole_is_refused_with_the_first_record_after_it():
    _, wanted = blocks_of([[record(batch(233, at, 3)) for at in (10, 13)]], {233: 5})
    assert wanted.counts == {Fate.AFTER_A_HOLE: 2}
    with pytest.raises(RecordsFitNowhere) as refused:
        wanted.refuse_misfits()
    misfit = refused.value
    assert (misfit.stream_id, misfit.base_offset, misfit.end_offset, misfit.version) == (233, 10, 13, 7)
    assert str(misfit) == (
        "2 batches in the write-ahead log fit nowhere in the metadata, which is at version 7: the first has the "
        "offsets 10 to 12 of stream 233, appended under its epoch 0, and that stream is committed and recovered up to "
        "offset 5: part of the log is missing, or the metadata is an older copy. Nothing is deleted. Restore the "
        "newest copy of the metadata, and the whole log beside it"
    )


def test_a_log_that_was_given_up_is_replayed_as_far_as_it_fits():
    wanted = RecoveryFilter(image_of({1: 5}), NODE, is_given_up=True)
    assert [wanted.accepts(batch(1, at)) for at in (4, 5, 9)] == [False, True, False]
    wanted.refuse_misfits()
    assert (wanted.records_skipped, wanted.records_refused) == (1, 1)


def test_a_record_larger_than_a_block_is_a_block_of_its_own():
    blocks, _ = blocks_of([[record(batch(1, at, 1, 500)) for at in range(3)]], {1: 0}, bytes_max=100)
    assert [offsets(block) for block in blocks] == [{1: [0]}, {1: [1]}, {1: [2]}]


def test_a_batch_that_a_trim_points_into_is_wanted_whole():
    """Trimmed to 100 before anything was committed: the end moved to 100, and [90, 110) was acknowledged."""
    log = [batch(1, 80, 10), batch(1, 90, 20), batch(1, 110, 5)]
    wanted = RecoveryFilter(image_of({1: 0}, {1: 100}), NODE)
    assert [wanted.accepts(one) for one in log] == [False, True, True]
    assert wanted.counts == {Fate.TRIMMED: 1, Fate.REPLAYED: 2}


def test_a_block_holds_no_more_streams_than_a_commit_may_name():
    log = [record(batch(stream_id, 0)) for stream_id in range(5)] + [record(batch(4, 1))]
    blocks, _ = blocks_of([log], dict.fromkeys(range(5), 0), streams_max=2)
    assert [offsets(block) for block in blocks] == [{0: [0], 1: [0]}, {2: [0], 3: [0]}, {4: [0, 1]}]


def test_records_of_several_segments_share_a_block():
    segments = [[record(batch(1, 0), 100)], [], [record(batch(1, 1), 200)]]
    blocks, _ = blocks_of(segments, {1: 0})
    assert offsets(blocks[0]) == {1: [0, 1]}
    assert blocks[0].end_position == 200
