"""OB05: lag in records and in seconds."""

import asyncio
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from siltstone.kafka_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from siltstone.metadata.entities import StreamState
from siltstone.metadata.lookup import OFFSET_BYTES_UNKNOWN
from siltstone.model.serving_limits import GROUP_OFFSETS_MAX, GROUP_SERIES_MAX, GROUPS_SHOWN_MAX
from siltstone.runtime.clock import ManualClock
from siltstone.server.admin.group_lags import OFFSETS_PER_TURN, PARTITIONS_PER_TURN, GroupLags, TopicLag
from support.broker.backlog_world import commit, delete_group
from support.broker.broker_world import in_broker_world
from support.groups.share_client import ACCEPT, RELEASE, SHARES, ShareClient, send, shared_topic
from support.kafka.kafka_requests import produce_request, timed_batch
from support.scenarios import scenario


async def looked(world, offsets_max: int = GROUP_OFFSETS_MAX) -> dict[str, tuple[TopicLag, ...]]:
    lags = GroupLags(world.parts, offsets_max)
    async for _ in lags.look():
        pass
    return {each.group: tuple(map(without_bytes, each.topics)) for each in lags.groups}


def without_bytes(lag: TopicLag) -> TopicLag:
    return replace(lag, size_bytes=0)


async def append(world, topic, *ages_ms: int) -> None:
    """One batch for each, so many milliseconds old."""
    for age_ms in ages_ms:
        await world.client().ask(produce_request(topic, timed_batch(world.clock.now_ms() - age_ms)))


@scenario(in_broker_world)
async def test_ob05_a_stopped_group_has_its_lag_in_records_and_seconds(world) -> None:
    topic = await world.topic()
    await append(world, topic, 9_000, 8_000, 7_000, 2_000)
    await commit(world, "g", 2)
    assert await looked(world) == {"g": (TopicLag("t", 2, 7.0),)}
    world.clock.advance_ms(60_000)
    assert await looked(world) == {"g": (TopicLag("t", 2, 67.0),)}
    await commit(world, "g", 4)
    assert await looked(world) == {"g": (TopicLag("t", 0, 0.0),)}


@scenario(in_broker_world)
async def test_ob05_the_lag_has_bytes_by_the_objects_that_hold_it(world) -> None:
    topic = await world.topic()
    await append(world, topic, 9_000, 8_000, 7_000, 6_000)
    await commit(world, "g", 1)
    await world.node.engine.flush()
    lags = GroupLags(world.parts)
    async for _ in lags.look():
        pass
    stream = world.parts.metadata.image.streams[topic.metadata.partitions[0].data_stream_id]
    stored = sum(each.size_bytes for each in stream.ranges)
    assert stored and lags.groups[0].topics[0].size_bytes == stored * 3 // 4


@scenario(in_broker_world)
async def test_ob05_a_group_that_has_committed_nothing_has_no_lag(world) -> None:
    topic = await world.topic()
    await append(world, topic, 0)
    assert await looked(world) == {}
    await commit(world, "g", 1)
    await delete_group(world, "g")
    assert await looked(world) == {}


@scenario(in_broker_world)
async def test_ob05_records_add_up_over_partitions_and_the_oldest_decides_the_seconds(world) -> None:
    topic = await world.topic(partitions=2)
    for age_ms in (5_000, 3_000):
        batch = timed_batch(world.clock.now_ms() - age_ms)
        await world.client().ask(produce_request(topic, batch, bytearray(batch)))
    await commit(world, "g", 1, 0)
    assert await looked(world) == {"g": (TopicLag("t", 3, 5.0),)}


@scenario(in_broker_world)
async def test_ob05_partitions_with_records_and_without_a_commit_are_counted(world) -> None:
    topic = await world.topic(partitions=3)
    batch = timed_batch(world.clock.now_ms() - 5_000)
    await world.client().ask(produce_request(topic, batch, bytearray(batch)))
    await commit(world, "g", 1)
    assert await looked(world) == {"g": (TopicLag("t", 0, 0.0, 1),)}, "the third one is empty"
    await commit(world, "h", 1, 0)
    assert (await looked(world))["h"] == (TopicLag("t", 1, 5.0, 0),)


@scenario(in_broker_world)
async def test_ob05_what_was_trimmed_is_no_lag(world) -> None:
    topic = await world.topic()
    await append(world, topic, 9_000, 8_000, 7_000)
    await commit(world, "g", 0)
    await world.parts.partitions.trim(world.opened(topic), 2)
    assert await looked(world) == {"g": (TopicLag("t", 1, 7.0),)}


@scenario(in_broker_world)
async def test_ob05_after_a_restart_nothing_is_opened_and_the_age_is_that_of_the_upload(world) -> None:
    topic = await world.topic()
    await append(world, topic, 500)
    await commit(world, "g", 0)
    uploaded_ms = world.clock.now_ms()
    await world.restart()
    await world.parts.groups.start()
    await world.pass_ms(2_000)
    (lag,) = (await looked(world))["g"]
    assert lag.records == 1 and 2.0 <= lag.seconds <= (world.clock.now_ms() - uploaded_ms) / 1000
    assert world.parts.partitions.opened(topic.id, 0) is None


@scenario(in_broker_world)
async def test_looking_creates_no_topic_of_offsets(world) -> None:
    await world.topic()
    assert await looked(world) == {}
    assert [topic.name for topic in world.parts.topics.all()] == ["t"]


@scenario(in_broker_world)
async def test_the_offset_of_a_topic_of_the_same_name_that_was_deleted_is_not_taken_for_it(world) -> None:
    topic = await world.topic()
    await append(world, topic, 0)
    await commit(world, "g", 1)
    await world.parts.partitions.delete_topic(topic)
    assert await looked(world) == {"g": ()}
    world.clock.advance_ms(10)
    await append(world, await world.topic(), 0, 0)
    assert await looked(world) == {"g": ()}


# -- share groups --------------------------------------------------------------------------------------------


@scenario(in_broker_world)
async def test_ob05_a_share_group_lacks_what_it_is_not_done_with(world) -> None:
    """No node coordinates the group here: the leader says its lag all the same."""
    topic = await shared_topic(world)
    await append(world, topic, 9_000, 8_000, 7_000, 6_000, 2_000)
    assert await looked(world) == {}, "no member has fetched"
    member = ShareClient(world, topic)
    await member.fetch()
    assert await looked(world) == {SHARES: (TopicLag("t", 5, 9.0, None),)}, "held records are not done with"
    lags = GroupLags(world.parts)
    async for _ in lags.look():
        pass
    assert lags.omitted == 0
    await member.acknowledge((0, 1, [ACCEPT]), (2, 2, [RELEASE]), (3, 3, [ACCEPT]))
    assert await looked(world) == {SHARES: (TopicLag("t", 2, 7.0, None),)}
    await world.parts.partitions.trim(world.opened(topic), 3)
    assert await looked(world) == {SHARES: (TopicLag("t", 1, 2.0, None),)}, "and what was trimmed is no lag"
    await member.acknowledge((4, 4, [ACCEPT]))
    assert await looked(world) == {SHARES: (TopicLag("t", 0, 0.0, None),)}
    await world.parts.partitions.delete_topic(topic)
    assert await looked(world) == {}


@scenario(in_broker_world)
async def test_ob05_a_share_group_has_one_row_where_it_is_coordinated_and_led(world) -> None:
    topic = await shared_topic(world, records=3)
    await send(world, await world.topic("u"), 2)
    await world.client().ask(
        ShareGroupHeartbeatRequest(
            group_id=SHARES, member_id="m", member_epoch=0, subscribed_topic_names=["t"]
        )
    )
    await ShareClient(world, topic).fetch()
    lags = GroupLags(world.parts)
    async for _ in lags.look():
        pass
    (row,) = lags.groups
    assert (row.group, row.members, row.records, row.series_count, lags.omitted) == (SHARES, 1, 3, 5, 0)
    assert [each.topic for each in row.topics] == ["t"]


@scenario(in_broker_world)
async def test_a_share_group_with_more_states_than_are_looked_at_has_no_lag_rather_than_half_of_it(
    world,
) -> None:
    topic = await shared_topic(world, records=3)
    await ShareClient(world, topic).fetch()  # one span, and the partition
    assert await looked(world, 1) == {}
    assert await looked(world, 2) == {SHARES: (TopicLag("t", 3, 0.0, None),)}


# -- many groups, made of nothing but their offsets ----------------------------------------------------------


def lags_of(*groups: tuple[str, int, int], end_offset: int | None = 10) -> tuple[GroupLags, int]:
    """What is found for groups of (name, offsets, committed offset), and in how many turns. The topic has no partition
    that is open, and no stream if ``end_offset`` is None."""
    stream = (
        None
        if end_offset is None
        else SimpleNamespace(start_offset=2, end_offset=end_offset, ranges=(), state=StreamState.CLOSED)
    )
    partitions = [SimpleNamespace(data_stream_id=1)] * 1_000
    topic = SimpleNamespace(
        id="t", created_ms=0, partition_count=1_000, metadata=SimpleNamespace(partitions=partitions)
    )
    known = [
        SimpleNamespace(
            group=SimpleNamespace(group_id=name, state=SimpleNamespace(value="Empty"), members={}),
            offsets={
                ("t", index): SimpleNamespace(offset=committed, committed_ms=1) for index in range(count)
            },
        )
        for name, count, committed in groups
    ]
    parts = SimpleNamespace(
        groups=SimpleNamespace(known=lambda: known),
        topics=SimpleNamespace(by_name=lambda _: topic),
        partitions=SimpleNamespace(opened=lambda *_: None, all_opened=list),
        metadata=SimpleNamespace(image=SimpleNamespace(streams={} if stream is None else {1: stream})),
        clock=ManualClock(),
    )
    lags = GroupLags(parts)  # type: ignore[arg-type]
    lags._time_at = lambda *_: None  # type: ignore[method-assign]

    async def look() -> int:
        return len([turn async for turn in lags.look()])

    return lags, asyncio.run(look())


@pytest.mark.parametrize(
    ("end_offset", "committed", "records"),
    [(10, 7, 3), (10, 9, 1), (10, 10, 0), (10, 11, 0), (10, 0, 8), (None, 0, 0)],
)
def test_the_lag_ends_at_the_end_and_begins_at_the_start(
    end_offset: int | None, committed: int, records: int
) -> None:
    """A stream that is gone has no records that a group could lack."""
    lags, _ = lags_of(("g", 1, committed), end_offset=end_offset)
    assert [(each.records, each.topics) for each in lags.groups] == [
        (records, (TopicLag("t", records, 0.0, 999 if end_offset else 0, records * OFFSET_BYTES_UNKNOWN),))
    ]


def test_others_have_their_turn_after_some_offsets_and_after_each_group() -> None:
    of_topic = 1_000 // PARTITIONS_PER_TURN
    assert lags_of(("g", 1, 0))[1] == of_topic + 2
    assert lags_of(("g", OFFSETS_PER_TURN, 0))[1] == of_topic + 2
    assert lags_of(("g", OFFSETS_PER_TURN + 1, 0))[1] == of_topic + 3
    assert lags_of(("g", 1, 0), ("h", 2 * OFFSETS_PER_TURN, 0))[1] == of_topic + 5


def test_the_groups_with_the_largest_lag_are_shown_and_the_others_counted() -> None:
    count, shown = 3 * GROUPS_SHOWN_MAX, GROUP_SERIES_MAX // 6
    lags, _ = lags_of(*((f"g{number}", 1, 10 - number % 7) for number in range(count)))
    assert len(lags.groups) == shown and lags.omitted == count - shown
    assert {each.records for each in lags.groups} == {6}, "a seventh of the groups"
    assert lags.states == {"Empty": count}


def test_a_group_with_more_offsets_than_are_looked_at_does_not_keep_smaller_ones_out() -> None:
    lags, _ = lags_of(("small", 1, 0), ("large", GROUP_OFFSETS_MAX, 0))
    assert [each.group for each in lags.groups] == ["small"] and lags.omitted == 1
    lags, _ = lags_of(("fits", 999, 0))
    assert lags.groups[0].topics[0].records == 999 * 8 and lags.groups[0].series_count == 6
