"""DescribeLogDirs: one directory, and the bytes of partitions wherever they lie."""

import asyncio

import pytest

from siltstone.broker.apis import describe_log_dirs
from siltstone.kafka_protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from siltstone.object_formats.batch_frame import FRAME_HEADER_BYTES
from support.broker.broker_world import in_broker_world
from support.kafka.kafka_requests import batch_of, produce_request
from support.kafka.message_versions import versions_with_own_layout
from support.scenarios import scenario

EVERYTHING = DescribeLogDirsRequest(topics=None)


def asking(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics]
    )


async def sizes(world, request=EVERYTHING, version=5) -> dict[tuple[str, int], int]:
    answer = await world.client().ask(request, version)
    (folder,) = answer.results
    assert folder.error_code == answer.error_code == 0
    rows = [(topic.name, row) for topic in folder.topics for row in topic.partitions]
    assert not any(row.offset_lag or row.is_future_key for _, row in rows)
    return {(name, row.partition_index): row.partition_size for name, row in rows}


@pytest.mark.parametrize("version", versions_with_own_layout(DescribeLogDirsRequest))
@scenario(in_broker_world)
async def test_the_bytes_of_batches_count_in_the_log_and_in_objects(world, version) -> None:
    topic = await world.topic(partitions=2)
    batches = [batch_of(5, value_bytes=100) for _ in range(3)]
    for each in batches[:2]:
        await world.client().ask(produce_request(topic, each))
    assert await sizes(world, version=version) == {("t", 0): sum(map(len, batches[:2])), ("t", 1): 0}
    await world.node.engine.flush()
    assert await sizes(world, version=version) == {("t", 0): sum(map(len, batches[:2])), ("t", 1): 0}
    await world.client().ask(produce_request(topic, batches[2]))
    assert (await sizes(world, version=version))["t", 0] == sum(map(len, batches))
    await world.restart()
    assert world.parts.partitions.opened(topic.id, 0) is None
    without_opening_it = (await sizes(world, version=version))["t", 0]
    assert without_opening_it == sum(map(len, batches)) + 3 * FRAME_HEADER_BYTES


@pytest.mark.parametrize("is_in_objects", [False, True])
@scenario(in_broker_world)
async def test_what_was_deleted_does_not_count(world, is_in_objects) -> None:
    topic = await world.topic()
    each = batch_of(5, value_bytes=100)
    for _ in range(4):
        await world.client().ask(produce_request(topic, bytearray(each)))
    if is_in_objects:
        await world.node.engine.flush()
        await world.restart()
    await world.parts.partitions.trim(await world.partition(topic), 15)
    left = (await sizes(world))["t", 0]
    assert left == len(each) + (FRAME_HEADER_BYTES if is_in_objects else 0)


@scenario(in_broker_world)
async def test_partitions_that_are_named_once_each_and_those_that_are_not_there_never(world) -> None:
    await world.topic("a", partitions=3)
    await world.topic("b")
    asked = asking(("a", [2, 0, 2, 7, -1]), ("nowhere", [0]), ("a", [0]))
    assert await sizes(world, asked) == {("a", 2): 0, ("a", 0): 0}
    assert await sizes(world, asking()) == {}


@scenario(in_broker_world)
async def test_the_directory_is_the_log_s_and_its_volume_has_no_figures(world) -> None:
    await world.topic()
    (folder,) = (await world.client().ask(EVERYTHING)).results
    location = world.parts.metadata.image.nodes[world.parts.node_id].wal_location
    assert folder.log_dir and folder.log_dir in location
    assert (folder.total_bytes, folder.usable_bytes, folder.is_cordoned) == (-1, -1, False)


def test_many_partitions_do_not_hold_up_others(monkeypatch):
    monkeypatch.setattr(describe_log_dirs, "PIECES_PER_TURN", 10)

    async def scenario(world):
        await world.topic(partitions=100)
        asked, turns = world.client().send(EVERYTHING), 0
        while not asked.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 100 // 10
        assert len((await asked).results[0].topics[0].partitions) == 100

    in_broker_world(scenario)
