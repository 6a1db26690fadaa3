from msgspec.structs import replace

from siltstone.broker.settings import BrokerSettings
from siltstone.maintenance.topic_streams import TOPIC_DEFAULTS_KEY, topic_defaults
from siltstone.metadata.commands import PutKey
from support.broker.broker_world import in_broker_world

SETTINGS = BrokerSettings(topic_defaults={"log.retention.ms": "9", "segment.bytes": "2097152"})


def test_a_broker_leaves_its_defaults_of_topics_where_maintenance_finds_them():
    async def scenario(world):
        image = world.parts.metadata.image
        assert topic_defaults(image) == {"retention.ms": "9", "segment.bytes": "2097152"}
        same_again = b'{"segment.bytes": "2097152", "retention.ms": "9"}'
        await world.parts.metadata.execute(PutKey(TOPIC_DEFAULTS_KEY, same_again, overwrite=True))
        await world.restart()
        assert world.parts.metadata.image.keys[TOPIC_DEFAULTS_KEY] == same_again  # not written once more
        world.settings = replace(SETTINGS, topic_defaults={})
        await world.restart()
        assert topic_defaults(world.parts.metadata.image) == {}

    in_broker_world(scenario, SETTINGS)


def test_a_broker_without_any_writes_none():
    async def scenario(world):
        assert TOPIC_DEFAULTS_KEY not in world.parts.metadata.image.keys

    in_broker_world(scenario)
