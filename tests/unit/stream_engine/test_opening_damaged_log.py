"""Opening a node whose log and metadata do not belong together: the records that would be dropped are kept, and a
warning is logged."""

import os
from pathlib import Path

import msgspec
import pytest

from siltstone.foundation.crc32c import crc32c
from siltstone.metadata.store.memory import MemoryLog
from siltstone.object_formats.identity import LOG_FORMAT, IdentityOfNewerVersion
from siltstone.object_formats.log_file import LOG_FILE_VERSION, DamagedWal, WalOfNewerVersion
from siltstone.stream_engine.wal.log_directory import IDENTITY_FILE
from siltstone.stream_engine.wal.ownership import MetadataBehindLog, WalOfAnotherStore
from support.engine.engine_world import SMALL, SMALL_WAL, HeldPuts, World
from support.scenarios import in_loop

APPENDS = 12


async def crashed(world: World) -> None:
    """A node dies with twelve acknowledged records, none of them committed, in several segments."""
    settings = msgspec.structs.replace(
        SMALL, wal=msgspec.structs.replace(SMALL_WAL, segment_bytes=4096, group_bytes_max=1024)
    )
    node = await world.open(settings)
    HeldPuts(node)
    stream = await node.new_stream()
    for number in range(APPENDS):
        await node.append(stream, bytes([number]) * 1500)
    world.crash(node.calls)


def segments(world: World) -> list[Path]:
    return sorted(world.wal_folder.glob("*.wal"))


async def refused_twice(world: World, reason: str, kind: type[Exception] = DamagedWal) -> None:
    """The log is complete after it: repeated starts of the node do no harm."""
    before = {path: path.read_bytes() for path in segments(world)}
    assert len(before) > 2
    for _ in range(2):
        with pytest.raises(kind, match=reason):
            await world.open()
    assert {path: path.read_bytes() for path in segments(world)} == before


@pytest.mark.parametrize("gone", ["first", "middle", "last", "last two", "all"])
@in_loop
async def test_rule_13_a_log_that_lacks_a_file_is_not_dropped(tmp_path, gone) -> None:
    """The newest file's absence is told by the identity alone: no later file follows it."""
    world = World(tmp_path)
    await crashed(world)
    found = segments(world)
    missing = {
        "first": found[:1], "middle": found[1:2], "last": found[-1:], "last two": found[-2:], "all": found,
    }[gone]  # fmt: skip
    kept = {path: path.read_bytes() for path in missing}
    for path in missing:
        path.unlink()
    named = missing[-1] if gone == "last two" else missing[0]
    for _ in range(2):
        with pytest.raises(
            DamagedWal, match=f"{named} .*is missing.*; restore|{named} .*is missing: restore"
        ):
            await world.open()
    for path, content in kept.items():
        path.write_bytes(content)
    node = await world.open()
    stream = await node.engine.open_stream(0, 1)
    payloads = [bytes(batch.payload[:1]) for batch in await node.read_all(stream)]
    assert payloads == [bytes([number]) for number in range(APPENDS)]
    await node.engine.close()


@in_loop
async def test_rule_13_a_log_that_no_record_was_appended_to_may_have_no_file(tmp_path) -> None:
    """Streams are open, and the identity says that no file was begun."""
    world = World(tmp_path)
    node = await world.open()
    await node.new_stream()
    world.crash(node.calls)
    assert segments(world) == []
    node = await world.open()
    await node.engine.close()


@in_loop
async def test_rule_1_segments_that_changed_names_are_not_taken_for_a_torn_log(tmp_path) -> None:
    world = World(tmp_path)
    await crashed(world)
    first, *_, last = segments(world)
    first.rename(tmp_path / "kept")
    last.rename(first)
    (tmp_path / "kept").rename(last)
    await refused_twice(world, "it was renamed; give it its old name")


@pytest.mark.parametrize("has_identity", [True, False])
@in_loop
async def test_rule_1_a_log_is_not_dropped_because_the_metadata_was_lost(tmp_path, has_identity) -> None:
    """By its identity; and by what its records say when that is gone too."""
    world = World(tmp_path)
    await crashed(world)
    if not has_identity:
        (world.wal_folder / IDENTITY_FILE).unlink()
    world.log = MemoryLog()
    await refused_twice(world, "another store", WalOfAnotherStore if has_identity else MetadataBehindLog)


@pytest.mark.parametrize("cut", ["half", "a byte", "all but the header"])
@in_loop
async def test_rule_1_a_log_file_that_is_shorter_than_it_was_made_is_not_taken_for_a_torn_log(
    tmp_path, cut
) -> None:
    """The newest records have no later one that confirms them: only the size of their file shows the loss."""
    world = World(tmp_path)
    await crashed(world)
    last = segments(world)[-1]
    size = last.stat().st_size
    os.truncate(last, {"half": size // 2, "a byte": size - 1, "all but the header": 64}[cut])
    await refused_twice(
        world, f"{last} of the .* has .* bytes, and {size:,} were reserved for it.*restore the file"
    )


@in_loop
async def test_rule_1_a_damaged_log_names_its_file_and_the_way_to_start_without_it(tmp_path) -> None:
    world = World(tmp_path)
    await crashed(world)
    path = segments(world)[0]
    damaged = bytearray(path.read_bytes())
    damaged[500] ^= 1
    path.write_bytes(damaged)
    reason = (
        f"{path}: the write-ahead log is damaged at log position 0, in an acknowledged record; restore the file. "
        f"If that is not possible, move the log in file:.* away and start once with engine.wal.lost_epoch=1; "
    )
    await refused_twice(world, reason)

    world.wal_folder.rename(tmp_path / "away")
    lost = msgspec.structs.replace(SMALL, wal=msgspec.structs.replace(SMALL_WAL, lost_epoch=1))
    node = await world.open(lost)
    await node.engine.close()


@pytest.mark.parametrize("of", ["segment", "identity"])
@in_loop
async def test_rule_13_a_log_of_a_newer_version_is_refused_without_the_advice_to_give_it_up(
    tmp_path, of
) -> None:
    """An older version is started again after an upgrade: the log has all records, and nothing is to be restored."""
    world = World(tmp_path)
    await crashed(world)
    path = segments(world)[0]
    if of == "segment":
        raw = bytearray(path.read_bytes())
        raw[8:12] = (LOG_FILE_VERSION + 1).to_bytes(4, "little")
        raw[60:64] = crc32c([bytes(raw[:60])]).to_bytes(4, "little")
    else:
        path = world.wal_folder / IDENTITY_FILE
        body = (
            path.read_bytes().split(b',"crc32c"')[0].replace(b'"format":%d' % LOG_FORMAT, b'"format":99')
            + b"}"
        )
        raw = bytearray(b'%s,"crc32c":"%08x"}\n' % (body[:-1], crc32c([body])))
    path.write_bytes(raw)
    for _ in range(2):
        with pytest.raises(WalOfNewerVersion if of == "segment" else IdentityOfNewerVersion) as refusal:
            await world.open()
    said = str(refusal.value)
    assert f"{path}: " in said and said.endswith(
        "a newer version of Siltstone wrote it, so use that version"
    ), said


@in_loop
async def test_a_file_that_is_no_segment_is_named(tmp_path) -> None:
    world = World(tmp_path)
    await crashed(world)
    first = segments(world)[0]
    first.rename(first.with_name("copy of 0.wal"))
    await refused_twice(world, "is not named like a file of a write-ahead log")
