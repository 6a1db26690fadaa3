"""The offsets of share groups as administrators see and set them."""

from functools import partial
from typing import Any

from siltstone.broker.apis.share_offsets import NOT_USED
from siltstone.broker.groups.share_protocol.group import ShareGroup
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from siltstone.kafka_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from siltstone.kafka_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from siltstone.model.access import NODE
from siltstone.model.audit import AuditLevel
from support.broker.broker_world import in_broker_world
from support.groups.share_client import ACCEPT, SHARES, ShareClient, progress_of, shared_topic
from support.scenarios import scenario
from support.security.audit import CHANGED, audited, fields_of

NONE = ErrorCode.NONE


async def beat(world: Any, epoch: int, **fields: Any) -> Any:
    request = ShareGroupHeartbeatRequest(group_id=SHARES, member_id="m", member_epoch=epoch, **fields)
    return await world.client().ask(request)


async def described(world: Any, topics: Any = None, client: Any = None) -> Any:
    group = DescribeShareGroupOffsetsRequestGroup(group_id=SHARES, topics=topics)
    (told,) = (await (client or world.client()).ask(DescribeShareGroupOffsetsRequest(groups=[group]))).groups
    if told.error_code:
        return told.error_code
    return [
        (topic.topic_name, each.partition_index, each.start_offset, each.lag, each.error_code)
        for topic in told.topics
        for each in topic.partitions
    ]


async def altered(world: Any, start_offset: int, name: str = "t") -> tuple[int, list[int]]:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=start_offset)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[partition])
    told = await world.client().ask(AlterShareGroupOffsetsRequest(group_id=SHARES, topics=[topic]))
    return told.error_code, [each.error_code for row in told.responses for each in row.partitions]


async def deleted(world: Any, *names: str) -> tuple[int, list[int]]:
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
    told = await world.client().ask(DeleteShareGroupOffsetsRequest(group_id=SHARES, topics=topics))
    return told.error_code, [row.error_code for row in told.responses]


@scenario(in_broker_world)
async def test_where_a_group_begins_and_what_it_has_left(world) -> None:
    topic = await shared_topic(world, records=10)
    assert await described(world) == []
    of_t = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])]
    assert await described(world, of_t) == [("t", 0, NOT_USED, -1, NONE)]
    await beat(world, 0, subscribed_topic_names=["t"])
    assert await described(world) == [("t", 0, NOT_USED, -1, NONE)]
    member = ShareClient(world, topic)
    await member.fetch()
    await member.acknowledge((0, 1, [ACCEPT]), (5, 6, [ACCEPT]))
    assert await described(world) == [("t", 0, 2, 6, NONE)]
    named = [
        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0, 3]) for name in ("t", "no")
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await described(world, named) == [
        ("t", 0, 2, 6, NONE),
        ("t", 3, 0, -1, unknown),
        ("no", 0, NOT_USED, -1, NONE),
        ("no", 3, NOT_USED, -1, NONE),
    ]


@scenario(in_broker_world)
async def test_a_start_is_set_for_a_group_without_members(world) -> None:
    topic = await shared_topic(world, records=10)
    told = await beat(world, 0, subscribed_topic_names=["t"])
    member = ShareClient(world, topic)
    await member.fetch()
    assert await altered(world, 3) == (ErrorCode.NON_EMPTY_GROUP, [])
    await beat(world, -1)
    assert told.member_epoch == 1
    assert await altered(world, 3) == (0, [0])
    assert await altered(world, 3, "no") == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert await member.fetch() == [(3, 9, 1)]
    await world.crash()
    await world.partition(topic)
    assert progress_of(world, topic).start_offset == 3


@scenario(in_broker_world)
async def test_a_start_is_set_for_a_group_that_is_to_come(world) -> None:
    """As Apache Kafka 4.3.1 does, and franz-go expects."""
    await shared_topic(world, records=10)
    assert await altered(world, 3, "no") == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert await described(world) == []
    assert await altered(world, 3) == (0, [0])
    await world.crash()
    assert await described(world) == [("t", 0, 3, 7, NONE)]
    assert (await beat(world, 0, subscribed_topic_names=["t"])).member_epoch == 2


@scenario(in_broker_world)
async def test_what_a_group_knows_of_a_topic_is_deleted(world) -> None:
    topic = await shared_topic(world, records=10)
    assert await deleted(world, "t") == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    await beat(world, 0, subscribed_topic_names=["t"])
    await ShareClient(world, topic).fetch()
    assert await deleted(world, "t") == (ErrorCode.NON_EMPTY_GROUP, [])
    await beat(world, -1)
    assert await deleted(world, "t", "no") == (0, [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert await described(world) == []
    await world.crash()
    partition = await world.partition(topic)
    assert partition.shares.get(SHARES) is None


@scenario(in_broker_world)
async def test_a_deleted_group_begins_again(world) -> None:
    topic = await shared_topic(world, records=10)
    await beat(world, 0, subscribed_topic_names=["t"])
    member = ShareClient(world, topic)
    await member.fetch()
    request = DeleteGroupsRequest(groups_names=[SHARES])
    (row,) = (await world.client().ask(request)).results
    assert row.error_code == ErrorCode.NON_EMPTY_GROUP
    await member.acknowledge((0, 9, [ACCEPT]))
    await beat(world, -1)
    (row,) = (await world.client().ask(request)).results
    assert row.error_code == 0
    assert await world.parts.groups.look(SHARES, lambda known: known) is None
    await world.crash()
    assert await ShareClient(world, topic).fetch() == [(0, 9, 1)]


@scenario(in_broker_world)
async def test_another_node_asks_for_what_this_one_leads(world) -> None:
    topic = await shared_topic(world, records=10)
    client = world.client()
    client.connection.principal = NODE
    await ShareClient(world, topic).fetch()
    named = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])]
    assert await described(world, named, client) == [("t", 0, 0, 10, NONE)]
    unheard = [DescribeShareGroupOffsetsRequestTopic(topic_name="no", partitions=[0])]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await described(world, unheard, client) == [("no", 0, 0, -1, unknown)], "not yet heard of"


@scenario(in_broker_world)
async def test_sh10_the_members_are_in_the_log(world) -> None:
    await shared_topic(world)
    first = await beat(world, 0, subscribed_topic_names=["t"])
    await world.crash()
    again = await beat(world, first.member_epoch)
    assert (again.error_code, again.member_epoch, again.assignment) == (0, 1, None)
    group = await world.parts.groups.look(SHARES, lambda known: known.group)
    assert isinstance(group, ShareGroup) and list(group.members) == ["m"]


async def passes(world: Any) -> None:
    for _ in range(12):
        await world.pass_ms(1_000)


@scenario(partial(in_broker_world, settings=BrokerSettings(audit=AuditLevel.CHANGES)))
async def test_au03_who_set_and_deleted_the_beginning_of_a_share_group_is_in_the_audit(world) -> None:
    topic = await shared_topic(world, records=10)
    await beat(world, 0, subscribed_topic_names=["t"])
    member = ShareClient(world, topic)
    await member.fetch()
    await member.acknowledge((0, 1, [ACCEPT]))
    assert await altered(world, 3) == (ErrorCode.NON_EMPTY_GROUP, [])  # refused: no event
    await beat(world, -1)
    assert await altered(world, 3) == (0, [0])
    assert await altered(world, 5, "no") == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert await deleted(world, "t") == (0, [0])
    assert await deleted(world, "t") == (0, [0])  # there is nothing left
    await passes(world)  # changes of a group within ten seconds are one record with a count
    assert await altered(world, 4) == (0, [0])
    await world.client().ask(DeleteGroupsRequest(groups_names=[SHARES]))
    await passes(world)
    found = [each for each in await audited(world.parts) if each["event"] == "offsets"]
    group = f"group {SHARES}"
    assert sorted((each["api"], *fields_of(each, CHANGED[1:])) for each in found) == [
        ("AlterShareGroupOffsets", "RESET", group, "", "t-0=4"),
        ("AlterShareGroupOffsets", "RESET", group, "t-0=2", "t-0=3"),
        ("DeleteGroups", "DELETE", group, "t-0=4", ""),
        ("DeleteShareGroupOffsets", "DELETE", group, "t-0=3", ""),
    ]
