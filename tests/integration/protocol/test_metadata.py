"""Items 12 to 22 of docs/scenarios.md: metadata and topics."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from siltstone.kafka_protocol.messages.describe_cluster import DescribeClusterRequest
from siltstone.kafka_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from siltstone.kafka_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.kafka_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from siltstone.kafka_protocol.notation import NO_UUID
from support.kafka.kafka_batches import bytes_of_records, iterate_headers
from support.kafka.message_oracles import kio_reads
from support.kafka.raw_calls import (
    NOWHERE,
    RawTopic,
    batch_of,
    create_topic,
    delete_topic,
    fetch,
    fetch_request,
    fetched_rows,
    list_offset,
    metadata_request,
    produce,
    produce_request,
    produce_well,
    produced_rows,
)
from support.kafka.raw_kafka import Address, OracleCheckedConnection, RawConnection, address_of

BROKER_SETTINGS = {"broker.num_partitions": "3"}

NewTopic = Callable[..., RawTopic]
NOT_ASKED = -2147483648
EVERY_METADATA = range(14)


def names_in(response: Any) -> set[str]:
    return {topic.name for topic in response.topics}


def the_topic(response: Any) -> Any:
    (topic,) = response.topics
    return topic


def leader_epoch(connection: RawConnection, topic: RawTopic, version: int = 12) -> int:
    answer = connection.ask(metadata_request(topic.name), version)
    return int(the_topic(answer).partitions[0].leader_epoch)


def epoch_end(
    connection: RawConnection, topic: RawTopic, epoch: int, *, current: int = -1, version: int = 4
) -> Any:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic.name, partitions=[asked])])
    (answered,) = connection.ask(request, version).topics
    (row,) = answered.partitions
    return row


# -- 12: empty and null --------------------------------------------------------------------------------------


def test_item_12_nothing_means_all_in_version_0(connection: RawConnection, new_topic: NewTopic) -> None:
    names = {new_topic().name, new_topic().name}

    assert names <= names_in(connection.ask(MetadataRequest(topics=[]), 0))


@pytest.mark.parametrize("version", EVERY_METADATA[1:])
def test_item_12_null_means_all_and_nothing_means_none_from_version_1_on(
    connection: RawConnection, topic: RawTopic, version: int
) -> None:
    assert topic.name in names_in(connection.ask(MetadataRequest(topics=None), version))
    assert names_in(connection.ask(MetadataRequest(topics=[]), version)) == set()


# -- 13: which error -----------------------------------------------------------------------------------------

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [4, 9, 12])
def test_item_13_an_unknown_topic_is_error_3_by_name(connection: RawConnection, version: int) -> None:
    answered = the_topic(connection.ask(metadata_request(NOWHERE.name), version))

    assert (answered.name, answered.error_code, answered.partitions) == (NOWHERE.name, UNKNOWN, [])


def test_item_13_requests_for_data_of_an_unknown_topic_or_partition_are_error_3(
    connection: RawConnection, topic: RawTopic
) -> None:
    for asked, index in ((NOWHERE, 0), (topic, 1), (topic, -1), (topic, 2**31 - 1)):
        assert produce(connection, asked, batch_of(), partition=index, version=9).error_code == UNKNOWN
        assert fetch(connection, asked, 0, partition=index, version=12).error_code == UNKNOWN
        assert list_offset(connection, asked, -1, partition=index).error_code == UNKNOWN
    assert epoch_end(connection, NOWHERE, 0).error_code == UNKNOWN


def test_item_13_an_unknown_id_is_error_100(connection: RawConnection) -> None:
    assert produce(connection, NOWHERE, batch_of(), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(connection, NOWHERE, 0, version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=NOWHERE.id, name=None)])
    answered = the_topic(connection.ask(asked, 12))
    assert (answered.error_code, answered.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, NOWHERE.id)


def test_item_13_an_unknown_partition_of_a_known_id_is_error_3(
    connection: RawConnection, topic: RawTopic
) -> None:
    assert produce(connection, topic, batch_of(), partition=9, version=13).error_code == UNKNOWN
    assert fetch(connection, topic, 0, partition=9, version=13).error_code == UNKNOWN


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "tschüß", "x" * 250, "a\x00b"])
@pytest.mark.parametrize("creates", [True, False])
def test_item_13_an_illegal_name_is_error_17(connection: RawConnection, name: str, creates: bool) -> None:
    answered = the_topic(connection.ask(metadata_request(name, creates=creates), 9))
    assert answered.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    asked = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    created = the_topic(connection.ask(CreateTopicsRequest(topics=[asked]), 5))
    assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


# -- 14: automatic creation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 3, 4, 9, 13])
def test_item_14_a_topic_is_created_when_the_client_allows_it(
    connection: RawConnection, free_name: str, version: int
) -> None:
    """Before version 4 every client does."""
    if version >= 4:
        refused = the_topic(connection.ask(metadata_request(free_name, creates=False), version))
        assert (refused.error_code, refused.partitions) == (UNKNOWN, [])

    created = the_topic(connection.ask(metadata_request(free_name, creates=True), version))
    assert created.error_code == 0
    assert sorted(row.partition_index for row in created.partitions) == [0, 1, 2]
    assert {row.error_code for row in created.partitions} == {0}


def test_item_14_and_not_when_the_broker_does_not(tmp_path: Path) -> None:
    settings = {"broker.auto_create_topics_enable": "false"}
    with (
        siltstone.Broker(tmp_path, settings=settings) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        answered = the_topic(connection.ask(metadata_request("wanted", creates=True), 9))
        everything = connection.ask(MetadataRequest(topics=None), 9)

    assert (answered.error_code, answered.partitions, everything.topics) == (UNKNOWN, [], [])


def test_item_14_producing_fetching_and_asking_for_offsets_creates_nothing(
    connection: RawConnection, free_name: str
) -> None:
    missing = RawTopic(free_name)
    produce(connection, missing, batch_of())
    fetch(connection, missing, 0)
    list_offset(connection, missing, -1)

    assert free_name not in names_in(connection.ask(MetadataRequest(topics=None), 9))


# -- 15, 16: the cluster -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY_METADATA[1:])
def test_item_15_the_controller_is_a_broker_that_is_listed(
    connection: RawConnection, address: Address, version: int
) -> None:
    answer = connection.ask(MetadataRequest(topics=[]), version)

    assert answer.controller_id in {broker.node_id for broker in answer.brokers}
    assert [(broker.host, broker.port) for broker in answer.brokers] == [address]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_item_15_describe_cluster_names_the_same_controller(connection: RawConnection, version: int) -> None:
    answer = connection.ask(DescribeClusterRequest(), version)
    metadata = connection.ask(MetadataRequest(topics=[]), 9)

    assert answer.controller_id == metadata.controller_id
    assert [broker.broker_id for broker in answer.brokers] == [answer.controller_id]
    assert answer.cluster_id == metadata.cluster_id


@pytest.mark.parametrize("version", EVERY_METADATA[2:])
def test_item_16_the_cluster_has_an_id_that_stays(connection: RawConnection, version: int) -> None:
    ids = {connection.ask(MetadataRequest(topics=[]), version).cluster_id for _ in range(2)}

    assert len(ids) == 1
    assert len(ids.pop()) == 22, "16 bytes in base64, as Kafka writes it"


@pytest.mark.parametrize("version", range(8, 14))
def test_item_16_operations_are_told_only_when_they_are_asked_for(
    connection: RawConnection, topic: RawTopic, version: int
) -> None:
    silent = connection.ask(metadata_request(topic.name), version)
    assert the_topic(silent).topic_authorized_operations == NOT_ASKED
    assert silent.cluster_authorized_operations == NOT_ASKED

    told = connection.ask(
        metadata_request(
            topic.name,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        version,
    )
    assert the_topic(told).topic_authorized_operations > 0
    assert (told.cluster_authorized_operations > 0) is (version <= 10)


# -- 17: topic ids -------------------------------------------------------------------------------------------


def test_item_17_a_topic_has_one_id_wherever_it_is_asked_for(
    connection: RawConnection, topic: RawTopic
) -> None:
    assert topic.id != NO_UUID
    for version in range(10, 14):
        assert the_topic(connection.ask(metadata_request(topic.name), version)).topic_id == topic.id
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic.id, name=None)])
    assert the_topic(connection.ask(by_id, 12)).name == topic.name
    described = connection.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic.name)]), 0)
    assert the_topic(described).topic_id == topic.id


def test_item_17_a_topic_made_again_has_another_id_and_the_old_one_leads_nowhere(
    connection: RawConnection, topic: RawTopic
) -> None:
    produce_well(connection, topic, batch_of())
    delete_topic(connection, topic)
    again = create_topic(connection, topic.name)

    assert again.id not in (topic.id, NO_UUID)
    assert fetch(connection, topic, 0, version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(connection, topic, batch_of(), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(connection, again, 0, version=13).high_watermark == 0
    assert produce(connection, again, batch_of(), version=13).base_offset == 0


def test_item_17_the_answers_of_versions_with_ids_have_no_names(
    connection: RawConnection, topic: RawTopic
) -> None:
    produced = connection.ask(produce_request(topic, {0: batch_of()}), 13)
    fetched = connection.ask(fetch_request(topic, {0: 0}), 13)

    assert [(row.name, row.topic_id) for row in produced.topics] == [("", topic.id)]
    assert [(row.name, row.topic_id) for row in fetched.topics] == [("", topic.id)]


# -- 18, 19, 20: leader epochs -------------------------------------------------------------------------------


def test_item_18_the_leader_epoch_is_the_same_wherever_it_is_told(
    connection: RawConnection, topic: RawTopic
) -> None:
    produce_well(connection, topic, batch_of())
    epoch = leader_epoch(connection, topic)
    (header,) = [header for _, header in iterate_headers(bytes_of_records(fetch(connection, topic, 0)))]
    told = {
        header.partition_leader_epoch,
        *(leader_epoch(connection, topic, version) for version in range(7, 14)),
        *(list_offset(connection, topic, -1, version=version).leader_epoch for version in range(4, 12)),
        *(epoch_end(connection, topic, epoch, version=version).leader_epoch for version in range(2, 5)),
    }

    assert told == {epoch}
    assert epoch >= 0


def test_item_18_it_rises_with_every_opening_and_old_records_keep_theirs(tmp_path: Path) -> None:
    epochs = []
    for life in range(3):
        with (
            siltstone.Broker(tmp_path) as broker,
            RawConnection(address_of(broker.bootstrap_servers)) as connection,
        ):
            topic = RawTopic("kept") if life else create_topic(connection, "kept")
            told_before = leader_epoch(connection, topic)
            assert produce_well(connection, topic, batch_of(2)) == [2 * life]
            assert leader_epoch(connection, topic) == told_before
            epochs.append(told_before)
            stored = [
                header.partition_leader_epoch
                for _, header in iterate_headers(bytes_of_records(fetch(connection, topic, 0)))
            ]
            assert stored == epochs
            ends = [epoch_end(connection, topic, epoch) for epoch in epochs]
            assert [(row.leader_epoch, row.end_offset) for row in ends] == [
                (epoch, 2 * number + 2) for number, epoch in enumerate(epochs)
            ]
    assert epochs == sorted(set(epochs))


@pytest.fixture(scope="module")
def reopened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A broker in its second life; topic "aged" has records of both, so there is an epoch before its own."""
    folder = tmp_path_factory.mktemp("reopened")
    with (
        siltstone.Broker(folder) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        produce_well(connection, create_topic(connection, "aged"), batch_of())
    with siltstone.Broker(folder) as broker:
        yield address_of(broker.bootstrap_servers)


def aged_topic(connection: RawConnection) -> tuple[RawTopic, int]:
    """And its leader epoch."""
    found = the_topic(connection.ask(metadata_request("aged"), 12))
    epoch = int(found.partitions[0].leader_epoch)
    assert epoch >= 1
    return RawTopic("aged", bytes(found.topic_id)), epoch


@pytest.mark.parametrize("version", [9, 12, 16, 18])
def test_item_19_fetch_refuses_another_leader_epoch(reopened: Address, version: int) -> None:
    with OracleCheckedConnection(reopened, kio_reads) as connection:
        topic, epoch = aged_topic(connection)
        for current, error in (
            (epoch - 1, ErrorCode.FENCED_LEADER_EPOCH),
            (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            answer = connection.ask(fetch_request(topic, {0: 0}, current_leader_epoch=current), version)
            (row,) = fetched_rows(answer)
            assert (row.error_code, row.high_watermark, len(row.records)) == (error, -1, 0)
            if (
                version >= 16 and error == ErrorCode.FENCED_LEADER_EPOCH
            ):  # KIP-951: it need not ask for metadata
                leader = row.current_leader
                nodes = {node.node_id: (node.host, node.port) for node in answer.node_endpoints}
                assert (leader.leader_epoch, nodes[leader.leader_id]) == (epoch, reopened)
        for current in (epoch, -1):
            row = fetch(connection, topic, 0, version=version, current_leader_epoch=current)
            assert (row.error_code, row.high_watermark) == (0, 1)


def test_item_19_so_do_list_offsets_and_offset_for_leader_epoch(reopened: Address) -> None:
    with RawConnection(reopened) as connection:
        topic, epoch = aged_topic(connection)

        def listed(current: int) -> int:
            row = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=current)
            asked = ListOffsetsTopic(name=topic.name, partitions=[row])
            answer = connection.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
            return int(answer.topics[0].partitions[0].error_code)

        expected = {
            epoch - 1: ErrorCode.FENCED_LEADER_EPOCH,
            epoch: 0,
            -1: 0,
            epoch + 1: ErrorCode.UNKNOWN_LEADER_EPOCH,
        }
        assert {current: listed(current) for current in expected} == expected
        assert {
            current: epoch_end(connection, topic, epoch, current=current).error_code for current in expected
        } == expected


def test_item_20_the_current_epoch_ends_at_the_end_of_the_log_and_an_unknown_one_nowhere(
    connection: RawConnection, topic: RawTopic
) -> None:
    epoch = leader_epoch(connection, topic)
    produce_well(connection, topic, batch_of(5))

    def ends(asked: int) -> tuple[int, int, int]:
        row = epoch_end(connection, topic, asked)
        return row.error_code, row.leader_epoch, row.end_offset

    assert ends(epoch) == (0, epoch, 5)
    assert ends(epoch + 7) == (0, -1, -1)
    assert ends(-1) == (0, -1, -1)


# -- 21: creating topics -------------------------------------------------------------------------------------


def created(connection: RawConnection, asked: CreatableTopic, version: int = 7, **fields: Any) -> Any:
    return the_topic(connection.ask(CreateTopicsRequest(topics=[asked], **fields), version))


@pytest.mark.parametrize("version", range(2, 8))
def test_item_21_minus_1_stands_for_the_brokers_defaults(
    connection: RawConnection, free_name: str, version: int
) -> None:
    row = created(
        connection, CreatableTopic(name=free_name, num_partitions=-1, replication_factor=-1), version
    )
    metadata = the_topic(connection.ask(metadata_request(free_name), 9))

    assert row.error_code == 0
    assert len(metadata.partitions) == 3
    if version >= 5:
        assert (row.num_partitions, row.replication_factor) == (3, len(metadata.partitions[0].replica_nodes))
        assert "cleanup.policy" in {config.name for config in row.configs}
    if version >= 7:
        assert row.topic_id != NO_UUID


@pytest.mark.parametrize("factor", [1, 3, 100])
def test_item_21_any_number_of_replicas_is_accepted_and_the_truth_is_told(
    connection: RawConnection, free_name: str, factor: int
) -> None:
    row = created(connection, CreatableTopic(name=free_name, num_partitions=1, replication_factor=factor))
    (partition,) = the_topic(connection.ask(metadata_request(free_name), 9)).partitions

    assert row.error_code == 0
    assert row.replication_factor == len(partition.replica_nodes) == len(partition.isr_nodes)


def test_item_21_validate_only_creates_nothing(connection: RawConnection, free_name: str) -> None:
    asked = CreatableTopic(name=free_name, num_partitions=2, replication_factor=1)
    row = created(connection, asked, validate_only=True)

    assert (row.error_code, row.num_partitions) == (0, 2)
    assert free_name not in names_in(connection.ask(MetadataRequest(topics=None), 9))


def test_item_21_what_is_refused(connection: RawConnection, topic: RawTopic, free_name: str) -> None:
    def error(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> int:
        asked = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **more)
        return int(created(connection, asked).error_code)

    unknown = [CreatableTopicConfig(name="no.such.thing", value="1")]
    impossible = [CreatableTopicConfig(name="retention.ms", value="long")]
    elsewhere = [CreatableReplicaAssignment(partition_index=0, broker_ids=[4_711])]
    assert error(topic.name) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert error(free_name, partitions=0) == ErrorCode.INVALID_PARTITIONS
    assert error(free_name, factor=0) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert error(free_name, configs=unknown) == ErrorCode.INVALID_CONFIG
    assert error(free_name, configs=impossible) == ErrorCode.INVALID_CONFIG
    assert error(free_name, -1, -1, assignments=elsewhere) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert free_name not in names_in(connection.ask(MetadataRequest(topics=None), 9))


# -- 22: configurations --------------------------------------------------------------------------------------

TOPIC, BROKER = 2, 4


def described(
    connection: RawConnection, kind: int, name: str, keys: Iterable[str] | None = None, version: int = 4
) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys)
    )
    (result,) = connection.ask(
        DescribeConfigsRequest(resources=[resource], include_synonyms=True), version
    ).results
    return result


@pytest.mark.parametrize("version", range(1, 5))
def test_item_22_configurations_of_a_topic_and_where_they_come_from(
    connection: RawConnection, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(**{"cleanup.policy": "compact"})
    result = described(connection, TOPIC, topic.name, version=version)
    configs = {config.name: config for config in result.configs}

    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("compact", 1)
    assert configs["retention.ms"].config_source == 5
    assert configs["cleanup.policy"].synonyms[0].name == "cleanup.policy"
    if version >= 3:
        assert configs["retention.ms"].config_type == 5, "LONG"
        assert configs["cleanup.policy"].config_type == 7, "LIST"


def test_item_22_only_the_keys_that_are_asked_for(connection: RawConnection, topic: RawTopic) -> None:
    result = described(connection, TOPIC, topic.name, ["retention.ms", "no.such.thing"])

    assert [config.name for config in result.configs] == ["retention.ms"]


def test_item_22_a_broker_is_named_by_its_number_and_its_configuration_cannot_be_changed(
    connection: RawConnection,
) -> None:
    node_id = connection.ask(MetadataRequest(topics=[]), 9).controller_id
    result = described(connection, BROKER, str(node_id), ["default.replication.factor", "num.partitions"])

    assert {config.name: config.value for config in result.configs} == {
        "default.replication.factor": "1",
        "num.partitions": "3",
    }
    assert all(config.read_only for config in result.configs)
    assert described(connection, BROKER, "4711").error_code == ErrorCode.INVALID_REQUEST


def test_item_22_an_unknown_topic_is_error_3(connection: RawConnection) -> None:
    assert described(connection, TOPIC, NOWHERE.name).error_code == UNKNOWN
    assert (
        produced_rows(connection.ask(produce_request(NOWHERE, {0: batch_of()}), 9))[0].error_code == UNKNOWN
    )
