"""A log that continues the one of an earlier start, whose records are not committed yet."""

from pathlib import Path

from support.engine.wal_node import WalNode, recovered
from support.scenarios import in_loop


async def continued(folder: Path, first: int, count: int, node_epoch: int) -> int:
    """One life: recovers what is there, continues the log, appends. → The log position at which it continued."""
    node = WalNode(folder)
    end = 0
    async for records in node.wal.recover():
        end = records[-1].end_position if records else end
    await node.wal.start(node_epoch, node.heard.durable.append, node.heard.failures.append, end)
    for offset in range(first, first + count):
        await node.append_durably(offset, 700)
    await node.wal.close()
    return end


def offsets(batches: list) -> list[int]:
    return [batch.base_offset for batch in batches]


@in_loop
async def test_what_earlier_starts_left_is_read_before_what_came_after(tmp_path: Path) -> None:
    assert await continued(tmp_path, 0, 12, 1) == 0
    first_end = await continued(tmp_path, 12, 7, 2)
    assert 0 < first_end < await continued(tmp_path, 19, 1, 3)
    assert offsets(await recovered(tmp_path)) == [*range(20)]


@in_loop
async def test_files_behind_the_last_record_and_spares_are_deleted_before_the_log_continues(
    tmp_path: Path,
) -> None:
    """A file that was being made, and one behind a tear, would otherwise stand between the old records and the new."""
    await continued(tmp_path, 0, 12, 1)
    *_, torn, behind = sorted(tmp_path.glob("*.wal"))
    data = bytearray(torn.read_bytes())
    data[200:] = bytes(len(data) - 200)  # nothing of it is whole; no later record says that it was durable
    torn.write_bytes(data)
    later = behind.read_bytes()
    behind.write_bytes(bytes(len(later)))
    (tmp_path / "7.spare").write_bytes(later)
    left = offsets(await recovered(tmp_path))
    await continued(tmp_path, len(left), 1, 2)
    assert offsets(await recovered(tmp_path)) == [*range(len(left) + 1)]
    assert not behind.exists() and not list(tmp_path.glob("*.spare"))


@in_loop
async def test_the_old_files_count_as_log_and_are_deleted_when_they_are_trimmed(tmp_path: Path) -> None:
    await continued(tmp_path, 0, 12, 1)
    old = set(tmp_path.glob("*.wal"))
    node = WalNode(tmp_path)
    async for records in node.wal.recover():
        end = records[-1].end_position
    await node.wal.start(2, node.heard.durable.append, node.heard.failures.append, end)
    assert node.wal.statistics().bytes_untrimmed == end
    position = await node.append_durably(12, 700)
    assert set(tmp_path.glob("*.wal")) > old
    await node.wal.trim(end)
    assert not old & set(tmp_path.glob("*.wal"))
    assert node.wal.statistics().bytes_untrimmed == position - end
    await node.wal.close()
    assert offsets(await recovered(tmp_path)) == [12]
