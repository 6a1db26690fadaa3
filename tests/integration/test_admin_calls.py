"""The admin calls of tools to which one node has a plain answer, as other clients and Kafka's own tools see them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from oracles.java_tools import KafkaTools
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.server.embedded import Broker
from support.kafka.kafka_oracles import or_skip
from support.processes.tried import RecordTried

with warnings.catch_warnings(
    action="ignore", category=DeprecationWarning
):  # its way of reading its own files
    import kafka
    from kafka import admin as kafka_admin
    from kafka.errors import SecurityDisabledError

RECORDS, VALUE_BYTES = 10, 1_000


@pytest.fixture
def at(siltstone_broker: Broker) -> str:
    return siltstone_broker.bootstrap_servers


@pytest.fixture
def topic(at: str, siltstone_topic: str) -> str:
    """With records of an idempotent producer."""
    producer = Producer({"bootstrap.servers": at, "enable.idempotence": True})
    for _ in range(RECORDS):
        producer.produce(siltstone_topic, b"v" * VALUE_BYTES)
    assert producer.flush(30) == 0
    return siltstone_topic


@pytest.fixture
def admin(at: str) -> Iterator[kafka.KafkaAdminClient]:
    client = kafka.KafkaAdminClient(bootstrap_servers=at)
    yield client
    client.close()


def test_kafka_python_sees_sizes_and_producers(admin: kafka.KafkaAdminClient, topic: str) -> None:
    (node,) = admin.describe_log_dirs([topic])
    (folder,) = node["log_dirs"]
    (described,) = folder["topics"]
    assert (folder["error_code"], described["name"]) == (0, topic)
    (partition,) = described["partitions"]
    assert RECORDS * VALUE_BYTES < partition["partition_size"] < 2 * RECORDS * VALUE_BYTES
    ((partition, state),) = admin.describe_producers([kafka.TopicPartition(topic, 0)]).items()
    (producer,) = state.active_producers
    assert (partition.topic, producer.last_sequence, producer.producer_epoch) == (topic, RECORDS - 1, 0)


def test_kafka_python_sees_one_node_on_which_nothing_moves(admin: kafka.KafkaAdminClient, topic: str) -> None:
    quorum = admin.describe_metadata_quorum()
    (partition,) = quorum["topics"][0]["partitions"]
    (voter,) = partition["current_voters"]
    assert partition["leader_id"] == voter["replica_id"] == quorum["nodes"][0]["node_id"]
    assert partition["high_watermark"] == voter["log_end_offset"] > 0
    assert topic in admin.list_config_resources()["topic"]
    assert admin.list_partition_reassignments() == {}
    listed = [each.transactional_id for every in admin.list_transactions().values() for each in every]
    assert f"of-{topic}" not in listed, "other tests of the broker have transactions"
    group = kafka_admin.ConfigResource(kafka_admin.ConfigResourceType.GROUP, "any")
    assert admin.describe_configs([group]) == {"group": {"any": {}}}
    elected = admin.elect_leaders(0, {topic: [0]}, raise_errors=False)
    (result,) = elected.replica_election_results[0].partition_result
    assert result.error_code == ErrorCode.ELECTION_NOT_NEEDED


def test_kafka_python_is_told_that_there_are_no_acls(admin: kafka.KafkaAdminClient) -> None:
    anything = kafka_admin.ResourcePatternFilter(
        kafka_admin.ResourceType.ANY, None, kafka_admin.ACLResourcePatternType.ANY
    )
    wanted = kafka_admin.ACLFilter(
        None, None, kafka_admin.ACLOperation.ANY, kafka_admin.ACLPermissionType.ANY, anything
    )
    with pytest.raises(SecurityDisabledError, match="every client may do everything"):
        admin.describe_acls(wanted)


def test_confluent_is_told_the_same(at: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": at})
    elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(30)
    (error,) = elected.values()
    assert error.code() == ErrorCode.ELECTION_NOT_NEEDED
    wanted = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(wanted).result(30) == [], "it does not raise the error that it gets"
    users = admin.describe_user_scram_credentials().result(30)
    assert users == {}


TOOLS = {
    "kafka-log-dirs --describe --topic-list TOPIC": '"partition":"TOPIC-0","size":1',
    "kafka-configs --describe --entity-type users": "",
    "kafka-configs --describe --entity-type groups": "",
    "kafka-configs --describe --entity-type client-metrics": "",
    "kafka-metadata-quorum describe --status": "MaxFollowerLag:         0",
    "kafka-metadata-quorum describe --replication": "Leader",
    "kafka-transactions list": "TransactionalId",
    "kafka-transactions describe-producers --topic TOPIC --partition 0": "LastSequence",
    "kafka-transactions find-hanging --topic TOPIC": "Duration(min)",
    "kafka-leader-election --election-type preferred --topic TOPIC --partition 0": (
        "Valid replica already elected for partitions TOPIC-0"
    ),
    "kafka-leader-election --election-type unclean --all-topic-partitions": "",
    "kafka-reassign-partitions --list": "No partition reassignments found.",
}
"""What an operator types, and what of the answer tells that it was understood."""


@contextmanager
def kafka_tools(at: str) -> Iterator[KafkaTools]:
    yield KafkaTools(at)


@pytest.mark.kafka
@pytest.mark.nightly
@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(600)
def test_kafka_s_own_tools_end_well(at: str, topic: str, record_tried: RecordTried) -> None:
    with or_skip(lambda: kafka_tools(at)) as tools:
        try_all_of_them(tools, topic, record_tried)
        refused = tools.run("kafka-acls", "--list")
    assert refused.status == 1 and "No authorizer is configured" in refused.output + refused.errors


def try_all_of_them(tools: KafkaTools, topic: str, record_tried: RecordTried) -> None:
    for typed, told in TOOLS.items():
        tool, *options = typed.replace("TOPIC", topic).split()
        assert told.replace("TOPIC", topic) in tools.output(tool, *options), typed
        record_tried("commands of Kafka's tools", 1)
