"""Topics with registered groups on a broker, groups that commit, and time that passes."""

import asyncio
from typing import Any

from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from siltstone.maintenance.retention.groups import GroupProgress, progress_of
from support.broker.broker_world import BrokerWorld
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of, produce_request, row_of, rows_of

PROGRESS_MS = 5_000
QUOTA_MS = 60_000
TTL_MS = 300_000
GROUPS = "siltstone.retention.groups"


async def registered_topic(
    world: BrokerWorld, *groups: str, name: str = "t", partitions: int = 1, **configs: str
) -> Topic:
    """``configs``: ``backlog_quota_bytes`` stands for siltstone.backlog.quota.bytes."""
    own = {f"siltstone_{key}": value for key, value in configs.items()}
    return await world.topic(name, partitions, siltstone_retention_groups=",".join(groups), **own)


def committing(group: str, offsets: dict[int, int], topic: str = "t") -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=at, committed_offset=offset)
                    for at, offset in offsets.items()
                ],
            )
        ],
    )


async def commit(world: BrokerWorld, group: str, *offsets: int, topic: str = "t") -> Any:
    """Appends the first batch to partition 0, the second to 1 and so on. Returns the error code of the first."""
    response = await within_time(world, committing(group, dict(enumerate(offsets)), topic), 8)
    return rows_of(response)[0].error_code


async def committed(world: BrokerWorld, group: str, partition: int = 0, topic: str = "t") -> int:
    """Returns the offset as a client gets it; -1: there is none."""
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
    )
    return row_of(await within_time(world, request, 5)).committed_offset


async def delete_group(world: BrokerWorld, group: str) -> int:
    response = await within_time(world, DeleteGroupsRequest(groups_names=[group]), 2)
    return response.results[0].error_code


async def delete_offset(world: BrokerWorld, group: str, topic: str = "t") -> int:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    response = await within_time(world, OffsetDeleteRequest(group_id=group, topics=topics), 0)
    return response.error_code or row_of(response).error_code


async def within_time(world: BrokerWorld, request: Any, version: int) -> Any:
    """The coordinators may have to be loaded first, which takes nothing but turns of the event loop."""
    task = world.client().send(request, version)
    for _ in range(20):
        await settled()
        if task.done():
            return task.result()
    raise AssertionError(f"{type(request).__name__} is not answered")


async def store(world: BrokerWorld, topic: Topic, count: int = 1, **fields: Any) -> None:
    """Makes ``count`` records in batches of one: 100 value bytes and what surrounds them."""
    for _ in range(count):
        batch = batch_of(1, **{"value_bytes": 100, **fields})
        response = await world.client().ask(produce_request(topic, batch))
        assert row_of(response).error_code == 0, row_of(response)


def mirrored(world: BrokerWorld, group: str) -> GroupProgress | None:
    return progress_of(world.parts.metadata.image.keys, group)


def mirrored_offset(world: BrokerWorld, group: str, topic: Topic, partition: int = 0) -> int | None:
    """Returns None when the metadata does not know the group."""
    progress = mirrored(world, group)
    return None if progress is None else progress.offset(topic.id, partition)


async def pass_long(world: BrokerWorld, duration_ms: int, step_ms: int = 1_000) -> None:
    """Time passes in steps, because timers begin anew where they rang."""
    for _ in range(duration_ms // step_ms):
        await world.pass_ms(step_ms)
    await settled()


def is_answered(task: "asyncio.Task[Any]") -> bool:
    return task.done()
