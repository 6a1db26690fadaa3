from siltstone.broker.backlog.positions import Registrations
from siltstone.broker.settings import BrokerSettings
from siltstone.metadata.commands import AlterTopicConfigs
from support.broker.backlog_world import GROUPS, registered_topic
from support.broker.broker_world import in_broker_world


def test_which_groups_are_registered_with_which_topics():
    async def scenario(world):
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

    in_broker_world(scenario)


def test_a_default_of_topics_registers_groups_but_not_with_the_brokers_own_topic():
    async def scenario(world):
        await world.parts.creation.offsets_topic()
        topic = await world.topic()
        assert Registrations(world.parts.topics).by_group() == {"g": (topic,)}

    in_broker_world(scenario, BrokerSettings(topic_defaults={GROUPS: "g"}))
