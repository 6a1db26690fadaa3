"""ShareGroupHeartbeat and ShareGroupDescribe, and what the other APIs of groups say of a share group."""

from typing import Any

import pytest

from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from siltstone.kafka_protocol.messages.share_group_describe import ShareGroupDescribeRequest
from siltstone.kafka_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from support.groups.consumer_client import ConsumerClient
from support.groups.group_client import GROUP, join_request
from support.groups.groups_world import GroupsWorld, run
from support.scenarios import scenario

SMALL = GroupSettings(group_share_max_size=2)


async def beat(world: GroupsWorld, member_id: str, epoch: int, *topics: str, **fields: Any) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        **({"subscribed_topic_names": list(topics)} if topics else {}) | fields,
    )
    return await world.ask(request, 1, "client")


def numbers(told: Any) -> list[int] | None:
    if told.assignment is None:
        return None
    return sorted(number for topic in told.assignment.topic_partitions for number in topic.partitions)


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": ""},
        {"member_id": ""},
        {"rack_id": ""},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
    ],
)
@scenario(run)
async def test_what_is_wrong_by_itself_is_refused_with_a_reason(
    world: GroupsWorld, fields: dict[str, Any]
) -> None:
    whole = {"group_id": GROUP, "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["flights"]}
    told = await world.ask(ShareGroupHeartbeatRequest(**(whole | fields)), 1)
    assert told.error_code == ErrorCode.INVALID_REQUEST and told.error_message.endswith(".")


@scenario(run)
async def test_a_partition_has_several_members_and_every_member_a_partition(world: GroupsWorld) -> None:
    count = world.topics.topics["flights"].partition_count
    first = await beat(world, "a", 0, "flights")
    assert (first.error_code, first.member_epoch, numbers(first)) == (0, 1, list(range(count)))
    epochs = [await beat(world, f"m{number}", 0, "flights") for number in range(count)]
    told = [
        await beat(world, "a", 1),
        *[await beat(world, f"m{n}", each.member_epoch) for n, each in enumerate(epochs)],
    ]
    assert {each.error_code for each in told} == {0}
    whole = [
        await beat(world, name, told[0].member_epoch, "flights")
        for name in ("a", *(f"m{n}" for n in range(count)))
    ]
    given = [number for each in whole for number in numbers(each) or ()]
    assert set(given) == set(range(count)) and len(given) == count + 1


@scenario(run)
async def test_epochs(world: GroupsWorld) -> None:
    await beat(world, "a", 0, "flights")
    assert numbers(await beat(world, "a", 1)) is None
    assert (await beat(world, "a", 7)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    await beat(world, "b", 0, "flights")
    moved = await beat(world, "a", 1)
    assert (moved.member_epoch, moved.error_code) == (2, 0)
    assert (await beat(world, "a", 1)).error_code == 0  # the answer may have been lost
    assert (await beat(world, "x", 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await beat(world, "a", -1)).member_epoch == -1
    assert (await beat(world, "a", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@scenario(run, SMALL)
async def test_a_full_group(world: GroupsWorld) -> None:
    for name in ("a", "b"):
        await beat(world, name, 0, "flights")
    assert (await beat(world, "c", 0, "flights")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@scenario(run)
async def test_a_silent_member_is_removed(world: GroupsWorld) -> None:
    await beat(world, "a", 0, "flights")
    await world.pass_ms(world.groups.settings.group_share_session_timeout_ms + 1)
    assert (await beat(world, "a", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@scenario(run)
async def test_the_kinds_of_groups_keep_apart(world: GroupsWorld) -> None:
    assert (await beat(world, "a", 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await beat(world, "a", 0, "flights")
    assert (await ConsumerClient(world, "c").join()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await world.ask(join_request(), 9)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    described = await world.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)
    assert described.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (listed,) = (await world.ask(ListGroupsRequest(types_filter=["share"]), 5)).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state) == (GROUP, "share", "Stable")
    await beat(world, "a", -1)
    assert (await ConsumerClient(world, "c").join()).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@scenario(run)
async def test_a_consumer_group_is_no_share_group(world: GroupsWorld) -> None:
    await ConsumerClient(world, "c").join()
    assert (await beat(world, "a", 0, "flights")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    described = await world.ask(ShareGroupDescribeRequest(group_ids=[GROUP, ""]), 1)
    assert [each.error_code for each in described.groups] == [
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_GROUP_ID,
    ]


@scenario(run)
async def test_a_described_group(world: GroupsWorld) -> None:
    await beat(world, "a", 0, "flights")
    (group,) = (await world.ask(ShareGroupDescribeRequest(group_ids=[GROUP]), 1)).groups
    (member,) = group.members
    assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 1, "simple")
    assert (member.member_id, member.subscribed_topic_names) == ("a", ["flights"])
    assert member.assignment.topic_partitions[0].topic_name == "flights"
    await beat(world, "a", -1)
    (group,) = (await world.ask(ShareGroupDescribeRequest(group_ids=[GROUP]), 1)).groups
    assert (group.group_state, group.members) == ("Empty", [])


@scenario(run)
async def test_the_log_has_all_of_a_group(world: GroupsWorld) -> None:
    await beat(world, "a", 0, "flights")
    await beat(world, "b", 0, "flights")
    await beat(world, "a", 1)

    def known(group: Any) -> Any:
        return {name: getattr(group, name) for name in group.__struct_fields__ if name != "seen"}

    before = await world.groups.look(GROUP, lambda each: known(each.group))
    world.restart()
    assert await world.groups.look(GROUP, lambda each: known(each.group)) == before
