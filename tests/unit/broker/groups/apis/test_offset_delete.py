"""OffsetDelete."""

from typing import Any

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from support.groups.group_client import GROUP, GroupClient, all_join, commit_request, committed, stable_group
from support.groups.groups_world import GroupsWorld, run
from support.scenarios import scenario


async def delete(world: GroupsWorld, group: str, **topics: list[int]) -> tuple[int, dict[str, list[int]]]:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
            )
            for name, numbers in topics.items()
        ],
    )
    response: Any = await world.ask(request, 0)
    return response.error_code, {
        topic.name: [partition.error_code for partition in topic.partitions] for topic in response.topics
    }


async def offsets(world: GroupsWorld) -> None:
    for partition in range(2):
        await world.ask(commit_request(1, partition=partition), 8)
        await world.ask(commit_request(1, partition=partition, topic="planes"), 8)


@scenario(run)
async def test_of_an_empty_group_anything_goes(world: GroupsWorld) -> None:
    await offsets(world)
    answer = await delete(world, GROUP, flights=[0, 3, 9, -1], planes=[1], nowhere=[0])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer == (0, {"flights": [0, 0, unknown, unknown], "planes": [0], "nowhere": [unknown]})
    assert await committed(world) == {("flights", 1): 1, ("planes", 0): 1}
    world.restart()
    assert await committed(world) == {("flights", 1): 1, ("planes", 0): 1}


@scenario(run)
async def test_of_a_group_with_members_only_what_none_of_them_reads(world: GroupsWorld) -> None:
    await offsets(world)
    await stable_group(world, "first")
    answer = await delete(world, GROUP, flights=[0, 9], planes=[0, 1])
    refused = [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert answer == (0, {"flights": refused, "planes": [0, 0]})
    assert await committed(world) == {("flights", 0): 1, ("flights", 1): 1}


@scenario(run)
async def test_of_a_group_of_another_type_nothing_while_it_has_members(world: GroupsWorld) -> None:
    await offsets(world)
    client = GroupClient(world, "worker", protocol_type="connect")
    await all_join(client)
    assert await delete(world, GROUP, planes=[0]) == (ErrorCode.NON_EMPTY_GROUP, {})
    await client.leave()
    assert await delete(world, GROUP, planes=[0]) == (0, {"planes": [0]})


@scenario(run)
async def test_group_ids(world: GroupsWorld) -> None:
    assert await delete(world, "", flights=[0]) == (ErrorCode.INVALID_GROUP_ID, {})
    assert await delete(world, "nobody", flights=[0]) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
