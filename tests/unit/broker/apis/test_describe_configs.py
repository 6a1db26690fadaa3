import pytest

from siltstone.broker.group_configs import key_of_group, written_group_configs
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from siltstone.metadata.commands import AlterTopicConfigs, PutKey
from siltstone.topic_configs.rows import TABLE
from support.broker.admin_world import NODE_ID, connection_at, in_admin_world
from support.scenarios import scenario

TOPIC, BROKER, GROUP = 2, 4, 32
TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5


def describing(kind: int, name: str, keys: list[str] | None = None, **asked: bool) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=[resource], **asked)


async def described(world, request, version=None) -> dict:
    (result,) = (await world.answer(request, version)).results
    assert (result.error_code, result.error_message) == (0, None)
    assert result.resource_type == request.resources[0].resource_type
    assert result.resource_name == request.resources[0].resource_name
    return {config.name: config for config in result.configs}


@pytest.mark.parametrize("version", range(1, 5))
@scenario(in_admin_world)
async def test_item_22_every_configuration_of_a_topic_in_every_version(world, version) -> None:
    await world.create("t", retention_ms="5", cleanup_policy="compact")
    configs = await described(world, describing(TOPIC, "t"), version)
    assert [*configs] == [*TABLE]
    assert {name: config.value for name, config in configs.items()} == {
        name: row.default for name, row in TABLE.items()
    } | {"retention.ms": "5", "cleanup.policy": "compact"}
    sources = {name for name, config in configs.items() if config.config_source == TOPIC_CONFIG}
    assert sources == {"retention.ms", "cleanup.policy"}
    assert not any(config.read_only or config.is_sensitive for config in configs.values())
    if version >= 3:
        assert {name: config.config_type for name, config in configs.items()} == {
            name: row.kind for name, row in TABLE.items()
        }


@scenario(in_admin_world)
async def test_item_22_only_the_keys_asked_for(world) -> None:
    await world.create("t")
    keys = ["retention.ms", "no.such.key", "cleanup.policy"]
    assert [*await described(world, describing(TOPIC, "t", keys))] == ["cleanup.policy", "retention.ms"]
    assert len(await described(world, describing(TOPIC, "t", []))) == len(TABLE)
    assert [*await described(world, describing(BROKER, str(NODE_ID), ["node.id"]))] == ["node.id"]


@scenario(in_admin_world, BrokerSettings(topic_defaults={"retention.ms": "9"}))
async def test_item_22_synonyms_say_which_place_holds(world) -> None:
    await world.create("t", retention_ms="5")
    for asked, expected in (
        (True, [("retention.ms", "5", TOPIC_CONFIG), ("log.retention.ms", "9", STATIC_BROKER_CONFIG)]),
        (False, []),
    ):  # fmt: skip
        configs = await described(world, describing(TOPIC, "t", include_synonyms=asked))
        synonyms = configs["retention.ms"].synonyms
        assert [(synonym.name, synonym.value, synonym.source) for synonym in synonyms] == expected
    configs = await described(world, describing(TOPIC, "t", include_synonyms=True))
    assert configs["flush.ms"].synonyms == [], "its first name has no default in Kafka"
    (synonym,) = configs["retention.bytes"].synonyms
    assert (synonym.name, synonym.source) == ("log.retention.bytes", DEFAULT_CONFIG)


@scenario(in_admin_world, BrokerSettings(topic_defaults={"siltstone.record.validation": "full"}))
async def test_item_22_a_default_of_the_broker_is_told_as_such(world) -> None:
    await world.create("t")
    config = (await described(world, describing(TOPIC, "t")))["siltstone.record.validation"]
    assert (config.value, config.config_source) == ("full", STATIC_BROKER_CONFIG)


@scenario(in_admin_world)
async def test_item_22_documentation_when_asked_for(world) -> None:
    await world.create("t")
    told = await described(world, describing(TOPIC, "t", include_documentation=True))
    silent = await described(world, describing(TOPIC, "t"))
    assert all(told[name].documentation == row.documentation for name, row in TABLE.items())
    assert all(config.documentation is None for config in silent.values())
    broker = await described(world, describing(BROKER, str(NODE_ID), include_documentation=True))
    assert all(config.documentation for config in broker.values())


@scenario(in_admin_world)
async def test_what_is_stored_and_not_understood_is_not_told(world) -> None:
    topic = await world.create("t")
    stored = {"from.the.future": "1", "retention.ms": "soon"}
    await world.parts.metadata.execute(AlterTopicConfigs(topic.id, put=stored))
    configs = await described(world, describing(TOPIC, "t"))
    assert [*configs] == [*TABLE]
    assert configs["retention.ms"].config_source == DEFAULT_CONFIG


def test_item_22_this_broker_by_its_number():
    async def scenario(world):
        connection = connection_at("outside", 19092)
        (result,) = (await world.answer(describing(BROKER, str(NODE_ID)), 4, connection)).results
        configs = {config.name: config for config in result.configs}
        assert [*configs] == sorted(configs) and all(config.read_only for config in result.configs)
        values = {name: (config.value, config.config_source) for name, config in configs.items()}
        assert values["num.partitions"] == ("3", STATIC_BROKER_CONFIG)
        assert values["default.replication.factor"] == ("1", DEFAULT_CONFIG)
        assert values["auto.create.topics.enable"] == ("false", STATIC_BROKER_CONFIG)
        assert values["log.retention.ms"] == ("9", STATIC_BROKER_CONFIG)
        assert values["message.max.bytes"] == ("1048588", DEFAULT_CONFIG)
        assert values["advertised.listeners"] == ("PLAINTEXT://outside:19092", STATIC_BROKER_CONFIG)
        assert values["node.id"] == (str(NODE_ID), STATIC_BROKER_CONFIG)
        assert values["broker.id"] == values["node.id"]
        assert values["delete.topic.enable"] == ("true", STATIC_BROKER_CONFIG)
        assert values["offsets.topic.replication.factor"] == ("1", STATIC_BROKER_CONFIG)
        assert configs["auto.create.topics.enable"].config_type == 1
        assert configs["num.partitions"].config_type == 3
        assert configs["advertised.listeners"].config_type == 2
        assert configs["producer.id.expiration.ms"].config_type == 5

    settings = BrokerSettings(
        num_partitions=3, auto_create_topics_enable=False, topic_defaults={"retention.ms": "9"}
    )
    in_admin_world(scenario, settings)


@scenario(in_admin_world)
async def test_every_setting_of_the_broker_is_told(world) -> None:
    configs = await described(world, describing(BROKER, str(NODE_ID), include_documentation=True))
    documentation = " ".join(config.documentation for config in configs.values())
    told_one_by_one = {"topic_defaults"}
    for section, settings in (("broker", BrokerSettings()), ("groups", GroupSettings())):
        for name in set(settings.__struct_fields__) - told_one_by_one:
            assert isinstance(getattr(settings, name), bool | int | str), f"tell {name} as well"
            assert f"{section}.{name} " in documentation
    assert configs["group.max.session.timeout.ms"].value == str(GroupSettings().group_max_session_timeout_ms)


@scenario(in_admin_world)
async def test_what_was_altered_for_all_brokers_at_once_is_nothing(world) -> None:
    assert await described(world, describing(BROKER, "")) == {}


@pytest.mark.parametrize(
    ("kind", "name", "code", "fault"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nowhere"),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, "a/b"),
        (TOPIC, "", ErrorCode.INVALID_REQUEST, "Default topic resources"),
        (BROKER, str(NODE_ID + 1), ErrorCode.INVALID_REQUEST, f"received {NODE_ID + 1}"),
        (BROKER, "seven", ErrorCode.INVALID_REQUEST, "received seven"),
        (8, str(NODE_ID), ErrorCode.INVALID_REQUEST, "BROKER_LOGGER"),
        (16, "metrics", ErrorCode.INVALID_REQUEST, "CLIENT_METRICS"),
        (0, "x", ErrorCode.INVALID_REQUEST, "Unknown resource type 0"),
        (99, "x", ErrorCode.INVALID_REQUEST, "Unknown resource type 99"),
    ],
)
@scenario(in_admin_world)
async def test_item_22_what_has_no_configuration_here(world, kind, name, code, fault) -> None:
    await world.create("t")
    request = describing(kind, name)
    request = DescribeConfigsRequest(resources=[*request.resources, *describing(TOPIC, "t").resources])
    refused, found = (await world.answer(request)).results
    assert (refused.error_code, refused.configs) == (code, [])
    assert (refused.resource_type, refused.resource_name) == (kind, name)
    assert fault in refused.error_message
    assert found.error_code == 0


@scenario(in_admin_world)
async def test_ng22_a_group_has_the_values_of_the_node_and_its_own(world) -> None:
    """The names, values and sources of Apache Kafka 4.3.1, but for what it has for streams groups."""
    configs = await described(world, describing(GROUP, "any group", include_synonyms=True))
    assert {name: config.value for name, config in configs.items()} == {
        "consumer.assignment.interval.ms": "1000",
        "consumer.heartbeat.interval.ms": "5000",
        "consumer.session.timeout.ms": "45000",
        "share.auto.offset.reset": "latest",
        "share.delivery.count.limit": "5",
        "share.heartbeat.interval.ms": "5000",
        "share.isolation.level": "read_uncommitted",
        "share.partition.max.record.locks": "2000",
        "share.record.lock.duration.ms": "30000",
        "share.session.timeout.ms": "45000",
    }
    assert {(config.config_source, config.read_only) for config in configs.values()} == {(5, False)}
    stored = written_group_configs({"consumer.session.timeout.ms": "60000"})
    await world.parts.metadata.execute(PutKey(key_of_group("any group"), stored, overwrite=True))
    configs = await described(world, describing(GROUP, "any group", include_synonyms=True))
    own = configs["consumer.session.timeout.ms"]
    assert (own.value, own.config_source, own.config_type) == ("60000", 8, 3)
    assert [(each.name, each.value, each.source) for each in own.synonyms] == [
        ("consumer.session.timeout.ms", "60000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    (named,) = configs["share.auto.offset.reset"].synonyms
    assert (named.name, named.value, named.source) == ("share.auto.offset.reset", "latest", 5)
    (refused,) = (await world.answer(describing(GROUP, ""))).results
    assert refused.error_code == ErrorCode.INVALID_REQUEST
