"""Items 29 and 30 of docs/scenarios.md after a restart, of records that lie in objects only."""

from collections.abc import Iterator

import pytest

import siltstone
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from support.kafka.raw_calls import (
    RawTopic,
    batch_of,
    batches_in,
    create_topic,
    fetch,
    list_offset,
    produce_well,
    read_all,
)
from support.kafka.raw_kafka import Address, RawConnection, address_of

BATCH_BYTES = len(batch_of(2))
COLD = "cold"


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Three batches of two records in each of two partitions."""
    folder = tmp_path_factory.mktemp("cold")
    with (
        siltstone.Broker(folder) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        topic = create_topic(connection, COLD, 2)
        for partition in range(2):
            produce_well(connection, topic, *[batch_of(2)] * 3, partition=partition)
    with siltstone.Broker(folder) as broker:
        yield address_of(broker.bootstrap_servers)


@pytest.fixture
def cold(stopped_once: Address) -> Iterator[RawConnection]:
    with RawConnection(stopped_once) as connection:
        yield connection


@pytest.fixture
def topic(cold: RawConnection) -> RawTopic:
    (found,) = [each for each in cold.ask(MetadataRequest(topics=None), 12).topics if each.name == COLD]
    return RawTopic(COLD, bytes(found.topic_id))


def test_item_30_reading_goes_on_where_it_began(cold: RawConnection, topic: RawTopic) -> None:
    for offset in range(6):
        row = fetch(cold, topic, offset, version=12)
        base = offset // 2 * 2
        assert batches_in(row)[0] == (base, base + 1)
    assert len(read_all(cold, topic)) == 6


def test_item_29_records_in_objects_and_in_memory_are_one_log(cold: RawConnection, topic: RawTopic) -> None:
    assert produce_well(cold, topic, batch_of(2), partition=1) == [6]

    row = fetch(cold, topic, 0, partition=1, version=12)
    assert batches_in(row) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    row = fetch(cold, topic, 0, partition=1, version=12, bytes_max=3 * BATCH_BYTES)
    assert batches_in(row) == [(0, 1), (2, 3), (4, 5)]
    assert list_offset(cold, topic, -1, partition=1).offset == 8
