import pytest
from msgspec.structs import replace

from siltstone.broker.features import promise_features, promise_later, wants_features
from siltstone.broker.security.authorizer import AuthorizationTooWeak
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from siltstone.metadata.commands import PutKey, RemoveKey
from siltstone.metadata.features import TRANSACTION_VERSION, final_level, put_own_level
from siltstone.model.acls import AuthorizationMode
from siltstone.offline.topic_streams import TOPIC_DEFAULTS_KEY, topic_defaults
from support.broker.broker_cluster import in_broker_cluster
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.kafka.kafka_requests import row_of
from support.metadata.faulty_log import FaultyLog
from support.scenarios import scenario

SETTINGS = BrokerSettings(topic_defaults={"log.retention.ms": "9", "segment.bytes": "2097152"})


@scenario(in_broker_world, SETTINGS)
async def test_a_broker_leaves_its_defaults_of_topics_where_maintenance_finds_them(world) -> None:
    image = world.parts.metadata.image
    assert topic_defaults(image) == {"retention.ms": "9", "segment.bytes": "2097152"}
    same_again = b'{"segment.bytes": "2097152", "retention.ms": "9"}'
    await world.parts.metadata.execute(PutKey(TOPIC_DEFAULTS_KEY, same_again, overwrite=True))
    await world.restart()
    assert world.parts.metadata.image.keys[TOPIC_DEFAULTS_KEY] == same_again  # not written once more
    world.settings = replace(SETTINGS, topic_defaults={})
    await world.restart()
    assert topic_defaults(world.parts.metadata.image) == {}


@scenario(in_broker_world)
async def test_a_broker_without_any_writes_none(world) -> None:
    assert TOPIC_DEFAULTS_KEY not in world.parts.metadata.image.keys


@scenario(in_broker_world)
async def test_n07_offsets_of_a_new_topic_are_kept_by_a_node_whose_clock_is_behind(world) -> None:
    """The creation time of a topic is one of the log's clock. An offset that was committed before is one of an older
    topic of that name, and is forgotten when groups are loaded."""
    log = FaultyLog(world.world.log)
    log.clock_is_ahead_ms = 20_000
    world.world.log = log
    await world.restart()
    await world.topic("t")
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=23)
    commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[row])])
    assert row_of(await world.client().ask(commit, 2)).error_code == 0
    await world.restart()
    asked = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    answer = await world.client().ask(OffsetFetchRequest(group_id="g", topics=[asked]), 1)
    assert row_of(answer).committed_offset == 23


def test_nd10_a_broker_does_not_start_on_a_store_that_is_less_strict_than_its_setting() -> None:
    async def never(world: BrokerWorld) -> None:
        raise AssertionError("the broker started")

    with pytest.raises(AuthorizationTooWeak, match="switch it on first"):
        in_broker_world(never, BrokerSettings(authorization=AuthorizationMode.ON))


@scenario(in_broker_cluster)
async def test_tx39_a_feature_is_promised_when_the_last_node_has_it(cluster) -> None:
    """Node 1 runs a version that knows of no features, and is replaced."""
    metadata = cluster.nodes[0].node.metadata
    life = metadata.image.nodes[1].life
    assert final_level(metadata.image, TRANSACTION_VERSION) == 2
    await metadata.execute(RemoveKey("feature/transaction.version"))
    for node_id in (0, 1):
        await metadata.execute(RemoveKey(f"node-feature/{node_id}/transaction.version"))
    await promise_features(metadata, 0)
    assert final_level(metadata.image, TRANSACTION_VERSION) == 0
    assert wants_features(metadata.image)
    await promise_later(metadata, 0)
    await metadata.execute(put_own_level(life, TRANSACTION_VERSION, 2))
    await promise_later(metadata, 0)
    assert final_level(metadata.image, TRANSACTION_VERSION) == 2
    before = metadata.image.version
    await promise_features(metadata, 1)
    assert metadata.image.version == before, "nothing is written once all is promised"
