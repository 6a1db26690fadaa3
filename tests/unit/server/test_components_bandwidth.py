"""The limits of a node: acknowledged records are uploaded and recovered, however low the limits are."""

import asyncio
from pathlib import Path

from siltstone.model.limits import MIB
from siltstone.object_store.bandwidth.limiter import limiter_of_process
from siltstone.object_store.bandwidth.turns import Direction, Grade
from siltstone.offline.opening.store import open_store
from siltstone.server.components import Node, open_node
from siltstone.server.settings.node import NodeSettings, load_node_settings

A_BYTE = {"bandwidth.in_bytes_per_second": "1", "bandwidth.out_bytes_per_second": "1"}


def settings_of(folder: Path, **flags: str) -> NodeSettings:
    return load_node_settings(folder, environment={}, flags={**A_BYTE, **flags})


async def append(node: Node, count: int) -> int:
    stream_id = await node.engine.create_stream({"topic": "t"})
    stream = await node.engine.open_stream(stream_id, 0)
    for number in range(count):
        assert await node.engine.append(stream, bytes(MIB), 1) == number
    return stream_id


def test_uploads_of_acknowledged_data_are_never_held(tmp_path: Path) -> None:
    """4 MiB at a byte a second would take 48 days."""

    async def scenario() -> None:
        async with open_node(settings_of(tmp_path)) as node:
            await append(node, 4)
            limiter = node.buckets.limiter
            own = limiter_of_process(settings_of(tmp_path).bandwidth)
            assert limiter is not own, "coroutines of one event loop wait at that of a node"
        counts = limiter.statistics()
        assert counts.of(Direction.OUT, Grade.UPLOAD).size_bytes > 4 * MIB
        assert counts.bytes_per_second == {Direction.IN: 1, Direction.OUT: 1}

    asyncio.run(asyncio.wait_for(scenario(), 120))
    with open_store(settings_of(tmp_path)) as store:
        assert sum(each.size_bytes for each in store.metadata.image.objects.values()) > 4 * MIB
        assert store.context.bandwidth == settings_of(tmp_path).bandwidth


def test_the_reader_of_a_node_gives_way_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    async def names(settings: NodeSettings) -> list[str]:
        async with open_node(settings):
            return [task.get_name() for task in asyncio.all_tasks()]

    assert "engine:give-way" in asyncio.run(names(settings_of(tmp_path)))
    switched_off = settings_of(tmp_path, **{"read.catch_up_gives_way": "false"})
    assert "engine:give-way" not in asyncio.run(names(switched_off))
