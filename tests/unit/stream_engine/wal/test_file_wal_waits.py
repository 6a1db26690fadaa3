"""A log that waits: for a free file of the process, or for a disk that does not answer."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.settings import WalSettings, WalSync
from siltstone.stream_engine.wal import file_wal
from siltstone.stream_engine.wal.port import WalWriteFailed
from support.engine.wal_disk import put_disk_in
from support.engine.wal_node import SETTINGS, WalNode, recovered_offsets, settled
from support.scenarios import in_loop

IN_A_FILE = 4
"""So many appends of 700 bytes fit into one log file of SETTINGS, and no more than one further."""


class FewFiles:
    """The ``os`` of the log's files; while ``trouble`` is an error number, no further file is opened.

    ``opened``: the descriptors that are open now."""

    def __init__(self) -> None:
        self.trouble = 0
        self.refused = 0
        self.opened: set[int] = set()

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        if self.trouble:
            self.refused += 1
            raise OSError(self.trouble, os.strerror(self.trouble), str(path))
        descriptor = os.open(path, flags, mode)
        self.opened.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        os.close(descriptor)
        self.opened.remove(descriptor)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> FewFiles:
    few = FewFiles()
    put_disk_in(monkeypatch, few)
    return few


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_the_log_waits_for_a_free_file_and_goes_on(
    number: int, tmp_path: Path, files: FewFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        clock = ManualClock()
        node = await WalNode(tmp_path, clock=clock).start()
        for offset in range(IN_A_FILE):
            await node.append_durably(offset, 700)
        files.trouble = number
        last = [node.append(offset, 700) for offset in range(IN_A_FILE, 3 * IN_A_FILE)][-1]
        for _ in range(20):
            clock.advance_ms(file_wal.FREE_FILE_INTERVAL_MS)
            await settled()
        assert files.refused > 10 and not node.heard.failures and node.heard.durable[-1] < last
        assert "waits for a free file" in node.wal.statistics().trouble
        files.trouble = 0
        clock.advance_ms(file_wal.FREE_FILE_INTERVAL_MS)
        await node.until_durable(last)
        assert node.wal.statistics().trouble == ""
        await node.wal.close()

    asyncio.run(main())
    assert recovered_offsets(tmp_path) == [*range(3 * IN_A_FILE)]
    (line,) = [record.getMessage() for record in caplog.records]
    assert "waits for a free file" in line and "raise the limit of open files" in line


@in_loop
async def test_it_fails_when_there_is_none_for_too_long(tmp_path: Path, files: FewFiles) -> None:
    clock = ManualClock()
    node = await WalNode(tmp_path, clock=clock).start()
    files.trouble = errno.EMFILE
    node.append(0)
    began_ms = clock.monotonic_ms()
    while not node.heard.failures and clock.monotonic_ms() < began_ms + 2 * file_wal.FREE_FILE_WAIT_MS_MAX:
        clock.advance_ms(file_wal.FREE_FILE_INTERVAL_MS)
        await settled(10)
    assert 0 <= clock.monotonic_ms() - began_ms - file_wal.FREE_FILE_WAIT_MS_MAX < 1_000
    (failure,) = node.heard.failures
    assert isinstance(failure, WalWriteFailed)
    assert "Too many open files, for 60 s: raise the limit of open files" in str(failure)
    files.trouble = 0
    await node.wal.close()


@in_loop
async def test_any_other_trouble_with_a_new_file_is_no_reason_to_wait(
    tmp_path: Path, files: FewFiles
) -> None:
    node = await WalNode(tmp_path).start()
    files.trouble = errno.EACCES
    node.append(0)
    await settled()
    assert files.refused == 1 and len(node.heard.failures) == 1
    files.trouble = 0
    await node.wal.close()


@pytest.mark.parametrize("sync", list(WalSync))
def test_a_long_log_has_one_open_file(sync: WalSync, tmp_path: Path, files: FewFiles) -> None:
    """A bucket that is away for an hour makes it as long as it may be; the limit of open files may be small."""

    async def main() -> None:
        settings = WalSettings(
            segment_bytes=SETTINGS.segment_bytes,
            capacity_bytes=SETTINGS.capacity_bytes,
            group_bytes_max=SETTINGS.group_bytes_max,
            sync=sync,
        )
        node = await WalNode(tmp_path, settings).start()
        before = len(files.opened)
        for offset in range(10 * IN_A_FILE):
            await node.append_durably(offset, 700)
        assert node.wal.statistics().segments >= 8
        assert len(files.opened) == before + 1
        await node.wal.trim(node.heard.durable[-1])
        assert node.wal.statistics().segments == 1
        await node.wal.close()
        assert len(files.opened) == 0

    asyncio.run(main())
    assert recovered_offsets(tmp_path)[-1] == 10 * IN_A_FILE - 1


class HangingDisk(InlineCalls):
    """Calls return only while ``answers`` is set."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.answers.set()

    async def run(self, call, *args, **kwargs):
        await self.answers.wait()
        return await super().run(call, *args, **kwargs)


def test_rule_12_a_disk_that_does_not_answer_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        clock, disk = ManualClock(), HangingDisk()
        node = await WalNode(tmp_path, calls=disk, clock=clock).start()
        await node.append_durably(0)
        for _ in range(20):
            clock.advance_ms(file_wal.HANGS_MS)
            await settled(5)
        assert not caplog.records, "nothing was asked of the disk"
        disk.answers.clear()
        node.append(1)
        await settled()
        for _ in range(14):
            clock.advance_ms(file_wal.HANGS_MS)
            await settled(5)
        assert len(caplog.records) == 3, "after 5 s, and every 30 s from then on"
        assert "has not answered for 70 s" in node.wal.statistics().trouble
        disk.answers.set()
        await node.until_durable(node.append(2))
        assert node.wal.statistics().trouble == ""
        await node.wal.close()

    asyncio.run(main())
    assert f"the disk of the write-ahead log in {tmp_path} has not answered for 5 s" in caplog.text
