"""Items 56 and 57 of docs/scenarios.md; and of 28 what only the inside of a node can show."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.server.kafka_node import KafkaNode
from support.broker.served_node import ServedNode
from support.kafka.raw_calls import (
    RawTopic,
    batch_of,
    batches_in,
    create_topic,
    fetch,
    fetch_request,
    fetched_rows,
    list_offset,
    metadata_request,
    produce_request,
    produce_well,
    read_all,
)
from support.kafka.raw_kafka import RawConnection, address_of, framed

BROKER_SETTINGS: dict[str, str] = {}

LONG_MS = 60_000


# -- 56: idle connections, addresses -------------------------------------------------------------------------


def test_item_56_an_idle_connection_is_closed_and_one_that_waits_is_not(tmp_path: Path) -> None:
    settings = {"network.connections_max_idle_ms": "300"}
    with siltstone.Broker(tmp_path, settings=settings) as broker:
        address = address_of(broker.bootstrap_servers)
        with RawConnection(address) as idle, RawConnection(address) as waiting:
            idle.assert_alive()
            topic = create_topic(waiting, "t")
            waiting.send(fetch_request(topic, {0: 0}, wait_ms=LONG_MS), 11)
            idle.assert_closed()
            with RawConnection(address) as writer:
                produce_well(writer, topic, batch_of())

            assert batches_in(fetched_rows(waiting.receive())[0]) == [(0, 0)], "it was not closed meanwhile"


@pytest.fixture
def two_listeners(tmp_path: Path) -> Iterator[ServedNode]:
    listeners = ("INSIDE://127.0.0.1:0", "OUTSIDE://127.0.0.1:0")
    protocols = {"listener_security_protocol_map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"}
    with ServedNode(tmp_path, protocols, listeners=listeners) as served:
        yield served


def test_item_56_a_client_is_told_the_address_of_the_listener_it_came_to(two_listeners: ServedNode) -> None:
    inside, outside = two_listeners.addresses
    assert inside != outside
    for address in (inside, outside):
        with RawConnection(address) as connection:
            metadata = connection.ask(MetadataRequest(topics=[]), 9)
            assert [(broker.host, broker.port) for broker in metadata.brokers] == [address]
            found = connection.ask(FindCoordinatorRequest(key="g"), 1)
            assert (found.host, found.port) == address


# -- 57: gaps ------------------------------------------------------------------------------------------------


def test_item_57_offsets_are_never_given_again(tmp_path: Path) -> None:
    """Whatever is deleted before them, and through a restart with an empty log."""
    for life in range(3):
        with (
            siltstone.Broker(tmp_path) as broker,
            RawConnection(address_of(broker.bootstrap_servers)) as connection,
        ):
            topic = RawTopic("t") if life else create_topic(connection, "t")
            assert produce_well(connection, topic, batch_of(3), batch_of(2)) == [5 * life, 5 * life + 3]
            assert [record.offset for record in read_all(connection, topic, offset=5 * life)] == [
                *range(5 * life, 5 * life + 5)
            ]
            _delete_all_records(connection, topic)
            assert list_offset(connection, topic, -2).offset == 5 * (life + 1)


def _delete_all_records(connection: RawConnection, topic: RawTopic) -> None:
    asked = DeleteRecordsPartition(partition_index=0, offset=-1)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic.name, partitions=[asked])], timeout_ms=1_000
    )
    assert connection.ask(request, 1).topics[0].partitions[0].error_code == 0


# -- inside a node -------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedNode]:
    with ServedNode(tmp_path) as running:
        yield running


def _until(served: ServedNode, true: Callable[[KafkaNode], bool]) -> None:
    """Asked again and again, as what is waited for has no bell."""

    async def asked(node: KafkaNode) -> bool:
        return true(node)

    deadline = time.monotonic() + 60
    while not served.on_loop(asked):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_item_28_a_long_poll_ends_with_its_connection(served: ServedNode) -> None:
    (address,) = served.addresses

    def watchers(node: KafkaNode) -> int:
        return sum(opened.streams.data.watchers for opened in node.broker.parts.partitions._open.values())

    with RawConnection(address) as admin:
        topic = create_topic(admin, "t")
        reader = RawConnection(address)
        reader.send(fetch_request(topic, {0: 0}, wait_ms=LONG_MS), 11)
        _until(served, lambda node: watchers(node) == 1)
        reader.close()
        _until(served, lambda node: watchers(node) == 0)

        produce_well(admin, topic, batch_of())
        assert batches_in(fetch(admin, topic, 0)) == [(0, 0)]


def test_item_28_what_waits_behind_a_long_poll_goes_with_it(served: ServedNode) -> None:
    (address,) = served.addresses
    with RawConnection(address) as admin:
        topic = create_topic(admin, "t")
        reader = RawConnection(address)
        frames = [
            reader.prepared(fetch_request(topic, {0: 0}, wait_ms=LONG_MS), 11),
            *[reader.prepared(produce_request(topic, {0: batch_of()}), 9)] * 3,
        ]
        reader.send_bytes(b"".join(map(framed, frames)))
        _until(served, lambda node: node.listeners.statistics().requests_in_flight >= 4)
        reader.close()
        _until(served, lambda node: node.listeners.statistics().requests_in_flight == 0)

        assert fetch(admin, topic, 0).high_watermark == 0, "what was not begun is not done"


def test_item_56_the_metadata_of_a_topic_is_the_same_at_every_listener(two_listeners: ServedNode) -> None:
    inside, outside = two_listeners.addresses
    with RawConnection(inside) as one, RawConnection(outside) as other:
        topic = create_topic(one, "t", 3)
        seen = [each.ask(metadata_request(topic.name), 12).topics for each in (one, other)]
        assert seen[0] == seen[1]
        produce_well(one, topic, batch_of(), partition=2)
        assert fetch(other, topic, 0, partition=2).high_watermark == 1
