import asyncio
import logging

import pytest

from siltstone.object_formats.log_file import WalRecord
from siltstone.stream_engine.recovery import RecoveryFilter, recovered_blocks
from support.engine.batches import batch

FULL = 10**9


def record(one, end_position=0):
    return WalRecord(0, 0, end_position, one)


def blocks_of(segments, ends, bytes_max=FULL, streams_max=FULL):
    async def read():
        for segment in segments:
            yield segment

    async def main():
        wanted = RecoveryFilter(ends)
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


def test_a_hole_is_reported_loudly(caplog):
    with caplog.at_level(logging.WARNING):
        _, wanted = blocks_of([[record(batch(233, at)) for at in (10, 11)]], {233: 5})
    assert wanted.records_after_a_hole == 2
    assert "stream 233" in caplog.text and "data is lost" in caplog.text


def test_a_record_larger_than_a_block_is_a_block_of_its_own():
    blocks, _ = blocks_of([[record(batch(1, at, 1, 500)) for at in range(3)]], {1: 0}, bytes_max=100)
    assert [offsets(block) for block in blocks] == [{1: [0]}, {1: [1]}, {1: [2]}]


def test_a_batch_that_a_trim_points_into_is_wanted_whole():
    """Trimmed to 100 before anything was committed: the end moved to 100, and [90, 110) was acknowledged."""
    log = [batch(1, 80, 10), batch(1, 90, 20), batch(1, 110, 5)]
    blocks, wanted = blocks_of([[record(one) for one in log]], {1: 100})
    assert offsets(blocks[0]) == {1: [90, 110]}
    assert wanted.records_skipped == 1


def test_a_block_holds_no_more_streams_than_a_commit_may_name():
    log = [record(batch(stream_id, 0)) for stream_id in range(5)] + [record(batch(4, 1))]
    blocks, _ = blocks_of([log], dict.fromkeys(range(5), 0), streams_max=2)
    assert [offsets(block) for block in blocks] == [{0: [0], 1: [0]}, {2: [0], 3: [0]}, {4: [0, 1]}]


def test_records_of_several_segments_share_a_block():
    segments = [[record(batch(1, 0), 100)], [], [record(batch(1, 1), 200)]]
    blocks, _ = blocks_of(segments, {1: 0})
    assert offsets(blocks[0]) == {1: [0, 1]}
    assert blocks[0].end_position == 200
