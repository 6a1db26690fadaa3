"""Metadata and topics over a socket, items 14, 15, 18, 21 and 22 of docs/scenarios.md. The meaning of requests and
answers: ``tests/unit/broker/apis``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
)
from siltstone.kafka_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from siltstone.kafka_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from siltstone.kafka_protocol.notation import NO_UUID
from support.kafka.kafka_batches import bytes_of_records, iterate_headers
from support.kafka.raw_calls import (
    RawTopic,
    batch_of,
    create_topic,
    fetch,
    metadata_request,
    produce_well,
)
from support.kafka.raw_kafka import Address, RawConnection, address_of

BROKER_SETTINGS = {"broker.num_partitions": "3"}

NewTopic = Callable[..., RawTopic]


def the_topic(response: Any) -> Any:
    (topic,) = response.topics
    return topic


def leader_epoch(connection: RawConnection, topic: RawTopic) -> int:
    answer = connection.ask(metadata_request(topic.name), 12)
    return int(the_topic(answer).partitions[0].leader_epoch)


def epoch_end(connection: RawConnection, topic: RawTopic, epoch: int) -> Any:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic.name, partitions=[asked])])
    (answered,) = connection.ask(request, 4).topics
    (row,) = answered.partitions
    return row


# -- 14: automatic creation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 3, 4, 9, 13])
def test_items_14_and_15_a_topic_is_created_when_the_client_allows_it_and_its_broker_is_told(
    connection: RawConnection, address: Address, free_name: str, version: int
) -> None:
    """Before version 4 every client does. The first answer is error 3, as Kafka's, and the next one has the topic."""
    if version >= 4:
        refused = the_topic(connection.ask(metadata_request(free_name, creates=False), version))
        assert (refused.error_code, refused.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])

    first = the_topic(connection.ask(metadata_request(free_name, creates=True), version))
    assert (first.error_code, first.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    answer = connection.ask(metadata_request(free_name, creates=True), version)
    assert [(broker.host, broker.port) for broker in answer.brokers] == [address]
    assert version < 1 or answer.controller_id == answer.brokers[0].node_id
    created = the_topic(answer)
    assert created.error_code == 0
    assert sorted(row.partition_index for row in created.partitions) == [0, 1, 2]
    assert {row.error_code for row in created.partitions} == {0}


# -- 18: leader epochs ---------------------------------------------------------------------------------------


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


# -- 21: creating topics -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 5, 7])
def test_item_21_minus_1_stands_for_the_brokers_defaults(
    connection: RawConnection, free_name: str, version: int
) -> None:
    asked = CreatableTopic(name=free_name, num_partitions=-1, replication_factor=-1)
    row = the_topic(connection.ask(CreateTopicsRequest(topics=[asked]), version))
    metadata = the_topic(connection.ask(metadata_request(free_name), 9))

    assert row.error_code == 0
    assert len(metadata.partitions) == 3
    if version >= 5:
        assert (row.num_partitions, row.replication_factor) == (3, len(metadata.partitions[0].replica_nodes))
        assert "cleanup.policy" in {config.name for config in row.configs}
    if version >= 7:
        assert row.topic_id != NO_UUID


# -- 22: configurations --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 3, 4])
def test_item_22_configurations_of_a_topic_and_where_they_come_from(
    connection: RawConnection, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(**{"cleanup.policy": "compact"})
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic.name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = connection.ask(request, version).results
    configs = {config.name: config for config in result.configs}

    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("compact", 1)
    assert configs["retention.ms"].config_source == 5
    assert configs["cleanup.policy"].synonyms[0].name == "cleanup.policy"
    if version >= 3:
        assert configs["retention.ms"].config_type == 5, "LONG"
        assert configs["cleanup.policy"].config_type == 7, "LIST"
