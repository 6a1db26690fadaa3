"""A full disk under the log: what has no room is refused before it has a place, and the log continues by itself."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from siltstone.object_formats.log_file import LOG_FILE_HEADER_BYTES, RECORD_OVERHEAD_BYTES
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.wal.file_wal import NO_SPACE_INTERVAL_MS
from siltstone.stream_engine.wal.log_directory import NAMES_BYTES, LogDirectory
from siltstone.stream_engine.wal.port import WalWriteFailed
from support.engine.wal_disk import put_disk_in
from support.engine.wal_node import SETTINGS, WalNode, recovered_offsets, settled
from support.scenarios import in_loop

PAYLOAD = 100
RECORD = RECORD_OVERHEAD_BYTES + PAYLOAD


class SmallDisk:
    """The ``os`` of a disk that reserves nothing while ``is_full``, and writes nothing while ``takes_no_writes``."""

    def __init__(self) -> None:
        self.is_full = self.takes_no_writes = False
        self.number = errno.ENOSPC
        self.reserved = 0

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def posix_fallocate(self, descriptor: int, offset: int, size: int) -> None:
        if self.is_full:
            raise OSError(self.number, os.strerror(self.number))
        self.reserved += 1
        os.posix_fallocate(descriptor, offset, size)

    def pwritev(self, descriptor: int, buffers: list, at: int) -> int:
        if self.takes_no_writes:
            os.pwrite(descriptor, b"half a record", at)
            raise OSError(self.number, os.strerror(self.number))
        return os.pwritev(descriptor, buffers, at)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SmallDisk:
    made = SmallDisk()
    put_disk_in(monkeypatch, made)
    return made


class FullWorld:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.node = WalNode(folder, clock=self.clock)
        self.offset = 0

    async def start(self) -> "FullWorld":
        await self.node.start()
        return self

    async def fill(self, until: Callable[[], bool]) -> None:
        """Appends one after the other, each when it is taken."""
        while not until():
            assert not self.node.wal.why_refused(PAYLOAD)
            await self.node.append_durably(self.offset, PAYLOAD)
            self.offset += 1

    async def passes(self) -> None:
        for _ in range(3):
            self.clock.advance_ms(NO_SPACE_INTERVAL_MS)
            await settled()


@in_loop
async def test_the_next_file_is_reserved_before_it_is_needed(tmp_path: Path, disk: SmallDisk) -> None:
    world = await FullWorld(tmp_path).start()
    await world.fill(lambda: disk.reserved == 2)
    written = world.offset * RECORD
    assert SETTINGS.segment_bytes / 2 - 2 * RECORD < written < SETTINGS.segment_bytes / 2 + RECORD
    (spare,) = tmp_path.glob("*.spare")
    assert spare.stat().st_size == SETTINGS.segment_bytes + NAMES_BYTES
    await world.fill(lambda: len(list(tmp_path.glob("*.wal"))) == 2)
    assert disk.reserved == 2, "the second file is made of it"
    newest = max(tmp_path.glob("*.wal"))
    assert newest.stat().st_size == SETTINGS.segment_bytes, "the rest was given back"
    await world.node.wal.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@in_loop
async def test_op03_what_has_no_room_is_refused_and_the_log_continues_by_itself(
    number: int, tmp_path: Path, disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    world = await FullWorld(tmp_path).start()
    wal, disk.number = world.node.wal, number
    await world.fill(lambda: world.offset == 1)
    disk.is_full = True
    await world.fill(lambda: bool(wal.why_refused(PAYLOAD)))
    assert world.offset == (SETTINGS.segment_bytes - LOG_FILE_HEADER_BYTES) // RECORD, (
        "the file is used to its end"
    )
    assert "free some space" in wal.statistics().full_disk and str(tmp_path) in wal.why_refused(PAYLOAD)
    assert not world.node.heard.failures and caplog.text.count("appends are refused") == 1
    await world.passes()
    assert wal.why_refused(PAYLOAD), "the disk is still full"
    disk.is_full = False
    await world.passes()
    assert wal.why_refused(PAYLOAD) == wal.statistics().full_disk == "" and "has space again" in caplog.text
    last = world.offset + 5
    await world.fill(lambda: world.offset == last)
    await wal.close()


def test_op03_everything_that_was_taken_is_there_after_a_crash(tmp_path: Path, disk: SmallDisk) -> None:
    async def main() -> int:
        world = await FullWorld(tmp_path / "wal").start()
        await world.fill(lambda: world.offset == 1)
        disk.is_full = True
        await world.fill(lambda: bool(world.node.wal.why_refused(PAYLOAD)))
        disk.is_full = False
        await world.passes()
        await world.fill(lambda: world.offset == 40)
        await world.node.wal.close()
        return world.offset

    taken = asyncio.run(main())
    assert recovered_offsets(tmp_path / "wal") == list(range(taken))


@in_loop
async def test_a_burst_beyond_what_was_reserved_waits_and_nothing_later_is_taken(
    tmp_path: Path, disk: SmallDisk
) -> None:
    world = await FullWorld(tmp_path).start()
    await world.fill(lambda: world.offset == 1)
    disk.is_full = True
    end = 0
    for number in range(60):
        end = world.node.append(1 + number, PAYLOAD)
    await settled()
    assert not world.node.heard.failures and world.node.heard.durable[-1] < end
    assert world.node.wal.why_refused(1), "a small one would fit into the file that was closed"
    disk.is_full = False
    await world.passes()
    assert world.node.heard.durable[-1] == end and not world.node.wal.why_refused(PAYLOAD)
    await world.node.wal.close()


def test_a_write_that_finds_no_space_is_made_again_at_the_same_place(tmp_path: Path, disk: SmallDisk) -> None:
    async def main() -> None:
        world = await FullWorld(tmp_path).start()
        await world.fill(lambda: world.offset == 3)
        disk.takes_no_writes = True
        world.node.append(3, PAYLOAD)
        await settled()
        assert world.node.heard.durable[-1] == 3 * RECORD and world.node.wal.why_refused(1)
        disk.takes_no_writes = False
        await world.passes()
        assert world.node.heard.durable[-1] == 4 * RECORD
        await world.node.wal.close()

    asyncio.run(main())
    assert recovered_offsets(tmp_path) == [0, 1, 2, 3]


@in_loop
async def test_the_first_file_waits_too_and_the_end_does_not(tmp_path: Path, disk: SmallDisk) -> None:
    world = await FullWorld(tmp_path).start()
    disk.is_full = True
    world.node.append(0, PAYLOAD)
    await settled()
    assert world.node.wal.why_refused(1) and not world.node.heard.failures
    await world.node.wal.close()
    (failure,) = world.node.heard.failures
    assert isinstance(failure, WalWriteFailed) and not world.node.heard.durable


@in_loop
async def test_trimmed_files_are_space(tmp_path: Path, disk: SmallDisk) -> None:
    world = await FullWorld(tmp_path).start()
    await world.fill(lambda: len(list(tmp_path.glob("*.wal"))) == 2)
    disk.is_full = True
    await world.fill(lambda: bool(world.node.wal.why_refused(PAYLOAD)))
    await world.node.wal.trim(world.offset * RECORD)
    await world.passes()
    assert not world.node.wal.why_refused(PAYLOAD), "the first file is used again"
    last = world.offset + 10
    await world.fill(lambda: world.offset == last)
    await world.node.wal.close()


def test_a_reservation_that_fails_leaves_nothing(tmp_path: Path, disk: SmallDisk) -> None:
    directory = LogDirectory(tmp_path, 3)
    disk.is_full = True
    with pytest.raises(OSError, match="No space"):
        directory.reserve(4096)
    assert not list(tmp_path.glob("*.spare"))
    disk.is_full = False
    directory.reserve(4096)
    directory.reserve(4096)
    assert len(list(tmp_path.glob("*.spare"))) == 1
    directory.close()


@pytest.mark.parametrize("seed", range(20))
def test_drawn_full_disks_lose_nothing_and_refuse_before_they_take(
    seed: int, tmp_path: Path, disk: SmallDisk
) -> None:
    rng = Random(seed)

    async def main() -> int:
        world = await FullWorld(tmp_path).start()
        taken = 0
        for _ in range(150):
            disk.is_full = rng.random() < 0.5
            disk.takes_no_writes = disk.is_full and rng.random() < 0.2
            for _ in range(rng.randrange(1, 8)):
                size = rng.choice((10, 100, 900))
                if not world.node.wal.why_refused(size):
                    world.node.append(taken, size)
                    taken += 1
            await settled()
            if rng.random() < 0.4:
                await world.passes()
            if rng.random() < 0.1 and world.node.heard.durable:
                await world.node.wal.trim(rng.randrange(world.node.heard.durable[-1] + 1))
            assert not world.node.heard.failures
        disk.is_full = disk.takes_no_writes = False
        await world.passes()
        await world.passes()
        await world.node.wal.close()
        assert not world.node.heard.failures
        return taken

    taken = asyncio.run(main())
    found = recovered_offsets(tmp_path)
    assert found == list(range(taken - len(found), taken)), "all but what was trimmed"
