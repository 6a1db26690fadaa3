"""Items 35 to 37 of docs/scenarios.md: offsets by time, and records deleted."""

from collections.abc import Callable
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
    NOWHERE,
    TIMESTAMP_MS,
    RawTopic,
    batch_of,
    batches_in,
    fetch,
    list_offset,
    list_offsets_request,
    metadata_request,
    produce_well,
)
from support.kafka.raw_kafka import Address, OracleCheckedConnection, RawConnection

BROKER_SETTINGS: dict[str, str] = {}

NewTopic = Callable[..., RawTopic]
EVERY_LIST_OFFSETS = range(1, 12)
T = TIMESTAMP_MS
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
NONE = (0, -1, -1)


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


# -- 35: what a timestamp means ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY_LIST_OFFSETS)
@pytest.mark.parametrize("isolation", [0, 1])
def test_item_35_special_timestamps_on_every_version_that_knows_them(
    connection: RawConnection, times: RawTopic, version: int, isolation: int
) -> None:
    assert delete_records(connection, times, 1) == (0, 1)
    answers = {
        special: list_offset(connection, times, special, version=version, isolation_level=isolation)
        for special, since in SINCE.items()
        if version >= since
    }
    expected = {
        LATEST: (0, 10, -1),
        EARLIEST: (0, 1, -1),
        MAX_TIMESTAMP: (0, 5, T + 90),
        EARLIEST_LOCAL: (0, 1, -1),
        LATEST_TIERED: NONE,
        EARLIEST_PENDING: NONE,
    }

    assert {special: found(row) for special, row in answers.items()} == {
        special: expected[special] for special in answers
    }


@pytest.mark.parametrize("version", [1, 4, 11])
@pytest.mark.parametrize(
    ("time", "offset"),
    [
        (0, 0),
        (T, 0),
        (T + 10, 0),
        (T + 11, 1),
        (T + 30, 1),
        (T + 31, 3),
        (T + 40, 3),
        (T + 41, 5),
        (T + 90, 5),
    ],
)
def test_item_35_the_first_record_of_a_time_or_later_exactly(
    connection: RawConnection, times: RawTopic, version: int, time: int, offset: int
) -> None:
    by_offset = {0: T + 10, 1: T + 30, 3: T + 40, 5: T + 90}
    row = list_offset(connection, times, time, version=version)

    assert found(row) == (0, offset, by_offset[offset])
    if version >= 4:
        (topic,) = connection.ask(metadata_request(times.name), 9).topics
        assert row.leader_epoch == topic.partitions[0].leader_epoch


@pytest.mark.parametrize("version", EVERY_LIST_OFFSETS)
@pytest.mark.parametrize("time", [T + 91, 2**63 - 1])
def test_item_35_no_record_of_that_time_is_no_error(
    connection: RawConnection, times: RawTopic, version: int, time: int
) -> None:
    assert found(list_offset(connection, times, time, version=version)) == NONE


@pytest.mark.parametrize("version", EVERY_LIST_OFFSETS)
def test_item_35_of_an_empty_partition(connection: RawConnection, topic: RawTopic, version: int) -> None:
    expected = {LATEST: (0, 0, -1), EARLIEST: (0, 0, -1), MAX_TIMESTAMP: NONE, T: NONE}
    asked = [special for special in expected if version >= SINCE.get(special, 0)]

    assert {
        special: found(list_offset(connection, topic, special, version=version)) for special in asked
    } == {special: expected[special] for special in asked}


def test_item_35_records_that_were_deleted_are_not_found(connection: RawConnection, times: RawTopic) -> None:
    delete_records(connection, times, 6)

    assert found(list_offset(connection, times, T)) == (0, 6, T + 50)
    assert found(list_offset(connection, times, T + 55)) == (0, 7, T + 60)
    assert found(list_offset(connection, times, MAX_TIMESTAMP)) == (0, 8, T + 90)
    delete_records(connection, times, 10)
    assert found(list_offset(connection, times, T)) == NONE
    assert found(list_offset(connection, times, MAX_TIMESTAMP)) == NONE


def test_item_35_with_log_append_time_the_time_of_the_broker_counts(
    connection: RawConnection, new_topic: NewTopic
) -> None:
    topic = new_topic(**{"message.timestamp.type": "LogAppendTime"})
    produce_well(connection, topic, timed(T, T + 1), timed(T))
    row = list_offset(connection, topic, T + 1_000)

    assert (row.error_code, row.offset) == (0, 0)
    assert row.timestamp > T + 1_000


def test_item_35_other_libraries_read_the_answer(address: Address, times: RawTopic) -> None:
    with OracleCheckedConnection(address, kio_reads) as connection:
        for version in EVERY_LIST_OFFSETS:
            assert found(list_offset(connection, times, T + 41, version=version)) == (0, 5, T + 90)


# -- 36: what is not a timestamp yet -------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY_LIST_OFFSETS)
def test_item_36_newer_special_timestamps_are_error_35_in_their_row(
    connection: RawConnection, times: RawTopic, version: int
) -> None:
    unknown = [special for special, since in SINCE.items() if version < since] + [-7, -(2**63)]
    for special in unknown:
        request = list_offsets_request(times, [(0, special)])
        (answered,) = connection.ask(request, version).topics
        assert [found(row) for row in answered.partitions] == [(ErrorCode.UNSUPPORTED_VERSION, -1, -1)]
    connection.assert_alive()


def test_item_36_a_partition_named_twice_is_error_42(connection: RawConnection, times: RawTopic) -> None:
    (answered,) = connection.ask(list_offsets_request(times, [(0, -1), (0, -2)]), 7).topics
    assert [row.error_code for row in answered.partitions] == [ErrorCode.INVALID_REQUEST] * 2


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


def test_item_37_minus_1_is_the_high_watermark(connection: RawConnection, topic: RawTopic) -> None:
    produce_well(connection, topic, batch_of(4))

    assert delete_records(connection, topic, -1) == (0, 4)
    row = fetch(connection, topic, 4)
    assert (row.error_code, row.log_start_offset, row.high_watermark) == (0, 4, 4)
    assert produce_well(connection, topic, batch_of()) == [4]


def test_item_37_beyond_the_high_watermark_is_error_1(connection: RawConnection, topic: RawTopic) -> None:
    produce_well(connection, topic, batch_of(4))

    for offset in (5, 2**62, -2):
        assert delete_records(connection, topic, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_records(connection, NOWHERE, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_item_37_not_of_a_topic_that_only_compaction_shortens(
    connection: RawConnection, new_topic: NewTopic
) -> None:
    topic = new_topic(**{"cleanup.policy": "compact"})
    produce_well(connection, topic, batch_of(4))

    assert delete_records(connection, topic, 1) == (ErrorCode.POLICY_VIOLATION, -1)
    assert fetch(connection, topic, 0).log_start_offset == 0
