"""What a client that may see only a part sees, and what it may do with the rest: topics, fetches, creation."""

import pytest
from msgspec.structs import replace

from siltstone.kafka_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.kafka_protocol.messages.describe_cluster import DescribeClusterRequest
from siltstone.kafka_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.metadata.acls import CreateAcls, DeleteAcls
from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.entities import NodeListener
from siltstone.model.acls import AclOperation, AclResourceType, AuthorizationMode, PatternType, Permission
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.engine.engine_world import settled
from support.kafka.raw_calls import RawTopic, batch_of, fetch_request, metadata_request, produce_request
from support.scenarios import scenario
from support.security.rights import ROOT, allow, client_of, switch

TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
READ, WRITE, DESCRIBE, CREATE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.CREATE,
)


@scenario(in_broker_world)
async def test_ac06_hidden_and_missing_topics_look_alike(world: BrokerWorld) -> None:
    hidden = await world.topic("x")
    await world.topic("seen")
    await switch(world, allow(READ, TOPIC, "seen"))
    client = client_of(world)
    told = await client.ask(metadata_request("x", "y", "seen", creates=True))
    rows = {row.name: row for row in told.topics}
    assert {name: row.error_code for name, row in rows.items()} == {"x": 29, "y": 29, "seen": 0}
    assert replace(rows["x"], name="y") == rows["y"]
    by_id = MetadataRequestTopic(name=None, topic_id=hidden.topic_id)
    (row,) = (await client.ask(MetadataRequest(topics=[by_id]))).topics
    assert (row.error_code, row.name) == (29, None)
    assert [row.name for row in (await client.ask(MetadataRequest(topics=None))).topics] == ["seen"]
    pages = DescribeTopicPartitionsRequest()
    assert [row.name for row in (await client.ask(pages)).topics] == ["seen"]
    named = replace(pages, topics=[TopicRequest(name=name) for name in ("seen", "x", "y")])
    codes = {row.name: row.error_code for row in (await client.ask(named)).topics}
    assert codes == {"seen": 0, "x": 29, "y": 29}
    assert len((await client_of(world, ROOT).ask(MetadataRequest(topics=None))).topics) == 2
    assert [topic.name for topic in world.parts.topics.all()] == ["seen", "x"], "y was not created"


@scenario(in_broker_world)
async def test_ac23_neither_a_hidden_nor_a_missing_topic_costs_a_reading_of_the_log(
    world: BrokerWorld,
) -> None:
    """In a cluster another node may have created a topic that this one does not know. The log is read for those who may
    see the topic: for others the time of an answer tells nothing."""
    await world.topic("x")
    await world.parts.metadata.execute(
        RegisterNode(9, "a life", "wal-of-9", listeners=(NodeListener("PLAINTEXT", "h", 1),))
    )
    await switch(world)
    readings: list[str] = []
    world.calls.before_call = lambda name: readings.append(name) if name == "refresh" else None
    client, answers = client_of(world), {}
    for name in ("x", "y") * 10:
        (row,) = (await client.ask(metadata_request(name))).topics
        answers[name] = replace(row, name="")
        await client.ask(produce_request(RawTopic(name), {0: batch_of()}), 12)
        await client.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)]))
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]))
    assert readings == []
    assert answers["x"] == answers["y"]
    await client_of(world, ROOT).ask(metadata_request("y"))
    assert readings, "who may see it finds what another node has created"


@pytest.mark.parametrize("resource", [(TOPIC, "new"), (CLUSTER, "kafka-cluster")])
@scenario(in_broker_world)
async def test_a_topic_is_created_on_its_own_by_who_may_create_it(
    world: BrokerWorld, resource: tuple[AclResourceType, str]
) -> None:
    await switch(world, allow(DESCRIBE, TOPIC, "new"))
    client = client_of(world)
    assert (await client.ask(metadata_request("new", creates=True))).topics[0].error_code == 29
    await world.parts.metadata.execute(CreateAcls((allow(CREATE, *resource),)))
    assert (await client.ask(metadata_request("new", creates=True))).topics[0].error_code == 3
    assert world.parts.topics.by_name("new") is not None


@scenario(in_broker_world)
async def test_a_new_topic_shows_its_configuration_to_who_may_describe_it(world: BrokerWorld) -> None:
    shown = allow(AclOperation.DESCRIBE_CONFIGS, TOPIC, "shown")
    await switch(world, allow(CREATE, TOPIC, "shown"), allow(CREATE, TOPIC, "hidden"), shown)
    topics = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        for name in ("shown", "hidden", "denied")
    ]
    told = await client_of(world).ask(CreateTopicsRequest(topics=topics))
    rows = {
        row.name: (row.error_code, row.topic_config_error_code, row.num_partitions) for row in told.topics
    }
    assert rows == {"shown": (0, 0, 2), "hidden": (0, 29, -1), "denied": (29, 0, -1)}


@scenario(in_broker_world)
async def test_a_topic_that_may_not_be_deleted_keeps_its_name_to_itself(world: BrokerWorld) -> None:
    topics = {name: await world.topic(name) for name in ("hidden", "seen", "mine")}
    await switch(world, allow(DESCRIBE, TOPIC, "seen"), allow(AclOperation.DELETE, TOPIC, "mine"))
    by_name = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in ("seen", "hidden", "none")])
    codes = {row.name: row.error_code for row in (await client_of(world).ask(by_name)).responses}
    assert codes == {"seen": 29, "hidden": 29, "none": 29}
    described = allow(DESCRIBE, TOPIC, "none")
    await world.parts.metadata.execute(CreateAcls((described,)))
    codes = {row.name: row.error_code for row in (await client_of(world).ask(by_name)).responses}
    assert codes == {"seen": 29, "hidden": 29, "none": 3}, "Kafka 4.3.1"
    states = [DeleteTopicState(topic_id=each.topic_id) for each in topics.values()]
    told = await client_of(world).ask(DeleteTopicsRequest(topics=states))
    rows = {row.topic_id: (row.name, row.error_code) for row in told.responses}
    expected = {"hidden": (None, 29), "seen": ("seen", 29), "mine": ("mine", 0)}
    assert rows == {topics[name].topic_id: row for name, row in expected.items()}


@scenario(in_broker_world)
async def test_ac07_a_revoked_right_ends_a_fetch_session_and_a_fetch_that_waits(world: BrokerWorld) -> None:
    topic = await world.topic("t")
    raw = RawTopic("t", topic.topic_id)
    reads = allow(READ, TOPIC, "t")
    await switch(world, reads)
    client = client_of(world)
    first = await client.ask(fetch_request(raw, {0: 0}, session_epoch=0))
    assert (first.session_id > 0, first.topics[0].partitions[0].error_code) == (True, 0)
    await client_of(world, ROOT).ask(produce_request(raw, {0: batch_of()}))
    waiting = client.send(fetch_request(raw, {0: 1}, wait_ms=500))
    await settled()
    assert not waiting.done()
    await world.parts.metadata.execute(DeleteAcls((reads,)))
    await client_of(world, ROOT).ask(produce_request(raw, {0: batch_of()}))
    (row,) = (await waiting).topics[0].partitions
    assert (row.error_code, b"".join(row.records)) == (29, b""), "the fetch had begun with the right"
    again = fetch_request(raw, {}, session_id=first.session_id, session_epoch=1)
    (row,) = (await client.ask(replace(again, topics=[]))).topics[0].partitions
    assert (row.error_code, b"".join(row.records)) == (29, b"")


@scenario(in_broker_world)
async def test_ac08_produce_and_the_id_of_an_idempotent_producer(world: BrokerWorld) -> None:
    for name in ("t", "other"):
        await world.topic(name)
    wants_id = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    await switch(world)
    client = client_of(world)
    assert (await client.ask(wants_id, 5)).error_code == 31
    await world.parts.metadata.execute(CreateAcls((allow(WRITE, TOPIC, "t"),)))
    assert (await client.ask(wants_id, 5)).error_code == 0
    for name, code in (("t", 0), ("other", 29), ("missing", 29)):
        answer = await client.ask(produce_request(RawTopic(name), {0: batch_of()}), 9)
        assert answer.topics[0].partitions[0].error_code == code, name
    by_id = produce_request(RawTopic("", b"\x07" * 16), {0: batch_of()})
    assert (await client.ask(by_id)).topics[0].partitions[0].error_code == 100
    denied = allow(WRITE, TOPIC, "", permission=Permission.DENY)
    await world.parts.metadata.execute(
        CreateAcls((replace(denied, name="t", pattern_type=PatternType.PREFIXED),))
    )
    assert (await client.ask(wants_id, 5)).error_code == 31


@scenario(in_broker_world)
async def test_ac18_bits_say_what_the_client_may_do(world: BrokerWorld) -> None:
    await world.topic("t")
    await switch(world, allow(READ, TOPIC, "t"))
    bits = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    told = await client_of(world).ask(metadata_request("t", **bits), 9)
    assert told.topics[0].topic_authorized_operations == 1 << READ | 1 << DESCRIBE
    assert told.cluster_authorized_operations == 0
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = await client_of(world).ask(request)
    assert (answer.cluster_authorized_operations, len(answer.brokers)) == (0, 1)
    await world.parts.metadata.execute(CreateAcls((allow(AclOperation.ALTER, CLUSTER),)))
    answer = await client_of(world).ask(request)
    assert answer.cluster_authorized_operations == 1 << AclOperation.ALTER | 1 << DESCRIBE


@scenario(in_broker_world)
async def test_ac19_report_lets_everything_pass_and_counts_it(world: BrokerWorld) -> None:
    topic = await world.topic("t")
    await switch(world, mode=AuthorizationMode.REPORT)
    answer = await client_of(world).ask(produce_request(RawTopic("t", topic.topic_id), {0: batch_of()}))
    assert answer.topics[0].partitions[0].error_code == 0
    assert len((await client_of(world).ask(MetadataRequest(topics=None))).topics) == 1
    assert world.parts.measures.statistics().denied == {(0, False): 1}
