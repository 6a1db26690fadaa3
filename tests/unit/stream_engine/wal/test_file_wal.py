import asyncio
import errno
import gc
import os
import shutil

import pytest

from siltstone.object_formats.log_file import RECORD_OVERHEAD_BYTES
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.settings import InvalidSetting, WalSettings, WalSync
from siltstone.stream_engine.tail.cache_block import CachedBatch
from siltstone.stream_engine.wal.port import WalInUse, WalOfAnotherNode, WalWriteFailed
from support.engine.batches import batch
from support.engine.wal_disk import put_disk_in
from support.engine.wal_node import SETTINGS, WalNode, recovered, recovered_offsets, settled
from support.scenarios import in_loop

RECORD_BYTES = RECORD_OVERHEAD_BYTES + 100


class WatchedOs:
    """The ``os`` of segment files, with a list of what they did and a way to make them fail."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fail: dict[str, int] = {}
        self.write_bytes_max = 2**30

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def _did(self, name: str) -> None:
        if name in self.fail:
            raise OSError(self.fail[name], os.strerror(self.fail[name]))
        self.done.append(name)

    def pwritev(self, descriptor, buffers, at):
        self._did("write")
        whole = b"".join(buffers)
        return os.pwritev(descriptor, [whole[: self.write_bytes_max]], at)

    def fdatasync(self, descriptor):
        self._did("sync")
        os.fdatasync(descriptor)

    def posix_fallocate(self, descriptor, offset, size):
        self._did("reserve")
        os.posix_fallocate(descriptor, offset, size)


@pytest.fixture
def disk(monkeypatch):
    watched = WatchedOs()
    put_disk_in(monkeypatch, watched)
    return watched


def crash_copy(folder, name):
    return shutil.copytree(folder, folder.parent / name)


@in_loop
async def test_what_was_answered_is_there_in_the_next_life(tmp_path) -> None:
    node = await WalNode(tmp_path / "wal").start()
    sent = [batch(1 + offset % 3, offset, 1, 200) for offset in range(60)]
    for one in sent:
        await node.until_durable(node.wal.append(one, 0).end_position)
    found = await recovered(crash_copy(tmp_path / "wal", "crash"))
    assert found == sent
    await node.wal.close()
    assert await recovered(tmp_path / "wal") == sent


def test_the_frame_header_for_the_upload_is_the_one_in_the_log(tmp_path):
    from siltstone.object_formats.batch_frame import encode_frame_header

    async def main():
        node = await WalNode(tmp_path).start()
        one = batch(5, 9, 2, 30)
        queued = node.wal.append(one, 0)
        assert bytes(queued.frame_header) == encode_frame_header(one)
        assert queued.end_position == RECORD_OVERHEAD_BYTES + 30
        await node.wal.close()

    asyncio.run(main())


@in_loop
async def test_the_garbage_collector_scans_nothing_of_a_batch_in_the_tail_cache(tmp_path) -> None:
    node = await WalNode(tmp_path).start()
    one = batch(5, 9, 2, 30)
    queued = node.wal.append(one, 0)
    kept = (queued, one, one.payload, queued.frame_header, CachedBatch(one, queued.frame_header))
    assert not any(map(gc.is_tracked, kept))
    await node.wal.close()


@in_loop
async def test_appends_of_one_turn_share_one_write_and_one_sync(tmp_path, disk) -> None:
    node = await WalNode(tmp_path).start()
    for offset in range(8):
        node.append(offset)
    assert disk.done == []
    await settled()
    assert node.heard.durable == [8 * RECORD_BYTES]
    assert disk.done == [
        "reserve",
        "sync",
        "write",
        "sync",
        "write",
        "sync",
    ]  # the header of the segment, the group
    await node.wal.close()


@in_loop
async def test_the_header_of_a_segment_is_synced_before_its_first_record_is_written(tmp_path, disk) -> None:
    """Else a power failure may keep new records under the old header of a segment used again: 'damage'."""
    node = await WalNode(tmp_path).start()
    await node.append_durably(0)
    assert disk.done.index("sync") < [i for i, did in enumerate(disk.done) if did == "write"][1]
    await node.wal.close()


@in_loop
async def test_a_group_takes_whole_records_up_to_its_limit(tmp_path) -> None:
    node = await WalNode(tmp_path).start()
    per_group = SETTINGS.group_bytes_max // RECORD_BYTES
    for offset in range(2 * per_group + 1):
        node.append(offset)
    await settled()
    assert node.heard.durable == [
        per_group * RECORD_BYTES,
        2 * per_group * RECORD_BYTES,
        (2 * per_group + 1) * RECORD_BYTES,
    ]
    await node.wal.close()


def test_appends_that_arrive_while_a_group_is_written_form_the_next(tmp_path):
    async def main():
        calls = ThreadedCalls("wal-test", 1)
        node = await WalNode(tmp_path, calls=calls).start()
        node.append(0)
        await asyncio.sleep(0)  # the first is on its way now
        for offset in range(1, 6):
            node.append(offset)
        await node.until_durable(6 * RECORD_BYTES)
        assert node.heard.durable == [RECORD_BYTES, 6 * RECORD_BYTES]
        await node.wal.close()
        calls.close()

    asyncio.run(main())
    assert recovered_offsets(tmp_path) == list(range(6))


def test_many_writers_in_threads_share_syncs(tmp_path):
    async def main():
        calls = ThreadedCalls("wal-test", 2)
        node = await WalNode(tmp_path, WalSettings(), calls=calls).start()

        async def write(first):
            for offset in range(first, first + 10):
                await node.append_durably(offset)

        await asyncio.gather(*(write(10 * writer) for writer in range(16)))
        statistics = node.wal.statistics()
        assert statistics.appends == 160
        assert statistics.groups <= 40, "sixteen writers share a group"
        assert statistics.syncs == statistics.groups
        await node.wal.close()
        calls.close()

    asyncio.run(main())
    assert sorted(recovered_offsets(tmp_path)) == list(range(160))


def test_a_record_larger_than_a_segment_gets_a_segment_of_its_size(tmp_path):
    async def main():
        node = await WalNode(tmp_path).start()
        await node.append_durably(0)
        await node.append_durably(1, 10_000)
        await node.append_durably(2)
        await node.wal.close()

    asyncio.run(main())
    assert recovered_offsets(tmp_path) == [0, 1, 2]


def test_a_gather_list_longer_than_one_write_takes(tmp_path):
    async def main():
        settings = WalSettings(
            segment_bytes=1024 * 1024, capacity_bytes=2 * 1024 * 1024, group_bytes_max=2**20
        )
        node = await WalNode(tmp_path, settings).start()
        for offset in range(1500):  # 3,000 buffers
            position = node.append(offset, 10)
        await node.until_durable(position)
        assert node.wal.statistics().groups == 1
        await node.wal.close()

    asyncio.run(main())
    assert recovered_offsets(tmp_path) == list(range(1500))


def test_short_writes_are_continued(tmp_path, disk):
    disk.write_bytes_max = 37

    async def main():
        node = await WalNode(tmp_path).start()
        for offset in range(5):
            position = node.append(offset)
        await node.until_durable(position)
        await node.wal.close()

    asyncio.run(main())
    assert recovered_offsets(tmp_path) == list(range(5))


def test_close_waits_until_what_was_queued_is_durable(tmp_path):
    async def main():
        node = await WalNode(tmp_path).start()
        for offset in range(50):
            position = node.append(offset)
        await node.wal.close()
        assert node.heard.durable[-1] == position
        await node.wal.close()  # and again, to no effect

    asyncio.run(main())
    assert recovered_offsets(tmp_path) == list(range(50))


@in_loop
async def test_room_is_what_is_not_trimmed(tmp_path) -> None:
    node = await WalNode(tmp_path).start()
    fits = SETTINGS.capacity_bytes - RECORD_OVERHEAD_BYTES
    assert node.wal.has_room_for(fits)
    assert not node.wal.has_room_for(fits + 1)
    position = await node.append_durably(0)
    assert not node.wal.has_room_for(fits)
    assert node.wal.statistics().bytes_untrimmed == RECORD_BYTES
    await node.wal.trim(position)
    assert node.wal.has_room_for(fits)
    await node.wal.trim(0)
    assert node.wal.has_room_for(fits), "a trim never goes back"
    await node.wal.close()


def test_trimming_frees_whole_segments_below_the_position_and_no_other(tmp_path):
    async def main():
        node = await WalNode(tmp_path).start()
        ends = [await node.append_durably(offset, 1000) for offset in range(12)]  # three to a segment
        assert node.wal.statistics().segments == 4
        await node.wal.trim(ends[4])
        assert node.wal.statistics().segments == 3
        assert [one.base_offset for one in await recovered(crash_copy(tmp_path, "a"))] == list(range(3, 12))
        await node.wal.trim(ends[-1])
        assert node.wal.statistics().segments == 1, "the newest is still written to"
        await node.wal.close()

    tmp_path = tmp_path / "wal"
    asyncio.run(main())
    assert recovered_offsets(tmp_path) == [9, 10, 11]


@in_loop
async def test_segments_are_used_again_and_their_stale_records_are_never_seen(tmp_path) -> None:
    node = await WalNode(tmp_path / "wal").start()
    names = set()
    for offset in range(60):
        position = await node.append_durably(offset, 1000)
        await node.wal.trim(position)
        names |= {path.name for path in (tmp_path / "wal").glob("*.spare")}
        found = [one.base_offset for one in await recovered(crash_copy(tmp_path / "wal", f"{offset}"))]
        assert found == list(range(offset - offset % 3, offset + 1))
    assert names, "nothing was used again"
    assert len(list((tmp_path / "wal").iterdir())) < 10
    await node.wal.close()


def test_a_segment_that_cannot_be_freed_is_no_reason_to_stop(tmp_path, monkeypatch, caplog):
    from siltstone.stream_engine.wal.log_directory import LogDirectory

    def refuse(self, segment, **_):
        raise OSError(errno.EACCES, "no")

    async def main():
        node = await WalNode(tmp_path).start()
        ends = [await node.append_durably(offset, 1000) for offset in range(6)]
        monkeypatch.setattr(LogDirectory, "retire", refuse)
        await node.wal.trim(ends[-1])
        assert "could not be freed" in caplog.text
        await node.append_durably(6)
        await node.wal.close()

    asyncio.run(main())
    assert recovered_offsets(tmp_path)[-1] == 6


def test_a_new_life_begins_with_an_empty_log(tmp_path):
    async def main():
        node = await WalNode(tmp_path).start()
        for offset in range(20):
            await node.append_durably(offset, 1000)
        await node.wal.trim(9_000)
        await node.wal.close()
        node = await WalNode(tmp_path).start(node_epoch=2)
        await node.append_durably(100)
        await node.wal.close()

    asyncio.run(main())
    assert recovered_offsets(tmp_path) == [100]
    assert not list(tmp_path.glob("*.spare"))


def test_a_log_that_was_never_written_holds_nothing(tmp_path):
    assert recovered_offsets(tmp_path / "new") == []


@in_loop
async def test_a_log_in_use_is_refused(tmp_path) -> None:
    node = await WalNode(tmp_path).start()
    with pytest.raises(WalInUse, match="in use by another process"):
        WalNode(tmp_path)
    await node.wal.close()
    await WalNode(tmp_path).wal.close()


def test_the_log_of_another_node_is_refused(tmp_path):
    async def main():
        node = await WalNode(tmp_path, node_id=3).start()
        await node.append_durably(0)
        await node.wal.close()

    asyncio.run(main())
    with pytest.raises(WalOfAnotherNode, match="belongs to node 3, this is node 4"):
        recovered_offsets(tmp_path, node_id=4)


@pytest.mark.parametrize(
    ("step", "number"),
    [("write", errno.EIO), ("sync", errno.EIO), ("sync", errno.ENOSPC), ("reserve", errno.EIO)],
)
def test_a_disk_that_refuses_fails_the_log_once_and_confirms_nothing_more(tmp_path, disk, step, number):
    async def main():
        node = await WalNode(tmp_path).start()
        await node.append_durably(0, 3000)
        disk.fail[step] = number
        node.append(1, 3000)
        node.append(2)
        await settled()
        assert len(node.heard.failures) == 1
        assert isinstance(node.heard.failures[0], WalWriteFailed)
        assert os.strerror(number) in str(node.heard.failures[0])
        assert node.heard.durable == [RECORD_OVERHEAD_BYTES + 3000]
        disk.fail.clear()
        node.append(3)
        await settled()
        assert node.heard.durable == [RECORD_OVERHEAD_BYTES + 3000], "it stays failed"
        await node.wal.close()

    asyncio.run(main())
    assert recovered_offsets(tmp_path)[0] == 0


@in_loop
async def test_a_segment_that_cannot_be_made_leaves_no_open_file(tmp_path, disk) -> None:
    node = await WalNode(tmp_path).start()
    disk.fail["reserve"] = errno.ENOSPC
    before = len(os.listdir("/proc/self/fd"))
    node.append(0)
    await settled()
    assert len(os.listdir("/proc/self/fd")) == before
    await node.wal.close()


@in_loop
async def test_every_interval_syncs_at_intervals_also_when_nothing_is_appended_any_more(
    tmp_path, disk
) -> None:
    clock = ManualClock()
    settings = WalSettings(sync=WalSync.EVERY_INTERVAL, sync_interval_ms=50, segment_bytes=4096)
    node = await WalNode(tmp_path, settings, clock=clock).start()
    await node.append_durably(0)
    syncs = node.wal.statistics().syncs
    await node.append_durably(1)
    assert node.wal.statistics().syncs == syncs, "answered before it is synced"
    clock.advance_ms(50)
    await settled()
    assert node.wal.statistics().syncs == syncs + 1
    assert disk.done[-1] == "sync"
    clock.advance_ms(500)
    await settled()
    assert node.wal.statistics().syncs == syncs + 1, "nothing to sync"
    await node.append_durably(2)
    await node.append_durably(3)
    await node.wal.close()
    assert disk.done[-1] == "sync", "the end leaves nothing unsynced"


@in_loop
async def test_never_syncs_only_what_would_be_confirmed_wrongly_and_at_the_end(tmp_path, disk) -> None:
    settings = WalSettings(sync=WalSync.NEVER, segment_bytes=4096)
    node = await WalNode(tmp_path, settings).start()
    for offset in range(3):
        await node.append_durably(offset)
    assert node.wal.statistics().syncs == 0
    assert disk.done.count("sync") == 2  # the size and the header of the segment
    await node.wal.close()
    assert disk.done[-1] == "sync"


@in_loop
async def test_a_segment_is_synced_before_the_next_one_begins_when_groups_are_not(tmp_path, disk) -> None:
    settings = WalSettings(sync=WalSync.NEVER, segment_bytes=4096)
    node = await WalNode(tmp_path, settings).start()
    for offset in range(3):
        await node.append_durably(offset, 1000)
    done = len(disk.done)
    await node.append_durably(3, 1000)
    assert disk.done[done] == "sync"
    await node.wal.close()


def test_a_capacity_that_holds_no_two_segments_is_refused():
    with pytest.raises(InvalidSetting, match=r"must be at least twice wal\.segment_bytes"):
        WalSettings(segment_bytes=100, capacity_bytes=199)
