"""Requests of a client that a quota limits: what they are answered, and that the connection is muted."""

from siltstone.broker.deliveries.progress import ShareProgress
from siltstone.broker.group_configs import ShareConfig
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from siltstone.kafka_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.model.serving_limits import MUTED_MS_MAX
from support.broker.broker_world import BrokerWorld, Client, in_broker_world
from support.broker.fetch_tests import filled
from support.groups.share_client import ACCEPT, ShareClient, progress_of, shared_topic
from support.kafka.kafka_requests import batch_of, batches_in, fetch_request, produce_request, row_of
from support.scenarios import scenario
from support.security.quotas import CHANGES, IN, OUT, WORK, limit


async def wait(world: BrokerWorld, client: Client) -> None:
    """Lets the mute of a client end, as the network does."""
    await world.pass_ms(max(client.connection.muted_until_ms - world.clock.monotonic_ms(), 0))
    client.connection.muted_until_ms = 0.0


@scenario(in_broker_world)
async def test_qu01_a_produce_is_appended_and_its_answer_says_how_long_to_wait(world: BrokerWorld) -> None:
    topic = await world.topic()
    await limit(world, IN, 100)
    client = world.client()
    request = produce_request(topic, batch_of(value_bytes=2_000))
    answer = await client.ask(request)
    assert row_of(answer).error_code == 0
    assert answer.throttle_time_ms == MUTED_MS_MAX
    assert client.connection.muted_until_ms == world.clock.monotonic_ms() + MUTED_MS_MAX
    assert world.opened(topic).high_watermark == 1
    await limit(world, IN, None)
    await wait(world, client)
    assert (await client.ask(request)).throttle_time_ms == 0


@scenario(in_broker_world)
async def test_qu10_a_produce_without_an_answer_mutes_too(world: BrokerWorld) -> None:
    topic = await world.topic()
    await limit(world, IN, 100)
    client = world.client()
    assert await client.ask(produce_request(topic, batch_of(value_bytes=2_000), acks=0)) is None
    assert client.connection.muted_until_ms


@scenario(in_broker_world)
async def test_qu02_a_throttled_fetch_is_empty_and_its_session_goes_on(world: BrokerWorld) -> None:
    topic = await filled(world, batches=10, records=1)
    client = world.client()
    first = await client.ask(fetch_request(topic, {0: 0}, session_id=0, session_epoch=0, wait_ms=0))
    size = sum(map(len, [row_of(first).records])) if first.topics else 0
    assert first.throttle_time_ms == 0 and size
    await limit(world, OUT, 100)
    session = first.session_id
    charged = await client.ask(fetch_request(topic, {0: 0}, session_id=session, session_epoch=1, wait_ms=0))
    assert batches_in(row_of(charged)) and charged.throttle_time_ms == 0  # what ten seconds allow
    empty = await client.ask(fetch_request(topic, {0: 5}, session_id=session, session_epoch=2, wait_ms=0))
    assert (empty.error_code, empty.topics, empty.session_id) == (0, [], session)
    assert 0 < empty.throttle_time_ms <= MUTED_MS_MAX
    seen, epoch = False, 3
    for _ in range(10):
        await wait(world, client)
        asked = fetch_request(topic, {}, session_id=session, session_epoch=epoch, wait_ms=0)
        answer = await client.ask(asked)
        assert answer.session_id == session
        seen, epoch = seen or bool(answer.topics), epoch + 1
    assert seen


@scenario(in_broker_world)
async def test_qu02_a_session_does_not_begin_with_a_throttled_answer(world: BrokerWorld) -> None:
    topic = await filled(world, batches=10)
    await limit(world, OUT, 100)
    client = world.client()
    await client.ask(fetch_request(topic, {0: 0}, session_id=0, session_epoch=0, wait_ms=0))
    empty = await client.ask(fetch_request(topic, {0: 0}, session_id=0, session_epoch=0, wait_ms=0))
    assert (empty.topics, empty.session_id) == ([], 0) and empty.throttle_time_ms


@scenario(in_broker_world)
async def test_qu15_a_member_of_a_share_group_pays_for_what_it_got_and_loses_no_record(
    world: BrokerWorld,
) -> None:
    topic = await shared_topic(world)
    for _ in range(4):
        await world.client().ask(produce_request(topic, batch_of(value_bytes=2_000)))
    await limit(world, OUT, 100)
    member = ShareClient(world, topic)
    assert await member.fetch(max_records=2) == [(0, 0, 1)]  # larger than ten seconds' worth: once
    assert member.told.throttle_time_ms == MUTED_MS_MAX
    assert member.client.connection.muted_until_ms == world.clock.monotonic_ms() + MUTED_MS_MAX
    other = ShareClient(world, topic, "b")
    assert await other.fetch() == []  # the same user; its session begins, and nothing is acquired
    assert (other.told.error_code, other.told.throttle_time_ms) == (0, MUTED_MS_MAX)
    assert await member.fetch((0, 0, [ACCEPT])) == []
    assert progress_of(world, topic) == ShareProgress(1)  # acknowledged all the same
    await wait(world, other.client)
    assert await other.fetch() == []  # the rest of the debt
    await wait(world, other.client)
    assert await other.fetch() == [(1, 1, 1)]
    await limit(world, OUT, None)
    await wait(world, other.client)
    assert await other.fetch() == [(2, 3, 1)] and other.told.throttle_time_ms == 0


@scenario(in_broker_world)
async def test_qu15_an_answer_with_shared_records_says_how_long_its_work_is_paid_for(
    world: BrokerWorld,
) -> None:
    topic = await shared_topic(world, records=1)
    await limit(world, WORK, 1)
    member = ShareClient(world, topic)
    real = world.parts.shares.config_of

    def slow(group_id: str) -> ShareConfig:
        world.clock.advance_ms(500)
        return real(group_id)

    world.parts.shares.config_of = slow  # type: ignore[method-assign]
    assert await member.fetch() == [(0, 0, 1)]
    assert member.told.throttle_time_ms == 1_000


def creation(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


@scenario(in_broker_world)
async def test_qu06_topics_beyond_the_limit_are_refused_and_done_later(world: BrokerWorld) -> None:
    await limit(world, CHANGES, 5)
    client = world.client()
    request = CreateTopicsRequest(topics=[creation("a", 60)], timeout_ms=1_000)
    assert [row.error_code for row in (await client.ask(request, 7)).topics] == [0]
    one_more = CreateTopicsRequest(topics=[creation("b", 1)], timeout_ms=1_000)
    tried = CreateTopicsRequest(topics=[creation("b", 1)], timeout_ms=1_000, validate_only=True)
    assert [row.error_code for row in (await client.ask(tried, 7)).topics] == [0]
    refused = await client.ask(one_more, 7)
    assert [row.error_code for row in refused.topics] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert refused.throttle_time_ms == 1_000 and client.connection.muted_until_ms
    assert world.parts.topics.by_name("b") is None
    await wait(world, client)
    assert [row.error_code for row in (await client.ask(one_more, 7)).topics] == [0]
    wrong = CreateTopicsRequest(topics=[creation("a", 60)], timeout_ms=1_000)  # exists: nothing is charged
    await wait(world, client)
    await world.pass_ms(1_000)
    assert [row.error_code for row in (await client.ask(wrong, 7)).topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]
    assert [row.error_code for row in (await client.ask(creations_of("c"), 7)).topics] == [0]


def creations_of(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[creation(name, 1) for name in names], timeout_ms=1_000)


def partitions_of_old(count: int) -> CreatePartitionsRequest:
    asked = CreatePartitionsTopic(name="old", count=count, assignments=None)
    return CreatePartitionsRequest(topics=[asked], timeout_ms=1_000)


@scenario(in_broker_world)
async def test_qu06_older_clients_are_muted_afterwards(world: BrokerWorld) -> None:
    await limit(world, CHANGES, 5)
    client = world.client()
    answer = await client.ask(CreateTopicsRequest(topics=[creation("a", 60)], timeout_ms=1_000), 5)
    assert ([row.error_code for row in answer.topics], answer.throttle_time_ms) == ([0], 1_000)
    await wait(world, client)
    answer = await client.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1_000), 4)
    assert ([row.error_code for row in answer.responses], answer.throttle_time_ms) == ([0], MUTED_MS_MAX)


@scenario(in_broker_world)
async def test_qu06_deletions_new_partitions_and_topics_made_by_asking_are_charged_too(
    world: BrokerWorld,
) -> None:
    await world.topic("old", partitions=56)
    await limit(world, CHANGES, 5)
    client = world.client()
    assert [row.error_code for row in (await client.ask(partitions_of_old(116), 3)).results] == [0]
    throttled = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert [row.error_code for row in (await client.ask(partitions_of_old(117), 3)).results] == [throttled]
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="old")], timeout_ms=1_000)
    assert [row.error_code for row in (await client.ask(gone)).responses] == [throttled]
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="made-by-asking")])
    await client.ask(asked)
    assert world.parts.topics.by_name("made-by-asking") is None
    await wait(world, client)
    await client.ask(asked)
    assert world.parts.topics.by_name("made-by-asking") is not None


@scenario(in_broker_world)
async def test_qu11_every_answer_with_a_field_for_it_says_how_long(world: BrokerWorld) -> None:
    await limit(world, WORK, 1)
    client = world.client()
    real = world.parts.groups.look_at_all

    def slow(*arguments: object, **named: object) -> object:
        world.clock.advance_ms(500)
        return real(*arguments, **named)

    world.parts.groups.look_at_all = slow  # type: ignore[method-assign]
    answer = await client.ask(ListGroupsRequest())
    assert answer.throttle_time_ms == 1_000
    assert (await world.client().ask(ListGroupsRequest())).throttle_time_ms == 1_000  # one user, one counter
