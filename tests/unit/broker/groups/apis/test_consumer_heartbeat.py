"""ConsumerGroupHeartbeat, and what the other APIs of groups say of its members."""

from typing import Any

import pytest

from siltstone.broker.group_configs import written_group_configs
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedPartitions,
)
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from support.groups.consumer_client import ConsumerClient, settle
from support.groups.group_client import GROUP, GroupClient, commit_request, stable_group
from support.groups.groups_world import GroupsWorld, run
from support.scenarios import scenario

AT_ONCE = GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0)
WHOLE = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["flights"], "topic_partitions": []}


def request_of(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        **({"group_id": GROUP, "member_id": "m", "member_epoch": 0} | fields)
    )


@pytest.mark.parametrize(
    "fields",
    [
        WHOLE | {"group_id": ""},
        WHOLE | {"instance_id": ""},
        WHOLE | {"rack_id": " "},
        WHOLE | {"member_id": ""},
        WHOLE | {"rebalance_timeout_ms": -1},
        WHOLE | {"subscribed_topic_names": None},
        WHOLE | {"topic_partitions": None},
        WHOLE | {"topic_partitions": [OwnedPartitions(topic_id=bytes(16), partitions=[0])]},
        {"member_epoch": -2},
        {"member_epoch": -3},
    ],
)
@scenario(run)
async def test_what_is_wrong_by_itself_is_refused_with_a_reason(
    world: GroupsWorld, fields: dict[str, Any]
) -> None:
    told = await world.ask(request_of(**fields), 1)
    assert told.error_code == ErrorCode.INVALID_REQUEST and told.error_message.endswith(".")
    assert await world.groups.look_at_all(lambda known: known) == []


@scenario(run)
async def test_ng05_an_unknown_assignor_is_refused_with_those_there_are(world: GroupsWorld) -> None:
    told = await world.ask(request_of(**WHOLE, server_assignor="sticky"), 1)
    assert told.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR and "uniform, range" in told.error_message


@scenario(run)
async def test_ng10_a_pattern_that_cannot_be_read_is_refused_at_once(world: GroupsWorld) -> None:
    pattern = WHOLE | {"subscribed_topic_names": None, "subscribed_topic_regex": "(?!x)"}
    told = await world.ask(request_of(**pattern), 1)
    assert told.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION and "(?!" in told.error_message
    told = await world.ask(request_of(**pattern | {"subscribed_topic_regex": "fl.*"}), 1)
    assert told.error_code == 0 and len(told.assignment.topic_partitions) == 1


@scenario(run)
async def test_an_unknown_group_has_members_only_by_joining(world: GroupsWorld) -> None:
    told = await world.ask(request_of(member_epoch=3), 1)
    assert told.error_code == ErrorCode.GROUP_ID_NOT_FOUND and told.error_message
    client = ConsumerClient(world, "m")
    told = await client.join()
    assert (told.member_epoch, told.heartbeat_interval_ms) == (1, 1_000)
    assert client.owned == {("flights", number) for number in range(4)}


@scenario(run)
async def test_ng23_in_version_0_the_broker_makes_the_member_id(world: GroupsWorld) -> None:
    client = ConsumerClient(world, "", version=0)
    told = await client.join()
    assert told.error_code == 0 and len(told.member_id) > 30
    assert (await client.beat()).error_code == 0


@scenario(run, AT_ONCE)
async def test_members_assignments_and_offsets_outlive_a_crash(world: GroupsWorld) -> None:
    one, two = ConsumerClient(world, "one"), ConsumerClient(world, "two", instance="desk")
    for client in (one, two):
        await client.join()
    await settle(one, two)
    assert {len(one.owned), len(two.owned)} == {2}
    world.restart()
    for client in (one, two):
        had = client.owned
        told = await client.say_owned()
        assert (told.error_code, told.member_epoch, told.assignment) == (0, client.epoch, None)
        assert client.owned == had
    await world.pass_ms(44_000)
    await one.beat()
    await world.pass_ms(2_000)
    await settle(one)
    assert one.owned == {("flights", number) for number in range(4)}, (
        "the session of two began anew, and ended"
    )


@scenario(run, AT_ONCE)
async def test_a_revocation_begins_anew_after_a_crash(world: GroupsWorld) -> None:
    one, two = ConsumerClient(world, "one"), ConsumerClient(world, "two")
    await one.join()
    await two.join()
    await one.beat()
    await world.pass_ms(30_000)
    world.restart()
    await one.beat()
    for _ in range(3):
        await world.pass_ms(19_000)
        await one.beat()
        await two.beat()
    assert two.owned == frozenset()
    await world.pass_ms(4_000)
    await settle(two)
    assert len(two.owned) == 4


def offset_commit(client: ConsumerClient, epoch: int, *partitions: int) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(partition_index=number, committed_offset=7) for number in partitions]
    topic_id = b"flights".ljust(16, b".")
    return OffsetCommitRequest(
        group_id=GROUP,
        member_id=client.member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name="flights", topic_id=topic_id, partitions=rows)],
    )


def codes(response: Any) -> list[int]:
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


@pytest.mark.parametrize("version", [9, 10])
@scenario(run, AT_ONCE)
async def test_ng15_a_commit_of_an_epoch_before(world: GroupsWorld, version: int) -> None:
    """One has kept two partitions since epoch 1; a partition that it has not had since then may be another's."""
    one, two = ConsumerClient(world, "one"), ConsumerClient(world, "two")
    await one.join()
    await two.join()
    await settle(one, two)
    kept = sorted(number for _, number in one.owned)
    others = sorted(number for _, number in two.owned)
    assert one.epoch == 2
    assert codes(await world.ask(offset_commit(one, 2, *kept), version)) == [0, 0]
    assert codes(await world.ask(offset_commit(one, 1, kept[0], others[0]), version)) == [0, 113]
    assert codes(await world.ask(offset_commit(two, 1, others[0]), version)) == [113]
    assert codes(await world.ask(offset_commit(one, 3, *kept), version)) == [113, 113]
    one.member_id = "stranger"
    assert codes(await world.ask(offset_commit(one, 2, *kept), version)) == [25, 25]
    assert set(codes(await world.ask(offset_commit(one, -1, 0), version))) == {25}


@scenario(run, AT_ONCE)
async def test_ng15_older_commits_do_not_know_epochs(world: GroupsWorld) -> None:
    one = ConsumerClient(world, "one")
    await one.join()
    assert codes(await world.ask(offset_commit(one, 1, 0), 8)) == [ErrorCode.UNSUPPORTED_VERSION]
    outsider = commit_request(5)
    assert set(codes(await world.ask(outsider, 8))) == {ErrorCode.UNKNOWN_MEMBER_ID}
    await one.leave()
    assert set(codes(await world.ask(outsider, 8))) == {0}


@scenario(run, AT_ONCE)
async def test_ng16_offsets_are_for_members_of_this_epoch(world: GroupsWorld) -> None:
    one = ConsumerClient(world, "one")
    await one.join()
    await world.ask(offset_commit(one, 1, 0), 9)
    expected = {("one", 1): 0, ("one", 0): 113, ("one", 2): 113, ("two", 1): 25, (None, -1): 0}
    for (member_id, epoch), code in expected.items():
        group = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=None)
        (told,) = (await world.ask(OffsetFetchRequest(groups=[group]), 9)).groups
        assert told.error_code == code, (member_id, epoch)
        assert [partition.committed_offset for topic in told.topics for partition in topic.partitions] == (
            [] if code else [7]
        )


@scenario(run, AT_ONCE)
async def test_an_empty_group_changes_its_protocol_and_keeps_its_offsets(world: GroupsWorld) -> None:
    (classic,) = await stable_group(world, "classic")
    await classic.commit(5)
    one = ConsumerClient(world, "one")
    assert (await one.join()).error_code == ErrorCode.GROUP_ID_NOT_FOUND, "it has a member"
    await classic.leave()
    assert (await one.join()).error_code == 0
    world.restart()
    assert (await one.beat()).error_code == 0
    await one.leave()
    world.restart()
    (back,) = await stable_group(world, "back")
    world.restart()
    assert await back.beat() == 0
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    (told,) = (await world.ask(OffsetFetchRequest(groups=[group]), 9)).groups
    assert {partition.committed_offset for topic in told.topics for partition in topic.partitions} == {5}


@scenario(run, AT_ONCE)
async def test_ng20_a_group_of_another_type_is_not_taken_over(world: GroupsWorld) -> None:
    await GroupClient(world, "worker", protocol_type="connect").begin_join()
    one = ConsumerClient(world, "one")
    assert (await one.join()).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@scenario(run, AT_ONCE)
async def test_a_group_is_deleted_when_it_is_empty(world: GroupsWorld) -> None:
    one = ConsumerClient(world, "one")
    await one.join()
    await world.ask(offset_commit(one, 1, 0), 9)
    delete = DeleteGroupsRequest(groups_names=[GROUP])
    assert [row.error_code for row in (await world.ask(delete, 2)).results] == [ErrorCode.NON_EMPTY_GROUP]
    await one.leave()
    assert [row.error_code for row in (await world.ask(delete, 2)).results] == [0]
    world.restart()
    assert await world.groups.look_at_all(lambda known: known) == []


@scenario(run, GroupSettings(group_consumer_assignment_interval_ms=0, checkpoint_records_min=20))
async def test_a_checkpoint_keeps_the_group(world: GroupsWorld) -> None:
    one, two = ConsumerClient(world, "one"), ConsumerClient(world, "two")
    await one.join()
    for _ in range(10):
        await two.join()
        await settle(one, two)
        await two.leave()
        await settle(one)
    assert world.groups.statistics.coordinators[0].checkpoints > 0
    world.restart()
    assert (await one.say_owned()).error_code == 0 and len(one.owned) == 4


@scenario(run, AT_ONCE)
async def test_the_interval_grows_with_the_members_of_the_node(world: GroupsWorld) -> None:
    told = []
    for number in range(300):
        client = ConsumerClient(world, f"m{number}", group=f"g{number % 20}")
        told.append((await client.join()).heartbeat_interval_ms)
    assert told[0] == told[30] == 1_000 and told[-1] == 5_000
    assert told == sorted(told) and 2_900 < told[150] < 3_100


@scenario(run, AT_ONCE)
async def test_ng22_a_group_tells_its_members_the_interval_that_it_sets(world: GroupsWorld) -> None:
    world.configured[GROUP] = written_group_configs({"consumer.heartbeat.interval.ms": "15000"})
    assert (await ConsumerClient(world, "m").join()).heartbeat_interval_ms == 15_000
    assert (await ConsumerClient(world, "m", group="other").join()).heartbeat_interval_ms == 1_000


@scenario(run, AT_ONCE)
async def test_ng22_a_session_lasts_as_long_as_the_group_sets(world: GroupsWorld) -> None:
    world.configured[GROUP] = written_group_configs({"consumer.session.timeout.ms": "60000"})
    one, other = ConsumerClient(world, "one"), ConsumerClient(world, "one", group="other")
    for client in (one, other):
        await client.join()
    await world.pass_ms(50_000)
    assert (await other.beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await one.beat()).error_code == 0
    world.restart()
    await world.pass_ms(50_000)
    assert (await one.beat()).error_code == 0, "a group that is loaded has its own settings, too"
    await world.pass_ms(60_000)
    assert (await one.beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@scenario(run)
async def test_ng22_assignments_are_as_far_apart_as_the_group_sets(world: GroupsWorld) -> None:
    world.configured[GROUP] = written_group_configs({"consumer.assignment.interval.ms": "15000"})
    one, two = ConsumerClient(world, "one"), ConsumerClient(world, "two")
    for client in (one, two):
        await client.join()
    await world.pass_ms(14_000)
    await settle(one, two)
    assert not two.owned
    await world.pass_ms(2_000)
    await settle(one, two)
    assert len(two.owned) == 2
