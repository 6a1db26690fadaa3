"""What registered groups have committed, in the metadata: soon, durable first, and never ahead."""

import pytest

from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.maintenance.retention.groups import GroupProgress, encode_progress, group_bound, key_of
from siltstone.metadata.commands import AlterTopicConfigs, PutKey
from siltstone.metadata.store.port import LogUnavailable
from siltstone.offline.topic_streams import topic_streams
from support.broker.backlog_world import (
    PROGRESS_MS,
    commit,
    committed,
    committing,
    delete_group,
    delete_offset,
    mirrored,
    mirrored_offset,
    pass_long,
    registered_topic,
    store,
)
from support.broker.broker_world import WRITE, in_broker_world
from support.engine.engine_world import settled
from support.scenarios import scenario

DAY_MS = 24 * 3_600_000


async def configure(world, topic, groups):
    """Empty: it names none any more."""
    await world.parts.metadata.execute(
        AlterTopicConfigs(topic.id, put={"siltstone.retention.groups": groups})
    )


@scenario(in_broker_world)
async def test_a_commit_is_mirrored_within_one_interval(world) -> None:
    topic = await registered_topic(world, "g", "h", partitions=2)
    await commit(world, "g", 5, 7)
    assert mirrored(world, "g") is None
    await pass_long(world, PROGRESS_MS)
    assert mirrored(world, "g") == GroupProgress({topic.id: (5, 7)})
    assert mirrored(world, "h") is None, "nothing is known of it: it counts as being at the beginning"
    await commit(world, "g", 6)
    await pass_long(world, PROGRESS_MS)
    assert mirrored(world, "g") == GroupProgress({topic.id: (6, 7)})


@scenario(in_broker_world)
async def test_it_is_written_once_for_many_commits_and_not_at_all_without_any(world) -> None:
    await registered_topic(world, "g")
    await pass_long(world, 3 * PROGRESS_MS)
    assert world.broker.backlog.statistics().progress_writes == 0
    for offset in range(1, 30):
        await commit(world, "g", offset)
    await pass_long(world, 5 * PROGRESS_MS)
    assert world.broker.backlog.statistics().progress_writes == 1
    version = world.parts.metadata.image.version
    await pass_long(world, 5 * PROGRESS_MS)
    assert world.parts.metadata.image.version == version


@scenario(in_broker_world)
async def test_without_registered_groups_nothing_is_mirrored_and_nothing_made(world) -> None:
    await world.topic()
    await pass_long(world, 3 * PROGRESS_MS)
    assert world.parts.topics.by_name("__consumer_offsets") is None
    await commit(world, "stranger", 5)
    await pass_long(world, 3 * PROGRESS_MS)
    assert mirrored(world, "stranger") is None


@scenario(in_broker_world)
async def test_what_is_not_durable_yet_is_not_mirrored(world) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 5)
    await pass_long(world, PROGRESS_MS)
    world.calls.hold(WRITE)
    under_way = world.client().send(committing("g", {0: 9}), 8)
    await pass_long(world, 3 * PROGRESS_MS)
    assert not under_way.done() and mirrored_offset(world, "g", topic) == 5
    world.calls.release(WRITE)
    await pass_long(world, 2 * PROGRESS_MS)
    assert under_way.done() and mirrored_offset(world, "g", topic) == 9


@scenario(in_broker_world)
async def test_the_end_of_the_broker_mirrors_what_was_committed_last(world) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 5)
    await world.restart()
    assert mirrored_offset(world, "g", topic) == 5
    await commit(world, "g", 6)
    world.broker.end_waits()  # groups answer nobody any more
    await world.restart()
    assert mirrored_offset(world, "g", topic) == 6


@scenario(in_broker_world)
async def test_after_a_crash_it_lags_and_more_is_kept_until_the_next_look(world) -> None:
    topic = await registered_topic(world, "g", retention_ack="true")
    await store(world, topic, 20)
    await commit(world, "g", 5)
    await pass_long(world, PROGRESS_MS)
    await commit(world, "g", 17)
    await world.crash()
    image = world.parts.metadata.image
    stream = topic_streams(image)[topic.metadata.partitions[0].data_stream_id]
    assert group_bound(image, stream).offset == 5, "nothing between was committed as far as maintenance knows"
    assert await committed(world, "g") == 17, "and nothing that was is lost"
    await pass_long(world, 2 * PROGRESS_MS)
    assert mirrored_offset(world, "g", topic) == 17


@scenario(in_broker_world)
async def test_a_commit_that_goes_back_is_in_the_metadata_before_it_is_durable(world) -> None:
    topic = await registered_topic(world, "g", partitions=2)
    await commit(world, "g", 50, 60)
    await pass_long(world, PROGRESS_MS)
    world.calls.hold(WRITE)
    back = world.client().send(committing("g", {0: 20, 1: 70}), 8)
    await settled()
    assert not back.done(), "the log takes nothing"
    assert mirrored(world, "g") == GroupProgress({topic.id: (20, 60)})
    world.calls.release(WRITE)
    await back
    await pass_long(world, PROGRESS_MS)
    assert mirrored(world, "g") == GroupProgress({topic.id: (20, 70)})


@scenario(in_broker_world)
async def test_a_commit_that_goes_back_is_refused_while_the_metadata_cannot_say_so_and_others_are_not(
    world,
) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 50)
    await pass_long(world, PROGRESS_MS)
    world.calls.fail("append_all", LogUnavailable("no"))
    assert await commit(world, "g", 20) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await commit(world, "g", 51) == ErrorCode.NONE
    assert await committed(world, "g") == 51
    await pass_long(world, PROGRESS_MS)  # tried, and perhaps done: nobody knows
    assert await commit(world, "g", 50) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.calls.before_call = lambda _: None
    assert await commit(world, "g", 50) == ErrorCode.NONE
    assert mirrored_offset(world, "g", topic) == 50


@scenario(in_broker_world)
async def test_offsets_that_are_deleted_are_gone_from_the_metadata_before(world) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 50)
    await pass_long(world, PROGRESS_MS)
    world.calls.fail("append_all", LogUnavailable("no"))
    assert await delete_offset(world, "g") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await committed(world, "g") == 50
    world.calls.before_call = lambda _: None
    await delete_offset(world, "g")
    assert mirrored_offset(world, "g", topic) == -1


@scenario(in_broker_world)
async def test_a_deleted_group_is_waited_for_no_more_until_it_comes_back(world) -> None:
    topic = await registered_topic(world, "g", retention_ack="true")
    await commit(world, "g", 5)
    await pass_long(world, PROGRESS_MS)
    assert await delete_group(world, "g") == ErrorCode.NONE
    assert mirrored(world, "g") == GroupProgress(let_go=(topic.id,))
    await pass_long(world, 3 * PROGRESS_MS)
    await world.restart()
    assert mirrored(world, "g") == GroupProgress(let_go=(topic.id,))
    world.calls.hold(WRITE)
    again = world.client().send(committing("g", {0: 3}), 8)
    await settled()
    assert mirrored(world, "g") == GroupProgress(), "it is waited for before its commit is durable"
    world.calls.release(WRITE)
    await again
    await pass_long(world, PROGRESS_MS)
    assert mirrored_offset(world, "g", topic) == 3


@scenario(in_broker_world)
async def test_a_deletion_that_the_metadata_missed_can_be_said_again(world) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 5)
    await pass_long(world, PROGRESS_MS)
    world.calls.fail("append_all", LogUnavailable("no"))
    assert await delete_group(world, "g") == ErrorCode.NONE
    await world.crash()
    await pass_long(world, 2 * PROGRESS_MS)
    assert mirrored_offset(world, "g", topic) == 5, "a group that is merely not there is waited for"
    assert await delete_group(world, "g") == ErrorCode.GROUP_ID_NOT_FOUND
    assert mirrored(world, "g") == GroupProgress(let_go=(topic.id,))


@scenario(in_broker_world)
async def test_a_deletion_that_could_not_be_written_is_written_with_the_next_look(world) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 5)
    await pass_long(world, PROGRESS_MS)
    world.calls.fail("append_all", LogUnavailable("no"))
    assert await delete_group(world, "g") == ErrorCode.NONE
    world.calls.before_call = lambda _: None
    await pass_long(world, 2 * PROGRESS_MS)
    assert mirrored(world, "g") == GroupProgress(let_go=(topic.id,))


@scenario(in_broker_world)
async def test_a_group_that_never_was_is_not_let_go_by_deleting_it(world) -> None:
    await registered_topic(world, "g")
    assert await delete_group(world, "g") == ErrorCode.GROUP_ID_NOT_FOUND
    assert mirrored(world, "g") is None


@scenario(in_broker_world)
async def test_a_group_that_no_topic_names_is_forgotten_and_a_topic_that_names_it_anew_waits_for_it(
    world,
) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 5)
    await pass_long(world, PROGRESS_MS)
    await delete_group(world, "g")
    await configure(world, topic, "")
    await pass_long(world, 2 * PROGRESS_MS)
    assert mirrored(world, "g") is None
    await configure(world, topic, "g")
    await pass_long(world, 2 * PROGRESS_MS)
    assert mirrored(world, "g") is None


@scenario(in_broker_world)
async def test_offsets_of_a_topic_that_had_the_name_before_are_not_those_of_this_one(world) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 50)
    await world.parts.partitions.delete_topic(topic)  # and nobody says so to the groups
    world.clock.advance_ms(10)
    again = await registered_topic(world, "g")
    await pass_long(world, 2 * PROGRESS_MS)
    assert mirrored(world, "g") == GroupProgress({again.id: (-1,)})


@scenario(in_broker_world)
async def test_a_value_that_cannot_be_read_is_written_anew(world) -> None:
    topic = await registered_topic(world, "g")
    await world.parts.metadata.execute(PutKey(key_of("g"), b"{", overwrite=True))
    await commit(world, "g", 4)
    await pass_long(world, PROGRESS_MS)
    assert world.parts.metadata.image.keys[key_of("g")] == encode_progress(GroupProgress({topic.id: (4,)}))


@pytest.mark.parametrize(("groups", "left"), [("g", 5), ("", -1)])
@scenario(in_broker_world, BrokerSettings())
async def test_registered_groups_keep_their_offsets_however_old(world, groups, left) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 5)
    await configure(world, topic, groups)
    await pass_long(world, 8 * DAY_MS, step_ms=DAY_MS)
    await pass_long(world, 1_200_000, step_ms=600_000)
    assert await committed(world, "g") == left
