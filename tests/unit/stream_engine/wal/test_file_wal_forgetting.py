"""What was trimmed leaves the disk when that is asked, also from files that are used again."""

from pathlib import Path

from msgspec.structs import replace

from siltstone.stream_engine.settings import WalSettings, WalSync
from support.engine.batches import batch
from support.engine.wal_node import SETTINGS, WalNode, recovered, settled
from support.scenarios import in_loop

PAYLOAD = b"what each record has, and what is looked for on the disk" * 2


def on_disk(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if PAYLOAD in each.read_bytes())


def appended(node: WalNode, offset: int) -> int:
    return node.wal.append(replace(batch(1, offset, 1), payload=PAYLOAD), 0).end_position


async def append_durably(node: WalNode, offset: int) -> int:
    position = appended(node, offset)
    await node.until_durable(position)
    return position


async def offsets_in(folder: Path) -> list[int]:
    """Returns the offsets that the next start finds."""
    return [each.base_offset for each in await recovered(folder)]


@in_loop
async def test_without_it_stale_records_stay_in_the_open_file_and_in_spares(tmp_path) -> None:
    node = await WalNode(tmp_path).start()
    for offset in range(60):
        position = await append_durably(node, offset)
    await node.wal.trim(position)
    names = on_disk(tmp_path)
    assert any(name.endswith(".spare") for name in names) and any(name.endswith(".wal") for name in names)
    await node.wal.close()


@in_loop
async def test_nothing_of_it_is_left_on_the_disk(tmp_path) -> None:
    node = await WalNode(tmp_path).start()
    for offset in range(60):
        position = await append_durably(node, offset)
    await node.wal.trim(position)
    await node.wal.forget_trimmed()
    assert on_disk(tmp_path) == []
    await append_durably(node, 60)
    assert len(on_disk(tmp_path)) == 1
    await node.wal.close()
    assert await offsets_in(tmp_path) == [60]


@in_loop
async def test_records_beside_it_that_are_needed_stay_until_their_trim(tmp_path) -> None:
    node = await WalNode(tmp_path).start()
    trimmed = await append_durably(node, 0)
    needed = await append_durably(node, 1)
    await node.wal.trim(trimmed)
    await node.wal.forget_trimmed()
    assert len(on_disk(tmp_path)) == 1, "both are in one file"
    await append_durably(node, 2)
    await node.wal.trim(needed)
    assert [name.endswith(".spare") for name in on_disk(tmp_path)] == [False], "only the newest record's file"
    await node.wal.close()
    assert await offsets_in(tmp_path) == [2]


@in_loop
async def test_an_idle_log_and_a_second_call_have_nothing_to_do(tmp_path) -> None:
    node = await WalNode(tmp_path).start()
    await node.wal.forget_trimmed()
    position = await append_durably(node, 0)
    await node.wal.trim(position)
    await node.wal.forget_trimmed()
    await node.wal.forget_trimmed()
    assert on_disk(tmp_path) == []
    await append_durably(node, 1)
    await node.wal.close()
    assert await offsets_in(tmp_path) == [1]


@in_loop
async def test_records_that_were_not_synced_are_synced_first(tmp_path) -> None:
    settings = WalSettings(
        segment_bytes=SETTINGS.segment_bytes,
        capacity_bytes=SETTINGS.capacity_bytes,
        group_bytes_max=SETTINGS.group_bytes_max,
        sync=WalSync.NEVER,
    )
    node = await WalNode(tmp_path, settings).start()
    await append_durably(node, 0)
    await node.wal.forget_trimmed()
    await append_durably(node, 1)
    await node.wal.close()
    assert await offsets_in(tmp_path) == [0, 1]


@in_loop
async def test_appends_go_on_meanwhile(tmp_path) -> None:
    node = await WalNode(tmp_path).start()
    for offset in range(10):
        position = await append_durably(node, offset)
    await node.wal.trim(position)
    for offset in range(10, 20):
        appended(node, offset)
    await node.wal.forget_trimmed()
    await settled()
    await node.wal.close()
    assert (await offsets_in(tmp_path))[-10:] == list(range(10, 20))
