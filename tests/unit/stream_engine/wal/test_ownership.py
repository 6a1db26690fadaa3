"""A node begins with the log it had, or with any when nothing is missing (rule 1)."""

import asyncio
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from siltstone.metadata import applying
from siltstone.metadata import streams as stream_steps
from siltstone.metadata.client import ClockTooFarOff, CommitUnknown, MetadataClient
from siltstone.metadata.commands import PutKey
from siltstone.metadata.entities import StreamState
from siltstone.metadata.log_entry import LogForked, LogPosition, decode_entry, encode_entry
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store_id import STORE_ID_KEY
from siltstone.object_formats.identity import (
    DamagedIdentity,
    LogIdentity,
    decode_log_identity,
    encode_log_identity,
)
from siltstone.stream_engine.settings import InvalidSetting, WalSettings
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog
from siltstone.stream_engine.wal.log_directory import IDENTITY_FILE
from siltstone.stream_engine.wal.ownership import WalLost, WalOfAnotherStore
from siltstone.stream_engine.wal.port import WalOfAnotherNode
from support.engine.engine_world import SMALL, SMALL_WAL, HeldPuts, World, payloads_of
from support.metadata.faulty_log import FaultyLog
from support.metadata.log_entries import append_values

GIVEN_UP_1 = replace(SMALL, wal=replace(SMALL_WAL, lost_epoch=1))


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


async def life(world: World, payload: bytes, epoch: int | None = None) -> int:
    """Acknowledged and committed nowhere, then the process is killed. The stream's id."""
    node = await world.open()
    if epoch is None:
        stream = await node.new_stream()
    else:
        stream = await node.engine.open_stream(0, epoch)
    HeldPuts(node)
    await node.append(stream, payload)
    world.crash(node.calls)
    return stream.stream_id


async def read_all(world: World, epoch: int, settings=SMALL, wal: Path | None = None) -> list[bytes]:
    node = await world.open(settings, wal=wal)
    stream = await node.engine.open_stream(0, epoch)
    payloads = payloads_of(await node.read_all(stream))
    await node.close()
    return payloads


def identity(folder: Path) -> LogIdentity:
    found = decode_log_identity((folder / IDENTITY_FILE).read_bytes())
    return replace(found, files=None)


def test_a_log_says_whose_it_is_from_the_first_append_on(tmp_path):
    async def scenario():
        world = World(tmp_path)
        for epoch in (1, 2):
            async with world.node() as node:
                store_id = node.metadata.image.keys[STORE_ID_KEY].decode()
                begun = node.metadata.image.position
                assert identity(world.wal_folder) == LogIdentity(
                    store_id, 0, epoch, begun.version, begun.append_id
                )
                await node.new_stream()
            end = world.log.head()
            assert begun.version < end.version
            assert identity(world.wal_folder) == LogIdentity(store_id, 0, epoch, end.version, end.append_id)

    run(scenario)


@pytest.mark.parametrize("how", ["another folder", "emptied", "an older copy"])
def test_rule_1_a_log_that_may_lack_what_was_acknowledged_is_refused_until_it_is_given_up(tmp_path, how):
    async def scenario():
        world = World(tmp_path)
        async with world.node() as node:
            assert (await node.new_stream()).stream_id == 0
        shutil.copytree(world.wal_folder, tmp_path / "older")
        await life(world, b"acknowledged", epoch=1)
        right = world.wal_folder
        match how:
            case "another folder":
                wrong = tmp_path / "another"
            case "emptied":
                wrong = shutil.copytree(right, tmp_path / "emptied")
                for path in wrong.iterdir():
                    path.unlink()
            case "an older copy":
                wrong = tmp_path / "older"
        for _ in range(2):
            with pytest.raises(WalLost, match=r"node epoch 2, .* engine.wal.lost_epoch=2") as refused:
                await world.open(wal=wrong)
        used = "last used under node epoch 1" if how == "an older copy" else "never used by this node"
        assert used in str(refused.value)
        assert await read_all(world, 2) == [b"acknowledged"], "nobody was fenced, nothing is gone"

    run(scenario)


def test_rule_1_the_running_node_is_not_fenced_by_one_on_another_folder(tmp_path):
    async def scenario():
        world = World(tmp_path)
        async with world.node() as node:
            stream = await node.new_stream()
            with pytest.raises(WalLost):
                await world.open(wal=tmp_path / "another")
            await node.append(stream, b"x")
            await node.engine.flush()
            assert node.engine.statistics().state == "RUNNING"

    run(scenario)


def test_a_loss_that_is_accepted_is_accepted_once(tmp_path, caplog):
    async def scenario():
        world = World(tmp_path)
        await life(world, b"lost")
        world.wal_folder = tmp_path / "another"
        assert await read_all(world, 1, GIVEN_UP_1) == []
        assert "log of node epoch 1 is declared lost: 1 streams continue" in caplog.text
        await life(world, b"acknowledged", epoch=2)
        world.wal_folder = tmp_path / "a third"
        with pytest.raises(WalLost, match="lost_epoch=3"):
            await world.open(GIVEN_UP_1)

    run(scenario)


def test_an_accepted_loss_does_not_replay_what_an_older_life_left(tmp_path):
    """Its records may overlap what the stream has held since."""

    async def scenario():
        world = World(tmp_path)
        node = await world.open()
        await node.new_stream()
        world.crash(node.calls)
        older = shutil.copytree(world.wal_folder, tmp_path / "older")
        await life(world, b"of life 2", epoch=1)
        shutil.copy(next(world.wal_folder.glob("*.wal")), older)
        given_up = replace(SMALL, wal=replace(SMALL_WAL, lost_epoch=2))
        for _ in range(2):
            with pytest.raises(WalLost, match="holds records of an older epoch"):
                await world.open(given_up, wal=older)
        assert list(older.glob("*.wal"))
        assert await read_all(world, 2) == [b"of life 2"]

    run(scenario)


def test_an_accepted_loss_of_the_identity_alone_loses_nothing(tmp_path):
    async def scenario():
        world = World(tmp_path)
        await life(world, b"acknowledged")
        (world.wal_folder / IDENTITY_FILE).unlink()
        with pytest.raises(WalLost, match="lost_epoch=1"):
            await world.open()
        assert await read_all(world, 1, GIVEN_UP_1) == [b"acknowledged"]

    run(scenario)


def test_after_a_good_end_a_node_may_begin_in_an_empty_folder(tmp_path):
    async def scenario():
        world = World(tmp_path)
        async with world.node() as node:
            await node.append(await node.new_stream(), b"x")
        assert await read_all(world, 1, wal=tmp_path / "another") == [b"x"]
        assert await read_all(world, 2) == [b"x"], "and come back to the old one, after another good end"

    run(scenario)


def test_a_crash_between_recovery_and_the_claim_leaves_the_log_the_right_one(tmp_path):
    """Registered, recovered, the log cleared, some streams still open: the next start must not be refused."""

    async def scenario():
        world = World(tmp_path)
        await life(world, b"acknowledged")

        async def refuse(identity):
            raise OSError("no")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FileWriteAheadLog, "claim", lambda self, identity: refuse(identity))
            for _ in range(2):
                with pytest.raises(OSError, match="no"):
                    await world.open()
        assert identity(world.wal_folder).node_epoch == 1
        assert await read_all(world, 1) == [b"acknowledged"]

    run(scenario)


def test_a_store_that_was_moved_with_its_log_goes_on(tmp_path):
    async def scenario():
        (tmp_path / "here").mkdir()
        world = World(tmp_path / "here")
        await life(world, b"acknowledged")
        (tmp_path / "here").rename(tmp_path / "there")
        world.wal_folder = tmp_path / "there" / world.wal_folder.name
        assert await read_all(world, 1) == [b"acknowledged"]

    run(scenario)


def test_a_log_of_another_store_is_refused_unless_nothing_is_in_it(tmp_path):
    async def scenario():
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        one, other = World(tmp_path / "a"), World(tmp_path / "b")
        other.rng.seed(99)
        await life(one, b"acknowledged")
        with pytest.raises(WalOfAnotherStore, match="restore the metadata"):
            await other.open(wal=one.wal_folder)
        emptied = shutil.copytree(one.wal_folder, tmp_path / "emptied")
        for segment in emptied.glob("*.wal"):
            segment.unlink()
        other.wal_folder = emptied
        async with other.node() as node:
            assert await node.append(await node.new_stream(), b"x") == 0
        assert await read_all(one, 1) == [b"acknowledged"]

    run(scenario)


def test_a_log_of_another_node_is_refused_also_when_nothing_is_in_it(tmp_path):
    async def scenario():
        world = World(tmp_path)
        async with world.node():
            pass
        with pytest.raises(WalOfAnotherNode, match="belongs to node 0, this is node 1"):
            await world.open(replace(SMALL, node_id=1))

    run(scenario)


def test_an_identity_that_is_damaged_is_named(tmp_path):
    async def scenario():
        world = World(tmp_path)
        async with world.node():
            pass
        (world.wal_folder / IDENTITY_FILE).write_bytes(b"{}")
        with pytest.raises(DamagedIdentity, match=f"{IDENTITY_FILE}: .*delete it if you are sure"):
            await world.open()

    run(scenario)


def test_metadata_from_before_there_were_identities_takes_the_log_it_finds(tmp_path):
    """No log epoch, no identity, streams open, records in the log."""

    async def scenario():
        world = World(tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(applying._APPLIERS, applying.StreamOpened, opened_as_it_was)
            await life(world, b"acknowledged")
            (world.wal_folder / IDENTITY_FILE).unlink()
            node = await world.open()
            assert node.metadata.image.nodes[0].log_epoch == 0
            stream = await node.engine.open_stream(0, 1)
            assert payloads_of(await node.read_all(stream)) == [b"acknowledged"]
            await node.close()
        async with world.node() as node:
            assert node.metadata.image.streams[0].state is StreamState.CLOSED

    def opened_as_it_was(draft, record):
        stream = draft.streams[record.stream_id]
        draft.streams[record.stream_id] = stream_steps.opened(stream, record.epoch, record.node_id)

    run(scenario)


def forked(log: MemoryLog, *more: bytes) -> MemoryLog:
    """A log that lost its newest entry and continued with another one, and with more."""
    entries = [encoded for _, encoded in log.read_after(0, 1_000)]
    lost = decode_entry(entries.pop())
    other = MemoryLog()
    for entry in [*entries, encode_entry(replace(lost, append_id="ab" * 16))]:
        other.append(entry, other.head())
    append_values(other, *more)
    return other


@pytest.mark.parametrize("more", [(), (b"x", b"y")], ids=["of the same length", "that continued"])
@pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean stop", "killed"])
def test_p10_metadata_with_another_history_is_refused_at_the_start(tmp_path, more, is_clean):
    """The node is down when a standby without the newest entry is promoted: no entry that it reads contradicts any."""

    async def scenario():
        world = World(tmp_path)
        node = await world.open()
        if is_clean:
            await node.new_stream()
            await node.close()
        else:
            world.crash(node.calls)
        known = identity(world.wal_folder)
        right, world.log = world.log, forked(world.log, *more)
        for _ in range(2):
            with pytest.raises(
                LogForked, match=f"entry {known.metadata_version} has append id {known.append_id}"
            ):
                await world.open()
        assert identity(world.wal_folder) == known
        world.log = right
        async with world.node() as node:
            assert node.engine.statistics().state == "RUNNING"

    run(scenario)


@pytest.mark.parametrize("more", [(), (b"x", b"y")], ids=["of the same length", "that continued"])
def test_p10_a_node_that_ran_when_the_log_lost_entries_is_not_started_again_with_what_is_left(tmp_path, more):
    """Its supervisor starts it again. What it had read since its start is what the log lost."""

    async def scenario():
        world = World(tmp_path)
        node = await world.open()
        await node.new_stream()
        known = node.metadata.image.position
        assert known.version > identity(world.wal_folder).metadata_version
        right, other = list(world.log._entries), forked(world.log, *more)
        world.log._entries, world.log._head = list(other._entries), other.head()
        with pytest.raises(CommitUnknown, match="LogForked"):
            await node.metadata.execute(PutKey("key", b"value"))
        await node.close()
        for _ in range(2):
            with pytest.raises(LogForked, match=f"entry {known.version} has append id {known.append_id}"):
                await world.open()
        world.log._entries, world.log._head = right, known
        async with world.node() as node:
            assert node.engine.statistics().state == "RUNNING"

    run(scenario)


def test_p10_a_write_ahead_log_from_before_the_chain_is_taken(tmp_path):
    async def scenario():
        world = World(tmp_path)
        async with world.node():
            pass
        known = identity(world.wal_folder)
        older = replace(known, append_id=LogPosition().append_id)
        (world.wal_folder / IDENTITY_FILE).write_bytes(encode_log_identity(older))
        async with world.node():
            assert identity(world.wal_folder).append_id == world.log.head().append_id

    run(scenario)


def test_p10_metadata_that_dropped_the_entry_cannot_tell_and_is_taken(tmp_path):
    async def scenario():
        world = World(tmp_path)
        async with world.node():
            pass
        known = identity(world.wal_folder)
        append_values(world.log, *[b"x"] * 5)
        world.log._entries_kept = 1
        client = MetadataClient(world.log, world.clock, world.rng, snapshot_interval_records=1)
        client.save_snapshot_if_due()
        assert client.append_id_at(known.metadata_version) is None
        async with world.node() as node:
            assert node.engine.statistics().state == "RUNNING"

    run(scenario)


def test_p16_a_node_whose_clock_is_far_off_is_not_registered(tmp_path):
    async def scenario():
        world = World(tmp_path, log=FaultyLog(MemoryLog()))
        world.log.clock_is_ahead_ms = 40_000
        with pytest.raises(ClockTooFarOff, match="40000 ms behind"):
            await world.open()
        assert not (world.wal_folder / IDENTITY_FILE).exists()
        world.log.clock_is_ahead_ms = 5_000
        async with world.node() as node:
            assert node.metadata.image.nodes[0].node_epoch == 1

    run(scenario)


def test_the_life_that_is_given_up_is_a_number_from_the_refusal():
    with pytest.raises(InvalidSetting, match="lost_epoch is -1"):
        WalSettings(lost_epoch=-1)
