"""Settings become objects: what is made, what is not made, and that everything is closed again."""

import asyncio
from pathlib import Path

import pytest

from siltstone.metadata.commands import CreateStream
from siltstone.metadata.entities import StreamState
from siltstone.metadata.service import ServiceClosed
from siltstone.object_store.port import InvalidStoreUrl
from siltstone.offline.opening.store import StoreNotFound, open_store
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.server.components import open_node, running_node
from siltstone.server.settings.node import NodeSettings, load_node_settings
from siltstone.stream_engine.errors import DamagedRange
from siltstone.stream_engine.reading.committed_reader import ReaderClosed
from siltstone.stream_engine.wal.port import WalInUse
from support.processes.new_threads import new_threads


def settings_of(folder: Path, **flags: str) -> NodeSettings:
    return load_node_settings(folder, environment={}, flags=flags)


async def append_one(settings: NodeSettings) -> int:
    async with running_node(settings) as engine:
        stream_id = await engine.create_stream({"topic": "t"})
        stream = await engine.open_stream(stream_id, 0)
        assert await engine.append(stream, b"payload", 3) == 0
    return stream_id


def threads_of_pools() -> list[str]:
    return new_threads("metadata", "wal", "upload", "read")


def test_a_node_makes_the_store_and_leaves_it_whole(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "new")
    stream_id = asyncio.run(append_one(settings))
    assert (tmp_path / "new" / "metadata.sqlite").is_file()
    assert (tmp_path / "new" / "wal" / "node-0").is_dir()
    with open_store(settings) as store:
        stream = store.metadata.image.streams[stream_id]
        assert (stream.state, stream.start_offset, stream.end_offset) == (StreamState.CLOSED, 0, 3)
        assert len(store.context.metadata.image.objects) == 1
        assert store.buckets.urls == settings.buckets
        assert repr(store) == f"Store({str(tmp_path / 'new')!r}: 0 topics, 1 stream, 1 object)"
    assert threads_of_pools() == []


def test_what_was_appended_is_read_by_the_next_node_cold(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    stream_id = asyncio.run(append_one(settings))

    async def read_again() -> tuple[bytes, int]:
        async with open_node(settings) as node:
            stream = await node.engine.open_stream(stream_id, 1)
            (batch,) = await node.engine.read(stream, 0, 1000)
            assert node.metadata.image.streams[stream_id].epoch == 1
            return bytes(batch.payload), node.buckets.statistics().requests_of("get_range")

    payload, requests = asyncio.run(read_again())
    assert payload == b"payload"
    assert requests >= 1


def test_afterwards_nothing_of_the_node_answers(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)

    async def leave() -> None:
        async with open_node(settings) as node:
            stream_id = await node.engine.create_stream()
        assert node.engine.statistics().state == "CLOSED"
        with pytest.raises(ServiceClosed):
            await node.metadata.execute(CreateStream(0, node.engine.node_epoch))
        with pytest.raises(ReaderClosed):
            await node.reader.read(stream_id, 0, 1, 1)
        assert not (tmp_path / "metadata.sqlite-wal").exists()  # SQLite's own, gone with its last connection

    asyncio.run(leave())


def test_an_object_that_is_gone_is_missed_not_waited_for(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    stream_id = asyncio.run(append_one(settings))
    (object_file,) = (tmp_path / "bucket").glob("*/objects/*")
    object_file.unlink()

    async def read_again() -> None:
        async with running_node(settings) as engine:
            stream = await engine.open_stream(stream_id, 1)
            await engine.read(stream, 0, 1000)

    with pytest.raises(DamagedRange, match="run siltstone check"):
        asyncio.run(read_again())


def test_looking_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound, match=r"there is no store at .*nowhere"):
        open_store(settings_of(tmp_path / "nowhere"))
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_folder_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    asyncio.run(append_one(settings_of(tmp_path)))
    with pytest.raises(StoreNotFound, match="bucket 0 of the store is missing"):
        open_store(settings_of(tmp_path, **{"buckets.0": (tmp_path / "other").as_uri()}))
    assert not (tmp_path / "other").exists()


def test_a_second_node_on_the_same_folder_is_turned_away_and_the_first_goes_on(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)

    async def two() -> int:
        async with running_node(settings) as first:
            stream = await first.open_stream(await first.create_stream(), 0)
            with pytest.raises(WalInUse):
                async with running_node(settings):
                    raise AssertionError("two nodes on one write-ahead log")
            return await first.append(stream, b"still here", 1)

    assert asyncio.run(two()) == 0
    assert threads_of_pools() == []


def test_a_failure_inside_closes_everything(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)

    async def fail() -> None:
        async with running_node(settings) as engine:
            stream = await engine.open_stream(await engine.create_stream(), 0)
            engine.append(stream, b"not waited for", 1)
            raise KeyError("a bug in the caller")

    with pytest.raises(KeyError):
        asyncio.run(fail())
    assert threads_of_pools() == []
    with open_store(settings) as store:
        assert [stream.end_offset for stream in store.metadata.image.streams.values()] == [1]


def test_a_failure_while_opening_closes_what_was_opened(tmp_path: Path) -> None:
    asyncio.run(append_one(settings_of(tmp_path)))
    with pytest.raises(InvalidStoreUrl):
        asyncio.run(append_one(settings_of(tmp_path, **{"buckets.1": "gopher://x"})))
    assert threads_of_pools() == []
    asyncio.run(append_one(settings_of(tmp_path)))


def test_retry_settings_reach_the_stores(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, **{"retry.attempts_max": "3", "buckets.0": "memory:retry"})
    with open_store(settings, create=True) as store:
        assert store.buckets.store(0)._settings.attempts_max == 3  # type: ignore[attr-defined]


def test_time_and_chance_are_those_that_the_caller_gives(tmp_path: Path) -> None:
    clock, rng = ManualClock(), seeded_randomness(1)
    with open_store(settings_of(tmp_path), create=True, clock=clock, rng=rng) as store:
        assert store.context.clock is clock
        assert store.context.rng is rng
