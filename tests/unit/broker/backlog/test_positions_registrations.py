from siltstone.broker.backlog.positions import Registrations, position_at_once, position_of
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from siltstone.metadata.commands import AlterTopicConfigs
from support.broker.backlog_world import GROUPS, commit, registered_topic
from support.broker.broker_world import in_broker_world
from support.scenarios import scenario


@scenario(in_broker_world)
async def test_which_groups_are_registered_with_which_topics(world) -> None:
    a = await registered_topic(world, "g", "h", name="a")
    b = await registered_topic(world, "g", name="b")
    await world.topic("c")
    registrations = Registrations(world.parts.topics)
    assert registrations.topics() == (a, b)
    assert registrations.by_group() == {"g": (a, b), "h": (a,)}
    assert registrations.names_of("g") == {"a", "b"} and not registrations.names_of("stranger")
    assert registrations.topics_of("stranger") == ()
    same = registrations.by_group()
    assert registrations.by_group() is same, "nothing has changed"
    await world.parts.metadata.execute(AlterTopicConfigs(b.id, put={GROUPS: "h"}))
    await world.parts.partitions.delete_topic(a)
    assert registrations.by_group().keys() == {"h"}
    assert registrations.names_of("h") == {"b"}


@scenario(in_broker_world, BrokerSettings(topic_defaults={GROUPS: "g"}))
async def test_a_default_of_topics_registers_groups_but_not_with_the_brokers_own_topic(world) -> None:
    await world.parts.creation.offsets_topic()
    topic = await world.topic()
    assert Registrations(world.parts.topics).by_group() == {"g": (topic,)}


@scenario(in_broker_world)
async def test_a_member_that_has_not_joined_yet_is_one_and_offsets_from_before_the_topic_are_none(
    world,
) -> None:
    topic = await registered_topic(world, "g", partitions=2)
    groups = world.parts.groups
    unknown = await position_of(groups, "g", (topic,))
    assert (unknown.is_known, unknown.has_members) == (False, False)
    await commit(world, "g", 5)
    position = await position_of(groups, "g", (topic,))
    assert (position.is_known, position.has_members) == (True, False)
    assert [position.offset(topic, index) for index in range(2)] == [5, -1]
    at_once = position_at_once(groups, "g", (topic,))
    assert await at_once == position
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    assert (await world.client().ask(join, 9)).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert (await position_of(groups, "g", (topic,))).has_members, "it was given its id and will join"
