"""Produce over a socket, items 23 and 25 of docs/scenarios.md. What survives the broker: ``test_after_a_crash``; the
meaning of requests and answers: ``tests/unit/broker/apis``."""

from collections.abc import Callable

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from support.kafka.message_oracles import kio_reads
from support.kafka.raw_calls import (
    RawTopic,
    batch_of,
    fetch,
    new_producer,
    produce_request,
    produced_rows,
    read_all,
    sequenced,
)
from support.kafka.raw_kafka import Address, OracleCheckedConnection, RawConnection, framed

BROKER_SETTINGS: dict[str, str] = {}

NewTopic = Callable[..., RawTopic]
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_item_23_pipelined_batches_and_their_repetitions_count_in_the_order_of_arrival(
    connection: RawConnection, topic: RawTopic
) -> None:
    """Of item 24: sequenced in arrival order even when commits finish out of order."""
    producer = new_producer(connection)
    sent = [0, 1, 2, 1, 0, 3, 5, 4]
    frames = [
        framed(connection.prepared(produce_request(topic, {0: sequenced(producer, number)}), 9))
        for number in sent
    ]
    connection.send_bytes(b"".join(frames))
    rows = [produced_rows(connection.receive())[0] for _ in sent]

    answered = [(row.error_code, row.base_offset) for row in rows]
    assert answered == [(0, 0), (0, 1), (0, 2), (0, 1), (0, 0), (0, 3), (OUT_OF_ORDER, -1), (0, 4)]
    assert [record.offset for record in read_all(connection, topic)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12, 13])
def test_item_25_partitions_succeed_and_fail_each_for_itself(
    address: Address, connection: RawConnection, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(4, **{"max.message.bytes": "1000"})
    damaged = batch_of()
    damaged[-1] ^= 1
    batches = {3: batch_of(2), 0: damaged, 9: batch_of(), 2: batch_of(value_bytes=2_000), 1: batch_of()}
    with OracleCheckedConnection(address, kio_reads) as checked:
        rows = produced_rows(checked.ask(produce_request(topic, batches), version))

    assert [(row.index, row.error_code, row.base_offset) for row in rows] == [
        (3, 0, 0),
        (0, ErrorCode.CORRUPT_MESSAGE, -1),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (2, ErrorCode.MESSAGE_TOO_LARGE, -1),
        (1, 0, 0),
    ]
    ends = [fetch(connection, topic, 0, partition=index).high_watermark for index in range(4)]
    assert ends == [0, 1, 0, 2]
