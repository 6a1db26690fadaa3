"""Items 28 to 30 again, of records that lie in objects only: their broker was stopped and started again."""

from collections.abc import Iterator

import pytest

import siltstone
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from support.kafka.raw_calls import (
    RawTopic,
    batch_of,
    batches_in,
    create_topic,
    fetch,
    fetch_request,
    fetched_rows,
    list_offset,
    produce_well,
    read_all,
)
from support.kafka.raw_kafka import Address, RawConnection, address_of

BATCH_BYTES = len(batch_of(2))
LONG_MS = 60_000
COLD = "cold"
PARTITIONS = 12
"""More than are read side by side."""


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Three batches of two records in each partition but the last, which is empty."""
    folder = tmp_path_factory.mktemp("cold")
    with (
        siltstone.Broker(folder) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        topic = create_topic(connection, COLD, PARTITIONS)
        for partition in range(PARTITIONS - 1):
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


def sizes(cold: RawConnection, topic: RawTopic, partitions: list[int], bytes_max: int) -> list[int]:
    request = fetch_request(topic, dict.fromkeys(partitions, 0), bytes_max=bytes_max, wait_ms=LONG_MS)
    rows = fetched_rows(cold.ask(request, 12))
    assert [row.index for row in rows] == partitions
    assert {row.error_code for row in rows} == {0}
    return [len(batches_in(row)) for row in rows]


def test_item_30_reading_goes_on_where_it_began(cold: RawConnection, topic: RawTopic) -> None:
    for offset in range(6):
        row = fetch(cold, topic, offset, version=12)
        base = offset // 2 * 2
        assert batches_in(row)[0] == (base, base + 1)
    assert len(read_all(cold, topic, 3)) == 6


@pytest.mark.parametrize("limit", [1, 0, -1, -(2**31)])
def test_item_29_only_the_first_batch_when_nothing_fits(
    cold: RawConnection, topic: RawTopic, limit: int
) -> None:
    everything = list(reversed(range(PARTITIONS)))

    assert sizes(cold, topic, everything, limit) == [0, 1] + [0] * (PARTITIONS - 2)
    row = fetch(cold, topic, 0, version=12, partition_bytes_max=limit)
    assert batches_in(row) == [(0, 1)]


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 7, 25, 33, 100])
def test_item_29_whole_batches_in_the_order_of_the_request(
    cold: RawConnection, topic: RawTopic, batches: int
) -> None:
    everything = list(range(PARTITIONS))
    expected = [max(0, min(3, batches - 3 * index)) for index in range(PARTITIONS - 1)]

    assert sizes(cold, topic, everything, batches * BATCH_BYTES + BATCH_BYTES // 2) == [*expected, 0]


def test_item_28_an_error_among_partitions_that_are_read_from_objects(
    cold: RawConnection, topic: RawTopic
) -> None:
    offsets = {**dict.fromkeys(range(PARTITIONS), 0), 5: 99}
    rows = fetched_rows(cold.ask(fetch_request(topic, offsets, wait_ms=LONG_MS, bytes_min=1 << 20), 12))

    errors = {row.index: row.error_code for row in rows if row.error_code}
    assert errors == {5: ErrorCode.OFFSET_OUT_OF_RANGE}


def test_item_29_records_in_objects_and_in_memory_are_one_log(cold: RawConnection, topic: RawTopic) -> None:
    partition = 9
    assert produce_well(cold, topic, batch_of(2), partition=partition) == [6]

    row = fetch(cold, topic, 0, partition=partition, version=12)
    assert batches_in(row) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    row = fetch(cold, topic, 0, partition=partition, version=12, bytes_max=3 * BATCH_BYTES)
    assert batches_in(row) == [(0, 1), (2, 3), (4, 5)]
    assert list_offset(cold, topic, -1, partition=partition).offset == 8
