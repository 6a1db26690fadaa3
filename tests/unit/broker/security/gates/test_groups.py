"""What a client that may see only a part sees of consumer groups and their offsets."""

from typing import Any

import pytest

from siltstone.kafka_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from siltstone.model.acls import AclOperation, AclResourceType
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.scenarios import scenario
from support.security.rights import ROOT, allow, client_of, switch

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE


async def _committed(world: BrokerWorld) -> None:
    """Two topics, and two groups with offsets in both."""
    for name in ("a", "b"):
        await world.topic(name)
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topics = [OffsetCommitRequestTopic(name=name, partitions=[row]) for name in ("a", "b")]
    for group_id in ("g", "h"):
        await client_of(world, ROOT).ask(OffsetCommitRequest(group_id=group_id, topics=topics), 9)


@scenario(in_broker_world)
async def test_ac09_a_group_without_its_topic(world: BrokerWorld) -> None:
    await _committed(world)
    await switch(world, allow(READ, GROUP, "g"), allow(READ, TOPIC, "a"))
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=6)
    topics = [OffsetCommitRequestTopic(name=name, partitions=[row]) for name in ("a", "b", "missing")]
    told = await client_of(world).ask(OffsetCommitRequest(group_id="g", topics=topics), 9)
    codes = {each.name: each.partitions[0].error_code for each in told.topics}
    assert codes == {"a": 0, "b": 29, "missing": 29}
    told = await client_of(world).ask(OffsetCommitRequest(group_id="h", topics=topics), 9)
    assert {each.partitions[0].error_code for each in told.topics} == {30}


@pytest.mark.parametrize("version", [7, 9, 10])
@scenario(in_broker_world)
async def test_ac10_all_offsets_are_those_of_seen_topics(world: BrokerWorld, version: int) -> None:
    await _committed(world)
    await switch(world, allow(DESCRIBE, GROUP, "g"), allow(DESCRIBE, TOPIC, "a"))
    groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("g", "h")]
    request = OffsetFetchRequest(group_id="g", topics=None, groups=groups)
    told = await client_of(world).ask(request, version)
    if version == 7:
        assert [topic.name for topic in told.topics] == ["a"]
        other = OffsetFetchRequest(group_id="h", topics=None)
        assert (await client_of(world).ask(other, version)).error_code == 30
        return
    rows = {row.group_id: (row.error_code, len(row.topics)) for row in told.groups}
    assert rows == {"g": (0, 1), "h": (30, 0)}


@pytest.mark.parametrize("version", [1, 9])
@scenario(in_broker_world)
async def test_ac10_named_topics_that_are_hidden_have_rows(world: BrokerWorld, version: int) -> None:
    await _committed(world)
    await switch(world, allow(DESCRIBE, GROUP, "g"), allow(DESCRIBE, TOPIC, "a"))
    old = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ("a", "b")]
    new = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("a", "b")]
    one = OffsetFetchRequestGroup(group_id="g", topics=new)
    told = await client_of(world).ask(
        OffsetFetchRequest(group_id="g", topics=old, groups=[one, one]), version
    )
    topics = told.topics if version == 1 else told.groups[0].topics
    rows = {row.name: (row.partitions[0].committed_offset, row.partitions[0].error_code) for row in topics}
    assert rows == {"a": (5, 0), "b": (-1, 29)}
    if version == 1:
        hidden = OffsetFetchRequest(group_id="h", topics=old)
        rows = (await client_of(world).ask(hidden, version)).topics
        assert {row.partitions[0].error_code for row in rows} == {30}, "version 1 has no code of the group"


@scenario(in_broker_world)
async def test_ac10_groups_are_listed_and_described_as_far_as_they_may_be_seen(world: BrokerWorld) -> None:
    await _committed(world)
    await switch(world, allow(DESCRIBE, GROUP, "g"))
    client = client_of(world)
    assert [each.group_id for each in (await client.ask(ListGroupsRequest())).groups] == ["g"]
    assert len((await client_of(world, ROOT).ask(ListGroupsRequest())).groups) == 2
    request = DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True)
    told = {each.group_id: each for each in (await client.ask(request)).groups}
    assert (told["g"].error_code, told["h"].error_code) == (0, 30)
    assert told["g"].authorized_operations == 1 << DESCRIBE


@pytest.mark.parametrize(("key_type", "code"), [(0, 30), (1, 53)])
@scenario(in_broker_world)
async def test_ac01_a_coordinator_is_found_by_who_may_describe(
    world: BrokerWorld, key_type: int, code: int
) -> None:
    await switch(world, allow(DESCRIBE, GROUP, "g"))
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g", "h"])
    rows = {row.key: row.error_code for row in (await client_of(world).ask(request)).coordinators}
    assert rows["h"] == code
    assert key_type or rows["g"] == 0
    old = await client_of(world).ask(FindCoordinatorRequest(key="h", key_type=key_type), 3)
    assert (old.error_code, old.node_id) == (code, -1)


def _beat(group_id: str = "g", **said: Any) -> ConsumerGroupHeartbeatRequest:
    whole = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["a"], "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(group_id=group_id, member_id="m", **(whole | said))


@scenario(in_broker_world)
async def test_ac09_a_member_of_kip_848_names_topics_that_it_may_see(world: BrokerWorld) -> None:
    for name in ("a", "b"):
        await world.topic(name)
    await switch(world, allow(READ, GROUP, "g"), allow(DESCRIBE, TOPIC, "a"))
    client = client_of(world)
    expected = [
        (_beat("h"), 30),
        (_beat(), 0),
        (_beat(subscribed_topic_names=["a", "b"]), 29),
        (_beat(subscribed_topic_names=["a", "missing"]), 29),
    ]
    for request, code in expected:
        told = await client.ask(request, 1)
        assert told.error_code == code and bool(told.error_message) is bool(code)


@scenario(in_broker_world)
async def test_ac09_a_pattern_finds_what_the_client_may_see(world: BrokerWorld) -> None:
    for name in ("a", "b"):
        await world.topic(name)
    await switch(world, allow(READ, GROUP, "g"), allow(DESCRIBE, TOPIC, "a"))
    named = {"subscribed_topic_names": None, "subscribed_topic_regex": ".*"}
    told = await client_of(world).ask(_beat(**named), 1)
    assert told.error_code == 0
    assert [row.topic_id for row in told.assignment.topic_partitions] == [
        world.parts.topics.by_name("a").topic_id
    ]


@scenario(in_broker_world)
async def test_ac10_a_group_with_a_hidden_topic_is_not_described(world: BrokerWorld) -> None:
    for name in ("a", "b"):
        await world.topic(name)
    root = client_of(world, ROOT)
    await root.ask(_beat(), 1)
    await root.ask(_beat("h", subscribed_topic_names=["a", "b"]), 1)
    await root.ask(_beat("i"), 1)
    await switch(world, allow(DESCRIBE, GROUP, "g"), allow(DESCRIBE, GROUP, "h"), allow(DESCRIBE, TOPIC, "a"))
    request = ConsumerGroupDescribeRequest(group_ids=["g", "h", "i"])
    rows = {row.group_id: row for row in (await client_of(world).ask(request, 1)).groups}
    assert {group_id: row.error_code for group_id, row in rows.items()} == {"g": 0, "h": 29, "i": 30}
    assert len(rows["g"].members) == 1 and rows["h"].members == []
