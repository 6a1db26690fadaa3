"""R11: what is too old counts as read by groups that nobody is a member of."""

from siltstone.kafka_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from siltstone.kafka_protocol.records.control import Outcome
from support.broker.backlog_world import (
    PROGRESS_MS,
    TTL_MS,
    commit,
    committed,
    delete_group,
    mirrored_offset,
    pass_long,
    registered_topic,
)
from support.broker.broker_world import in_broker_world
from support.broker.transactional import OpenProducer
from support.engine.engine_world import settled
from support.groups.consumer_bytes import subscription
from support.kafka.kafka_requests import batch_of, produce_request, timed_batch
from support.scenarios import scenario

SECOND_MS = 1_000


async def aged_topic(world, *groups, ttl_ms=60 * SECOND_MS, **configs):
    """A thousand records that will be 999 to 0 seconds old at the next look."""
    topic = await registered_topic(world, *groups, message_ttl_ms=str(ttl_ms), **configs)
    look_ms = world.clock.now_ms() + TTL_MS
    batches = [
        [look_ms - age * SECOND_MS for age in range(oldest, oldest - 100, -1)]
        for oldest in range(999, 0, -100)
    ]
    for times in batches:
        await world.client().ask(produce_request(topic, timed_batch(*times)))
    return topic


@scenario(in_broker_world)
async def test_r11_an_idle_group_is_moved_to_the_first_record_that_is_young_enough(world) -> None:
    topic = await aged_topic(world, "g")
    await commit(world, "g", 10)
    await pass_long(world, TTL_MS)
    assert await committed(world, "g") == 939, "it is 60 s old"
    statistics = world.broker.backlog.statistics()
    assert statistics.records_expired == 929 and statistics.records_skipped == {"g": 929}
    await pass_long(world, PROGRESS_MS)
    assert mirrored_offset(world, "g", topic) == 939, "and retention may take what lies before"


@scenario(in_broker_world)
async def test_no_group_is_moved_past_an_open_transaction(world) -> None:
    topic = await registered_topic(world, "g", message_ttl_ms=str(60 * SECOND_MS))
    old_ms = world.clock.now_ms() - 1_000_000
    await world.client().ask(produce_request(topic, timed_batch(*[old_ms] * 10)))
    producer = OpenProducer(world.opened(topic))
    await producer.send(5, old_ms)
    await world.client().ask(produce_request(topic, timed_batch(*[old_ms] * 10)))
    await commit(world, "g", 3)
    await pass_long(world, TTL_MS)
    assert await committed(world, "g") == 10
    await producer.end(Outcome.COMMIT)
    await pass_long(world, TTL_MS)
    assert await committed(world, "g") > 20


@scenario(in_broker_world)
async def test_r11_a_commit_further_ahead_is_not_moved_back(world) -> None:
    await aged_topic(world, "g", "h")
    await commit(world, "g", 950)
    await pass_long(world, TTL_MS)
    assert await committed(world, "g") == 950
    assert await committed(world, "h") == 939, "one that never committed is moved from the beginning"


@scenario(in_broker_world)
async def test_r11_a_commit_that_comes_between_look_and_move_wins(world) -> None:
    topic = await aged_topic(world, "g")
    mover = world.broker.backlog._mover
    await commit(world, "g", 950)
    await mover.move(topic, "g", {0: 939}, {0: 0}, spares_members=True)
    assert await committed(world, "g") == 950 and mover.records_skipped == {"g": 0}


@scenario(in_broker_world)
async def test_when_everything_is_too_old_the_group_is_at_the_end(world) -> None:
    await aged_topic(world, "g", ttl_ms=1)
    await pass_long(world, 2 * TTL_MS)
    assert await committed(world, "g") == 1_000


@scenario(in_broker_world)
async def test_a_group_with_members_is_left_alone(world) -> None:
    topic = await aged_topic(world, "g")
    await commit(world, "g", 10)
    joining = world.client().send(
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=1_800_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
        ),
        3,
    )
    await settled()
    await pass_long(world, TTL_MS)
    assert joining.done()
    assert await committed(world, "g") == 10
    mover = world.broker.backlog._mover
    assert await mover.move(topic, "g", {0: 939}, {0: 0}, spares_members=True) == 0, "who came since the look"
    assert await committed(world, "g") == 10


@scenario(in_broker_world)
async def test_a_deleted_group_is_not_made_again(world) -> None:
    await aged_topic(world, "g")
    await commit(world, "g", 10)
    await pass_long(world, PROGRESS_MS)
    await delete_group(world, "g")
    await pass_long(world, 2 * TTL_MS)
    assert await committed(world, "g") == -1


@scenario(in_broker_world)
async def test_partitions_that_are_at_their_end_are_not_opened(world) -> None:
    topic = await aged_topic(world, "g", partitions=2)
    await commit(world, "g", 1_000)
    await world.restart()
    await pass_long(world, TTL_MS)
    assert world.parts.partitions.opened(topic.id, 0) is None
    assert world.parts.partitions.opened(topic.id, 1) is None


@scenario(in_broker_world)
async def test_without_a_time_to_live_nothing_is_too_old(world) -> None:
    topic = await registered_topic(world, "g")
    await world.client().ask(produce_request(topic, batch_of(5, timestamp_ms=1)))
    await commit(world, "g", 1)
    await pass_long(world, 2 * TTL_MS)
    assert await committed(world, "g") == 1
