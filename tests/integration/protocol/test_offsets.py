"""Offsets by time and records deleted, over a socket: items 35 and 37 of docs/scenarios.md. The meaning of requests and
answers: ``tests/unit/broker/apis``."""

from typing import Any

import pytest

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from support.kafka.message_oracles import kio_reads
from support.kafka.raw_calls import (
    TIMESTAMP_MS,
    RawTopic,
    batch_of,
    batches_in,
    fetch,
    list_offset,
    produce_well,
)
from support.kafka.raw_kafka import Address, OracleCheckedConnection, RawConnection

BROKER_SETTINGS: dict[str, str] = {}

T = TIMESTAMP_MS
EARLIEST = -2


def timed(*times: int, compression: Codec = Codec.NONE) -> bytearray:
    """A batch with a record of each time."""
    return build_batch(
        [Record(timestamp_ms=time, key=b"k", value=b"v") for time in times], compression=compression
    )


@pytest.fixture
def times(connection: RawConnection, topic: RawTopic) -> RawTopic:
    """Offsets 0 to 9, in three batches; the largest time stands twice, first at offset 5."""
    produce_well(
        connection,
        topic,
        timed(T + 10, T + 30, T + 20),
        timed(T + 40, T + 40, T + 90, T + 50, compression=Codec.GZIP),
        timed(T + 60, T + 90, T + 70),
    )
    return topic


def found(row: Any) -> tuple[int, int, int]:
    return row.error_code, row.offset, row.timestamp


def delete_records(
    connection: RawConnection, topic: RawTopic, offset: int, version: int = 2
) -> tuple[int, int]:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic.name, partitions=[asked])], timeout_ms=1_000
    )
    (answered,) = connection.ask(request, version).topics
    (row,) = answered.partitions
    return row.error_code, row.low_watermark


def test_item_35_other_libraries_read_the_answer(address: Address, times: RawTopic) -> None:
    with OracleCheckedConnection(address, kio_reads) as connection:
        for version in range(1, 12):
            assert found(list_offset(connection, times, T + 41, version=version)) == (0, 5, T + 90)


# -- 37: deleting records ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_item_37_up_to_an_offset_and_never_back(
    connection: RawConnection, topic: RawTopic, version: int
) -> None:
    produce_well(connection, topic, batch_of(4), batch_of(4))

    assert delete_records(connection, topic, 0, version) == (0, 0)
    assert delete_records(connection, topic, 5, version) == (0, 5)
    assert delete_records(connection, topic, 2, version) == (0, 5)
    assert fetch(connection, topic, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert batches_in(fetch(connection, topic, 5)) == [(4, 7)]
    assert list_offset(connection, topic, EARLIEST).offset == 5
