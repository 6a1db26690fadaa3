"""Items 23, 25 and 26 of docs/scenarios.md: produce. What survives the broker: ``test_after_a_crash``."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from siltstone.kafka_protocol.batch_header import CONTROL_BIT, LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, Codec
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from support.kafka.kafka_batches import bytes_of_records, iterate_headers, with_header
from support.kafka.message_oracles import kafka_python_reads, kio_reads
from support.kafka.raw_calls import (
    NOWHERE,
    TIMESTAMP_MS,
    RawTopic,
    batch_of,
    batches_in,
    fetch,
    new_producer,
    produce,
    produce_request,
    produce_well,
    produced_rows,
    read_all,
    sequenced,
)
from support.kafka.raw_kafka import Address, OracleCheckedConnection, RawConnection, framed

BROKER_SETTINGS: dict[str, str] = {}

NewTopic = Callable[..., RawTopic]
EVERY_PRODUCE = range(3, 14)
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


# -- 23: sequences -------------------------------------------------------------------------------------------


def test_item_23_each_of_the_last_five_batches_is_answered_like_the_first_time(
    connection: RawConnection, topic: RawTopic
) -> None:
    producer = new_producer(connection)
    batches = [sequenced(producer, 2 * number, 2) for number in range(7)]
    assert produce_well(connection, topic, *batches) == [0, 2, 4, 6, 8, 10, 12]

    assert produce_well(connection, topic, *batches[2:]) == [4, 6, 8, 10, 12]
    assert produce(connection, topic, batches[1]).error_code == OUT_OF_ORDER
    assert len(read_all(connection, topic)) == 14, "nothing was appended twice"


def test_item_23_a_gap_is_error_45_and_writes_nothing(connection: RawConnection, topic: RawTopic) -> None:
    producer = new_producer(connection)
    produce_well(connection, topic, sequenced(producer, 0, 3))

    for wrong in (4, 2, 2**31 - 1):
        row = produce(connection, topic, sequenced(producer, wrong))
        assert (row.error_code, row.base_offset) == (OUT_OF_ORDER, -1)
    assert produce_well(connection, topic, sequenced(producer, 3)) == [3]


def test_item_23_sequences_begin_again_after_the_largest(connection: RawConnection, topic: RawTopic) -> None:
    producer = new_producer(connection)
    last = 2**31 - 1
    produce_well(connection, topic, sequenced(producer, last - 2, 2))
    assert produce_well(connection, topic, sequenced(producer, last, 3)) == [2]  # 2^31 - 1, 0, 1
    assert produce_well(connection, topic, sequenced(producer, 2), sequenced(producer, last, 3)) == [5, 2]


def test_item_23_an_old_epoch_is_error_47_and_a_new_one_begins_with_0(
    connection: RawConnection, topic: RawTopic
) -> None:
    producer_id, _ = new_producer(connection)
    produce_well(connection, topic, sequenced((producer_id, 0), 0, 2), sequenced((producer_id, 1), 0, 2))

    assert (
        produce(connection, topic, sequenced((producer_id, 0), 2)).error_code
        == ErrorCode.INVALID_PRODUCER_EPOCH
    )
    assert produce(connection, topic, sequenced((producer_id, 2), 2)).error_code == OUT_OF_ORDER
    assert produce_well(connection, topic, sequenced((producer_id, 1), 2)) == [4]


def test_item_23_each_partition_counts_for_itself(connection: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    producer = new_producer(connection)
    produce_well(connection, topic, sequenced(producer, 0), sequenced(producer, 1))

    assert produce_well(connection, topic, sequenced(producer, 0), partition=1) == [0]
    assert produce(connection, topic, sequenced(producer, 2), partition=1).error_code == OUT_OF_ORDER


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


@pytest.mark.parametrize("version", range(6))
def test_item_23_every_producer_gets_an_id_of_its_own(connection: RawConnection, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    answers = [connection.ask(request, version) for _ in range(3)]

    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert len({answer.producer_id for answer in answers}) == 3


def test_item_23_transactions_are_refused_with_a_code_on_which_clients_give_up(
    connection: RawConnection, topic: RawTopic
) -> None:
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000)
    refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert connection.ask(request, 4).error_code == refusal
    produced = connection.ask(produce_request(topic, {0: batch_of()}, transactional_id="t"), 9)
    assert produced_rows(produced)[0].error_code == refusal


# -- 25: partitions of one request ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY_PRODUCE)
def test_item_25_partitions_succeed_and_fail_each_for_itself(
    connection: RawConnection, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(4, **{"max.message.bytes": "1000"})
    damaged = batch_of()
    damaged[-1] ^= 1
    batches = {3: batch_of(2), 0: damaged, 9: batch_of(), 2: batch_of(value_bytes=2_000), 1: batch_of()}
    rows = produced_rows(connection.ask(produce_request(topic, batches), version))

    assert [(row.index, row.error_code, row.base_offset) for row in rows] == [
        (3, 0, 0),
        (0, ErrorCode.CORRUPT_MESSAGE, -1),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (2, ErrorCode.MESSAGE_TOO_LARGE, -1),
        (1, 0, 0),
    ]
    ends = [fetch(connection, topic, 0, partition=index).high_watermark for index in range(4)]
    assert ends == [0, 1, 0, 2]


def test_item_25_the_same_partition_twice_in_one_request_is_appended_in_order(
    connection: RawConnection, topic: RawTopic
) -> None:
    request = produce_request(topic, {0: batch_of(2)})
    twice = type(request)(
        acks=-1,
        timeout_ms=5_000,
        topics=[*request.topics, *produce_request(topic, {0: batch_of(3)}).topics],
    )
    rows = produced_rows(connection.ask(twice, 9))

    assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0), (0, 2)]


@pytest.mark.parametrize("acks", [-2, 2, 3, 32_767])
def test_item_25_only_acks_of_all_one_and_none_exist(
    connection: RawConnection, topic: RawTopic, acks: int
) -> None:
    rows = produced_rows(connection.ask(produce_request(topic, {0: batch_of()}, acks=acks), 9))
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUIRED_ACKS]
    assert fetch(connection, topic, 0).high_watermark == 0


@pytest.mark.parametrize("timeout_ms", [0, -1, 2**31 - 1])
def test_item_25_no_time_limit_is_an_error_while_batches_become_durable_at_once(
    connection: RawConnection, topic: RawTopic, timeout_ms: int
) -> None:
    request = produce_request(topic, {0: batch_of()}, timeout_ms=timeout_ms)
    assert [row.error_code for row in produced_rows(connection.ask(request, 9))] == [0]


# -- 26: what the answer says --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY_PRODUCE)
def test_item_26_fields_of_an_answer(connection: RawConnection, topic: RawTopic, version: int) -> None:
    for base_offset in (0, 1):
        row = produce(connection, topic, batch_of(), version=version)
        assert (row.error_code, row.base_offset, row.log_append_time_ms) == (0, base_offset, -1)
        assert row.log_start_offset == (0 if version >= 5 else -1)
        assert (row.record_errors, row.error_message) == ([], None)


def test_item_26_the_start_of_the_log_is_told(connection: RawConnection, topic: RawTopic) -> None:
    produce_well(connection, topic, batch_of(10))
    asked = DeleteRecordsPartition(partition_index=0, offset=4)
    connection.ask(
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic.name, partitions=[asked])], timeout_ms=1_000
        ),
        1,
    )

    assert produce(connection, topic, batch_of()).log_start_offset == 4


def test_item_26_with_log_append_time_the_time_is_told_and_written(
    connection: RawConnection, new_topic: NewTopic
) -> None:
    topic = new_topic(**{"message.timestamp.type": "LogAppendTime"})
    row = produce(connection, topic, batch_of(3))
    stored = fetch(connection, topic, 0)
    ((_, header),) = iterate_headers(bytes_of_records(stored))

    assert row.log_append_time_ms > TIMESTAMP_MS
    assert (header.is_log_append_time, header.max_timestamp_ms) == (True, row.log_append_time_ms)
    assert {record.timestamp_ms for record in read_all(connection, topic)} == {row.log_append_time_ms}


def test_item_26_what_is_stored_differs_in_base_offset_and_leader_epoch_only(
    connection: RawConnection, topic: RawTopic
) -> None:
    produce_well(connection, topic, batch_of(7))
    sent = batch_of(3, compression=Codec.ZSTD)
    produce_well(connection, topic, sent)
    stored = bytes_of_records(fetch(connection, topic, 7))

    assert stored[:8] == (7).to_bytes(8, "big")
    assert stored[8:12] + stored[16:] == bytes(sent[8:12] + sent[16:])


@pytest.mark.parametrize("codec", list(Codec))
def test_item_26_too_large_is_error_10_whatever_the_codec(
    connection: RawConnection, new_topic: NewTopic, codec: Codec
) -> None:
    topic = new_topic(**{"max.message.bytes": "500"})
    incompressible = Random(7).randbytes(4_000)
    batch = build_batch([Record(key=b"k", value=incompressible)], compression=codec)
    row = produce(connection, topic, batch)

    assert (row.error_code, row.base_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


def test_item_26_a_batch_that_grows_in_the_codec_of_the_topic_is_too_large(
    connection: RawConnection, new_topic: NewTopic
) -> None:
    """Sent in 200 bytes, it would be stored in 100,000."""
    topic = new_topic(**{"max.message.bytes": "5000", "compression.type": "uncompressed"})
    batch = batch_of(value_bytes=100_000, compression=Codec.ZSTD)
    assert len(batch) < 500

    assert produce(connection, topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert fetch(connection, topic, 0).high_watermark == 0


WRONG: dict[str, tuple[Any, ErrorCode]] = {
    "no batch": (lambda batch: None, ErrorCode.INVALID_RECORD),
    "empty": (lambda batch: b"", ErrorCode.INVALID_RECORD),
    "two batches": (lambda batch: batch + batch, ErrorCode.INVALID_RECORD),
    "magic 1": (lambda batch: with_header(batch, magic=1), ErrorCode.INVALID_RECORD),
    "truncated": (lambda batch: batch[:-1], ErrorCode.CORRUPT_MESSAGE),
    "header alone": (lambda batch: batch[:61], ErrorCode.CORRUPT_MESSAGE),
    "less than a header": (lambda batch: batch[:20], ErrorCode.CORRUPT_MESSAGE),
    "one byte more": (lambda batch: batch + b"\0", ErrorCode.CORRUPT_MESSAGE),
    "flipped": (lambda batch: batch[:-1] + bytes([batch[-1] ^ 1]), ErrorCode.CORRUPT_MESSAGE),
    "another CRC": (lambda batch: with_header(batch, crc=7), ErrorCode.CORRUPT_MESSAGE),
    "an offset": (lambda batch: with_header(batch, base_offset=1), ErrorCode.INVALID_RECORD),
    "no records": (
        lambda batch: with_header(batch, record_count=0, last_offset_delta=-1),
        ErrorCode.INVALID_RECORD,
    ),
    "a gap in it": (lambda batch: with_header(batch, last_offset_delta=7), ErrorCode.INVALID_RECORD),
    "more than fit": (
        lambda batch: with_header(batch, record_count=2**31 - 1, last_offset_delta=2**31 - 2),
        ErrorCode.INVALID_RECORD,
    ),
    "control": (lambda batch: with_header(batch, attributes=CONTROL_BIT), ErrorCode.INVALID_RECORD),
    "transactional": (
        lambda batch: with_header(
            batch, attributes=TRANSACTIONAL_BIT, producer_id=1, producer_epoch=0, base_sequence=0
        ),
        ErrorCode.INVALID_TXN_STATE,
    ),
    "append time": (
        lambda batch: with_header(batch, attributes=LOG_APPEND_TIME_BIT),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "codec 5": (lambda batch: with_header(batch, attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "no sequence": (
        lambda batch: with_header(batch, producer_id=1, producer_epoch=0),
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_item_26_what_is_wrong_with_a_batch_is_told_in_its_row(
    address: Address, connection: RawConnection, topic: RawTopic, wrong: str
) -> None:
    spoil, error = WRONG[wrong]
    with OracleCheckedConnection(address, kio_reads) as checked:
        row = produce(checked, topic, spoil(batch_of(2)))

    assert (row.error_code, row.base_offset, row.log_start_offset) == (error, -1, -1)
    assert row.error_message
    assert fetch(connection, topic, 0).high_watermark == 0


def test_item_26_zstd_from_a_client_before_version_7_is_refused(
    connection: RawConnection, topic: RawTopic
) -> None:
    batch = batch_of(compression=Codec.ZSTD)
    assert produce(connection, topic, batch, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(connection, topic, batch, version=7).error_code == 0


@pytest.mark.parametrize("version", [8, 9, 13])
def test_item_26_the_record_that_is_to_blame_is_told(
    address: Address, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(**{"cleanup.policy": "compact"})
    batch = build_batch([Record(key=b"k", value=b"v"), Record(key=None, value=b"v")])
    with OracleCheckedConnection(address, kafka_python_reads) as checked:
        row = produce(checked, topic, batch, version=version)

    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == [1]


def test_item_26_nobody_writes_the_brokers_own_topics(connection: RawConnection) -> None:
    row = produce(connection, RawTopic("__consumer_offsets"), batch_of())
    assert row.error_code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert produce(connection, NOWHERE, batch_of()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_item_26_a_client_before_version_8_is_not_confused_by_record_errors(
    connection: RawConnection, new_topic: NewTopic
) -> None:
    topic = new_topic(**{"cleanup.policy": "compact"})
    row = produce(connection, topic, build_batch([Record(key=None, value=b"v")]), version=7)

    assert row.error_code == ErrorCode.INVALID_RECORD
    assert batches_in(fetch(connection, topic, 0)) == []
