"""Offsets of groups that are committed with transactions, as clients commit and fetch them."""

import asyncio

import pytest

from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.transactions.rules.decision import MarkersToWrite
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.kafka_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from siltstone.kafka_protocol.records.control import Outcome
from support.broker.broker_world import WRITE, in_broker_world
from support.broker.transaction_clients import (
    NONE,
    TIMEOUT_MS,
    TransactionClient,
    commit_plainly,
    ends,
    offset_of,
    started,
)
from support.engine.engine_world import settled
from support.scenarios import scenario

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
OUTCOMES = pytest.mark.parametrize("commits", [True, False])
GENERATIONS = pytest.mark.parametrize("generation", [1, 2])
ONE = BrokerSettings(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)


def in_world(scenario):
    in_broker_world(scenario, ONE)


async def gone_on(world, client):
    """The client after a restart of the broker."""
    again = TransactionClient(world, 2 if client.adds_itself else 1, client.name)
    again.pid, again.epoch, again.sequences = client.pid, client.epoch, client.sequences
    await settled()
    return again


async def groups_loaded(world):
    for _ in range(20):
        await settled()


@GENERATIONS
@OUTCOMES
@scenario(in_world)
async def test_tg1_tg2_tg23_pending_offsets_are_not_shown_and_the_marker_shows_or_drops_them(
    world, generation, commits
) -> None:
    topic = await world.topic()
    await commit_plainly(world, "g", "t", 3)
    client = await started(world, generation)
    await client.send(topic)
    await client.send_offsets("g", "t", p0=7)
    assert await offset_of(world, "g", "t") is UNSTABLE
    assert await offset_of(world, "g", "t", stable=False) == 3
    assert await client.end(commits) is NONE
    assert await offset_of(world, "g", "t") == (7 if commits else 3)
    await world.restart()
    assert await offset_of(world, "g", "t") == (7 if commits else 3)


@OUTCOMES
@scenario(in_world)
async def test_tg4_tg9_after_a_crash_they_are_pending_again(world, commits) -> None:
    await world.topic()
    await commit_plainly(world, "g", "t", 5)
    client = await started(world)
    await client.send_offsets("g", "t", p0=7)
    await world.crash()
    await groups_loaded(world)
    client = await gone_on(world, client)
    assert await offset_of(world, "g", "t") is UNSTABLE
    assert await client.end(commits) is NONE
    assert await offset_of(world, "g", "t") == (7 if commits else 5)
    await world.crash()
    assert await offset_of(world, "g", "t") == (7 if commits else 5)


@scenario(in_world)
async def test_tg9_the_timeout_drops_them(world) -> None:
    await world.topic()
    client = await started(world)
    await client.send_offsets("g", "t", p0=7)
    await world.pass_ms(TIMEOUT_MS + 1)
    await groups_loaded(world)
    assert await offset_of(world, "g", "t") == -1


@scenario(in_world)
async def test_tg3_a_plain_commit_that_comes_later_stays(world) -> None:
    await world.topic()
    client = await started(world)
    await client.send_offsets("g", "t", p0=7)
    await commit_plainly(world, "g", "t", 5)
    assert await offset_of(world, "g", "t") is UNSTABLE
    assert await client.end() is NONE
    assert await offset_of(world, "g", "t") == 5
    await world.restart()
    assert await offset_of(world, "g", "t") == 5


@pytest.mark.parametrize("first", [0, 1])
@scenario(in_world)
async def test_of_two_transactions_the_later_offset_stays_whichever_ends_first(world, first) -> None:
    await world.topic()
    clients = [await started(world, name=name) for name in ("a", "b")]
    await clients[0].send_offsets("g", "t", p0=10)
    await clients[1].send_offsets("g", "t", p0=20)
    assert await clients[first].end() is NONE
    assert await clients[1 - first].end() is NONE
    assert await offset_of(world, "g", "t") == 20
    await world.restart()
    assert await offset_of(world, "g", "t") == 20


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"generation_id": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "somebody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "desk"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@scenario(in_world)
async def test_tg6_members_are_checked_if_the_request_names_one(world, fields, code) -> None:
    await world.topic()
    client = await started(world)
    assert await client.commit_offsets("g", "t", {0: 7}, **fields) == [code]
    assert await offset_of(world, "g", "t") == -1


@pytest.mark.parametrize(
    ("version", "code"),
    [(0, ErrorCode.INVALID_TXN_STATE), (3, ErrorCode.INVALID_TXN_STATE),
     (4, ErrorCode.TRANSACTION_ABORTABLE), (5, NONE)],
)  # fmt: skip
@scenario(in_world)
async def test_tg7_tg8_without_add_offsets(world, version, code) -> None:
    await world.topic()
    client = await started(world)
    client.versions["commit"] = version
    assert await client.commit_offsets("g", "t", {0: 7}) == [code]
    assert await client.add_offsets("g") is NONE
    assert await client.commit_offsets("g", "t", {0: 8}) == [NONE]


@scenario(in_world)
async def test_tg10_unknown_partitions_and_long_metadata_are_refused_one_by_one(world) -> None:
    await world.topic()
    client = await started(world)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await client.commit_offsets("g", "t", {0: 7, 5: 7}) == [NONE, unknown]
    assert await client.commit_offsets("g", "none", {0: 7}) == [unknown]
    too_long = "m" * 5_000
    assert await client.commit_offsets("g", "t", {0: 9}, metadata=too_long) == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE
    ]
    assert await client.commit_offsets("", "t", {0: 9}) == [ErrorCode.INVALID_GROUP_ID]
    assert await client.end() is NONE
    assert await offset_of(world, "g", "t") == 7


async def checkpointed(world):
    """Runs a checkpoint of the groups: each record again, at the end of the log."""
    (coordinator,) = world.parts.groups._coordinators.values()
    before = coordinator.statistics.checkpoints
    await coordinator._life._checkpoint(coordinator._checkpoint)
    assert coordinator.statistics.checkpoints == before + 1


@OUTCOMES
@pytest.mark.parametrize("has_plain", [True, False])
@scenario(in_world)
async def test_tg11_tg13_a_checkpoint_keeps_what_is_pending_and_its_order(world, has_plain, commits) -> None:
    await world.topic(partitions=3)
    if has_plain:
        await commit_plainly(world, "g", "t", 3)
    client = await started(world)
    await client.send_offsets("g", "t", p0=7, p1=8)
    await commit_plainly(world, "g", "t", 1, 1)
    await checkpointed(world)
    partition = world.opened(world.parts.topics.by_name("__consumer_offsets"))
    assert partition.log_start_offset > 0
    await world.crash()
    await groups_loaded(world)
    client = await gone_on(world, client)
    assert await offset_of(world, "g", "t") is UNSTABLE
    assert await client.end(commits) is NONE
    expected = 7 if commits else 3 if has_plain else -1
    for _ in range(2):
        assert [await offset_of(world, "g", "t", index) for index in (0, 1)] == [expected, 1]
        await world.crash()
        await groups_loaded(world)


@OUTCOMES
@scenario(in_world)
async def test_tg12_a_marker_during_the_checkpoint(world, commits) -> None:
    await world.topic()
    await commit_plainly(world, "g", "t", 3)
    client = await started(world)
    await client.send_offsets("g", "t", p0=7)
    world.calls.hold(WRITE)
    running = asyncio.ensure_future(checkpointed(world))
    ending = asyncio.ensure_future(client.end(commits))
    await settled()
    world.calls.release(WRITE)
    await running
    for _ in range(5):
        await world.pass_ms(200)
    assert await ending is NONE
    expected = 7 if commits else 3
    assert await offset_of(world, "g", "t") == expected
    await world.crash()
    await groups_loaded(world)
    assert await offset_of(world, "g", "t") == expected


@scenario(in_world)
async def test_tg15_the_offset_of_a_deleted_topic_is_gone(world) -> None:
    topic = await world.topic()
    client = await started(world)
    await client.send_offsets("g", "t", p0=7)
    await world.parts.partitions.delete_topic(topic)
    await world.parts.groups.forget_topic("t")
    assert await client.end() is NONE
    assert await offset_of(world, "g", "t") == -1
    await world.restart()
    assert await offset_of(world, "g", "t") == -1


def _deleted_group():
    return DeleteGroupsRequest(groups_names=["g"]), 2


def _deleted_offset():
    row = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name="t", partitions=[row])
    return OffsetDeleteRequest(group_id="g", topics=[topic]), 0


@pytest.mark.parametrize("deletion", [_deleted_group, _deleted_offset])
@pytest.mark.parametrize("has_plain", [True, False])
@scenario(in_world)
async def test_what_is_pending_goes_with_the_group(world, deletion, has_plain) -> None:
    await world.topic()
    if has_plain:
        await commit_plainly(world, "g", "t", 3)
    client = await started(world)
    await client.send_offsets("g", "t", p0=7)
    await world.client().ask(*deletion())
    assert await client.end() is NONE
    for _ in range(2):
        assert await offset_of(world, "g", "t") == -1
        await world.restart()


@scenario(in_world)
async def test_tg16_a_fenced_producer_commits_no_offsets(world) -> None:
    await world.topic()
    first = await started(world)
    await first.send_offsets("g", "t", p0=7)
    await started(world)
    assert await first.commit_offsets("g", "t", {0: 9}) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await offset_of(world, "g", "t") == -1


@scenario(in_world)
async def test_an_end_that_overtakes_the_offsets_waits_for_them(world) -> None:
    """No client does that; a marker before the offsets would leave them pending for ever."""
    await world.topic()
    client = await started(world)
    await client.send_offsets("g", "t", p0=5)
    world.calls.hold(WRITE)
    await settled()
    plain = asyncio.ensure_future(commit_plainly(world, "other", "t", 1))
    await settled()
    sending = asyncio.ensure_future(client.commit_offsets("g", "t", {0: 7}))
    await settled()
    ending = asyncio.ensure_future(client.end())
    await settled()
    world.calls.release(WRITE)
    await plain
    assert await sending == [NONE]
    for _ in range(5):
        await world.pass_ms(200)
    assert await ending is NONE
    assert await offset_of(world, "g", "t") == 7
    await world.crash()
    await groups_loaded(world)
    assert await offset_of(world, "g", "t") == 7


@scenario(in_world)
async def test_a_marker_is_not_written_before_the_offsets_of_its_transaction(world) -> None:
    await world.topic()
    client = await started(world)
    await client.send_offsets("g", "t", p0=5)
    world.calls.hold(WRITE)
    plain = asyncio.ensure_future(commit_plainly(world, "other", "t", 1))
    await settled()
    sending = asyncio.ensure_future(client.commit_offsets("g", "t", {0: 7}))
    await settled()
    at = ("__consumer_offsets", 0)
    (known,) = [each for each in world.parts.transactions.look_at_all() if each.transactional_id == "pay"]
    markers = MarkersToWrite(
        Outcome.COMMIT, client.pid, client.epoch + 1, known.start_ms, True, frozenset({at})
    )
    assert not world.parts.markers.write(at, markers, 0)
    world.calls.release(WRITE)
    await plain
    assert await sending == [NONE]
    assert world.parts.markers.write(at, markers, 0)
    assert await offset_of(world, "g", "t") == 7


@scenario(in_world)
async def test_an_offset_that_is_fetched_after_the_marker_waits_until_the_marker_is_durable(world) -> None:
    await world.topic()
    client = await started(world)
    await client.send_offsets("g", "t", p0=7)
    world.calls.hold(WRITE)
    ending = asyncio.ensure_future(client.end())
    await settled()
    fetching = asyncio.ensure_future(offset_of(world, "g", "t"))
    await settled()
    assert not ending.done() and not fetching.done()
    world.calls.release(WRITE)
    assert await ending is NONE
    assert await fetching == 7


@scenario(in_world)
async def test_a_commit_with_data_and_offsets_is_one_turn(world) -> None:
    topic = await world.topic()
    client = await started(world)
    await client.send(topic)
    await client.send_offsets("g", "t", p0=7)
    world.calls.hold(WRITE)
    ending = asyncio.ensure_future(client.end())
    await settled()
    await world.crash()
    ending.cancel()
    await groups_loaded(world)
    assert await ends(world, topic) == (0, 1), "nothing of the end was durable"
    assert await offset_of(world, "g", "t") is UNSTABLE
    again = await gone_on(world, client)
    assert await again.end() is NONE
    assert await ends(world, topic) == (2, 2)
    assert await offset_of(world, "g", "t") == 7


@scenario(in_world)
async def test_the_offsets_of_a_group_with_pending_ones_do_not_expire(world) -> None:
    await world.topic()
    await commit_plainly(world, "g", "t", 3)
    client = await started(world)
    await client.send_offsets("g", "t", p0=7)
    groups = world.parts.groups
    takes_marker, groups.takes_marker = groups.takes_marker, lambda *_: False
    days_8 = 8 * 24 * 3_600_000
    await world.pass_ms(days_8)
    await groups_loaded(world)
    assert await offset_of(world, "g", "t", stable=False) == 3
    groups.takes_marker = takes_marker
    await world.pass_ms(10_000)
    await world.pass_ms(GroupSettings().offsets_retention_check_interval_ms)
    await groups_loaded(world)
    assert await offset_of(world, "g", "t") == -1, "the transaction was aborted, and the offset is old"


@scenario(in_world)
async def test_the_deletion_of_a_topic_by_a_client_drops_what_is_pending(world) -> None:
    topic = await world.topic()
    client = await started(world)
    await client.send_offsets("g", "t", p0=7)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=1_000)
    await client.send(topic)
    assert any(key.startswith(f"transactional/{topic.id}/") for key in world.parts.metadata.image.keys)
    await world.client().ask(request, 6)
    assert not any(topic.id in key for key in world.parts.metadata.image.keys)
    assert await client.end() is NONE
    assert await offset_of(world, "g", "t") == -1
