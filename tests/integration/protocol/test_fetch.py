"""Items 27 to 32 and 34 of docs/scenarios.md: fetch. Item 33 is in ``test_after_a_crash``."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest
from siltstone.kafka_protocol.messages.fetch import FetchRequest
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from support.kafka.kafka_batches import bytes_of_records
from support.kafka.message_oracles import kafka_python_reads, kio_reads
from support.kafka.raw_calls import (
    NOWHERE,
    RawTopic,
    batch_of,
    batches_in,
    fetch,
    fetch_request,
    fetched_rows,
    produce_well,
    records_in,
)
from support.kafka.raw_kafka import Address, OracleCheckedConnection, RawConnection

BROKER_SETTINGS: dict[str, str] = {}

NewTopic = Callable[..., RawTopic]
Connect = Callable[[], RawConnection]
EVERY_FETCH = range(4, 19)
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
BATCH_BYTES = len(batch_of())
LONG_MS = 60_000


def trim(connection: RawConnection, topic: RawTopic, offset: int, partition: int = 0) -> None:
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic.name, partitions=[asked])], timeout_ms=1_000
    )
    (answered,) = connection.ask(request, 1).topics
    assert [(row.error_code, row.low_watermark) for row in answered.partitions] == [(0, offset)]


def filled(connection: RawConnection, topic: RawTopic, *batches_each: int) -> None:
    """So many batches of one record into each partition."""
    for index, count in enumerate(batches_each):
        produce_well(connection, topic, *[batch_of()] * count, partition=index)


def sizes(connection: RawConnection, topic: RawTopic, offsets: dict[int, int], **more: Any) -> dict[int, int]:
    """Batches found in each partition, in the order of the answer."""
    rows = fetched_rows(connection.ask(fetch_request(topic, offsets, **more), 11))
    assert {row.error_code for row in rows} == {0}
    return {row.index: len(batches_in(row)) for row in rows}


# -- 27: the ends of the log ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY_FETCH)
def test_item_27_before_and_behind_the_log_is_error_1_with_its_real_ends(
    connection: RawConnection, topic: RawTopic, version: int
) -> None:
    filled(connection, topic, 5)
    trim(connection, topic, 2)

    for offset in (0, 1, 6, 2**62):
        row = fetch(connection, topic, offset, version=version, wait_ms=LONG_MS)
        assert (row.error_code, row.high_watermark, len(row.records)) == (OUT_OF_RANGE, 5, 0)
        assert row.log_start_offset == (2 if version >= 5 else -1)
    found = fetch(connection, topic, 2, version=version)
    assert (found.error_code, batches_in(found)) == (0, [(2, 2), (3, 3), (4, 4)])


@pytest.mark.parametrize("version", EVERY_FETCH)
def test_item_27_the_end_of_the_log_is_no_error(
    connection: RawConnection, topic: RawTopic, version: int
) -> None:
    filled(connection, topic, 3)
    row = fetch(connection, topic, 3, version=version)

    assert (row.error_code, row.high_watermark, len(row.records)) == (0, 3, 0)


# -- 28: the long poll ---------------------------------------------------------------------------------------


def test_item_28_it_ends_when_its_time_has_passed(connection: RawConnection, topic: RawTopic) -> None:
    began = time.monotonic()
    row = fetch(connection, topic, 0, wait_ms=150)

    assert (row.error_code, row.high_watermark) == (0, 0)
    assert 0.15 <= time.monotonic() - began < 1


@pytest.mark.parametrize("partition", [0, 1, 2])
def test_item_28_data_in_any_of_its_partitions_ends_it(
    connect: Connect, new_topic: NewTopic, partition: int
) -> None:
    topic, (reader, writer) = new_topic(3), (connect(), connect())
    reader.send(fetch_request(topic, {0: 0, 1: 0, 2: 0}, wait_ms=LONG_MS), 11)
    assert not reader.has_answer_within(0.05)
    produce_well(writer, topic, batch_of(), partition=partition)

    rows = fetched_rows(reader.receive())
    assert [bool(row.records) for row in rows] == [index == partition for index in range(3)]


def test_item_28_it_waits_for_the_least_bytes_of_all_partitions_together(
    connect: Connect, new_topic: NewTopic
) -> None:
    topic, (reader, writer) = new_topic(3), (connect(), connect())
    reader.send(fetch_request(topic, {0: 0, 1: 0, 2: 0}, wait_ms=LONG_MS, bytes_min=3 * BATCH_BYTES), 11)
    produce_well(writer, topic, batch_of(), partition=0)
    produce_well(writer, topic, batch_of(), partition=1)
    assert not reader.has_answer_within(0.05)
    produce_well(writer, topic, batch_of(), partition=2)

    assert [len(batches_in(row)) for row in fetched_rows(reader.receive())] == [1, 1, 1]


def test_item_28_what_is_there_ends_it_at_once(connection: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    filled(connection, topic, 0, 1)

    assert sizes(connection, topic, {0: 0, 1: 0}, wait_ms=LONG_MS) == {0: 0, 1: 1}


@pytest.mark.parametrize("version", [7, 11, 13, 18])
def test_item_28_an_error_in_any_partition_ends_it_at_once(
    connection: RawConnection, topic: RawTopic, version: int
) -> None:
    for other in (
        fetch_request(NOWHERE, {0: 0}),
        fetch_request(topic, {7: 0}),
        fetch_request(topic, {0: 99}),
        fetch_request(topic, {0: 0}, current_leader_epoch=99),
    ):
        good = fetch_request(topic, {0: 0}, wait_ms=LONG_MS)
        request = FetchRequest(
            max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1_000, topics=[*good.topics, *other.topics]
        )
        if version < 9 and other.topics[0].partitions[0].current_leader_epoch >= 0:
            continue
        rows = fetched_rows(connection.ask(request, version))
        assert any(row.error_code for row in rows)


def test_item_28_nothing_asked_for_is_answered_at_once(connection: RawConnection, topic: RawTopic) -> None:
    assert connection.ask(fetch_request(topic, {}, wait_ms=LONG_MS), 11).topics == []


@pytest.mark.parametrize("bytes_min", [0, -1])
def test_item_28_no_least_bytes_is_no_wait(
    connection: RawConnection, topic: RawTopic, bytes_min: int
) -> None:
    assert fetch(connection, topic, 0, wait_ms=LONG_MS, bytes_min=bytes_min).error_code == 0


def test_item_28_a_topic_that_is_deleted_ends_it(connect: Connect, topic: RawTopic) -> None:
    reader, admin = connect(), connect()
    reader.send(fetch_request(topic, {0: 0}, wait_ms=LONG_MS), 11)
    assert not reader.has_answer_within(0.05)
    admin.ask(DeleteTopicsRequest(topic_names=[topic.name]), 5)

    (row,) = fetched_rows(reader.receive())
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_item_28_a_trim_that_passes_the_reader_ends_it(connect: Connect, topic: RawTopic) -> None:
    reader, admin = connect(), connect()
    filled(admin, topic, 3)
    reader.send(fetch_request(topic, {0: 1}, wait_ms=LONG_MS, bytes_min=1_000_000), 11)
    assert not reader.has_answer_within(0.05)
    trim(admin, topic, 2)

    (row,) = fetched_rows(reader.receive())
    assert (row.error_code, row.log_start_offset) == (OUT_OF_RANGE, 2)


# -- 29: limits ----------------------------------------------------------------------------------------------

TINY = [1, 0, -1, -(2**31)]


@pytest.mark.parametrize("version", [4, 11, 12, 18])
@pytest.mark.parametrize("limit", TINY)
@pytest.mark.parametrize("which", ["bytes_max", "partition_bytes_max"])
def test_item_29_the_first_batch_is_given_whole_however_small_the_limit(
    connection: RawConnection, topic: RawTopic, version: int, limit: int, which: str
) -> None:
    produce_well(connection, topic, batch_of(3), batch_of(2))

    assert batches_in(fetch(connection, topic, 0, version=version, **{which: limit})) == [(0, 2)]


@pytest.mark.parametrize("limit", TINY)
def test_item_29_of_several_partitions_only_the_first_that_has_something_is_given_more_than_fits(
    connection: RawConnection, new_topic: NewTopic, limit: int
) -> None:
    topic = new_topic(4)
    filled(connection, topic, 0, 2, 2, 2)
    everything = {0: 0, 3: 0, 2: 0, 1: 0}

    assert sizes(connection, topic, everything, bytes_max=limit) == {0: 0, 3: 1, 2: 0, 1: 0}
    assert sizes(connection, topic, everything, partition_bytes_max=limit) == {0: 0, 3: 1, 2: 0, 1: 0}


def test_item_29_whole_batches_up_to_the_limit_of_the_partition(
    connection: RawConnection, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    filled(connection, topic, 5, 5, 5)
    asked = {2: 0, 0: 0, 1: 0}

    for partition_bytes_max, expected in (
        (2 * BATCH_BYTES, {2: 2, 0: 2, 1: 2}),
        (3 * BATCH_BYTES - 1, {2: 2, 0: 2, 1: 2}),
        (3 * BATCH_BYTES, {2: 3, 0: 3, 1: 3}),
        (BATCH_BYTES - 1, {2: 1, 0: 0, 1: 0}),
    ):
        assert sizes(connection, topic, asked, partition_bytes_max=partition_bytes_max) == expected


def test_item_29_whole_batches_up_to_the_limit_of_the_answer_in_the_order_of_the_request(
    connection: RawConnection, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    filled(connection, topic, 3, 3, 3)

    for batches, expected in (
        (4, {1: 3, 2: 1, 0: 0}),
        (6, {1: 3, 2: 3, 0: 0}),
        (7, {1: 3, 2: 3, 0: 1}),
        (100, {1: 3, 2: 3, 0: 3}),
    ):
        assert sizes(connection, topic, {1: 0, 2: 0, 0: 0}, bytes_max=batches * BATCH_BYTES) == expected
    assert sizes(connection, topic, {0: 0, 1: 0, 2: 0}, bytes_max=4 * BATCH_BYTES) == {0: 3, 1: 1, 2: 0}


def test_item_29_a_batch_larger_than_the_limit_is_not_given_behind_another(
    connection: RawConnection, topic: RawTopic
) -> None:
    produce_well(connection, topic, batch_of(), batch_of(value_bytes=5_000), batch_of())

    assert batches_in(fetch(connection, topic, 0, bytes_max=1_000)) == [(0, 0)]
    assert batches_in(fetch(connection, topic, 1, bytes_max=1_000)) == [(1, 1)]


def test_item_29_a_fetch_goes_on_where_the_limit_stopped_it(
    connection: RawConnection, topic: RawTopic
) -> None:
    batches = [batch_of(count, value_bytes=count * 100) for count in (1, 4, 2, 9, 1)]
    produce_well(connection, topic, *batches)
    found: list[tuple[int, int]] = []
    while (offset := found[-1][1] + 1 if found else 0) < 17:
        found += batches_in(fetch(connection, topic, offset, partition_bytes_max=700))

    assert found == [(0, 0), (1, 4), (5, 6), (7, 15), (16, 16)]


# -- 30, 31: what is in a row --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY_FETCH)
def test_item_30_the_batch_that_holds_the_offset_is_given_from_its_beginning(
    connection: RawConnection, topic: RawTopic, version: int
) -> None:
    produce_well(connection, topic, batch_of(4), batch_of(4))

    for offset in range(4, 8):
        assert batches_in(fetch(connection, topic, offset, version=version)) == [(4, 7)]
    assert batches_in(fetch(connection, topic, 3, version=version)) == [(0, 3), (4, 7)]


def test_item_30_and_after_a_trim_into_its_middle(connection: RawConnection, topic: RawTopic) -> None:
    produce_well(connection, topic, batch_of(4), batch_of(4))
    trim(connection, topic, 2)
    row = fetch(connection, topic, 2)

    assert (row.log_start_offset, batches_in(row)[0]) == (2, (0, 3))
    assert fetch(connection, topic, 1).error_code == OUT_OF_RANGE


@pytest.mark.parametrize("version", EVERY_FETCH)
def test_item_31_records_are_empty_and_not_null(address: Address, topic: RawTopic, version: int) -> None:
    with OracleCheckedConnection(address, kio_reads) as connection:
        for asked, error, end in ((topic, 0, 0), (NOWHERE, 3 if version < 13 else 100, -1)):
            row = fetch(connection, asked, 0, version=version)
            assert row.records is not None
            assert (row.error_code, row.high_watermark, len(row.records)) == (error, end, 0)


@pytest.mark.parametrize("version", [4, 7, 11, 12, 16])
def test_item_31_other_libraries_read_what_is_fetched(
    address: Address, topic: RawTopic, version: int
) -> None:
    values = [b"a", b"b" * 1_000, None]
    for reads in (kio_reads, kafka_python_reads):
        with OracleCheckedConnection(address, reads) as connection:
            produce_well(connection, topic, build_batch([Record(key=b"k", value=value) for value in values]))
            row = fetch(connection, topic, 0, version=version)
            found = [None if record.value is None else bytes(record.value) for record in records_in(row)]
            assert found[:3] == values


# -- 32: read committed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY_FETCH)
def test_item_32_aborted_transactions_are_null_or_empty_by_the_isolation_that_was_asked(
    connection: RawConnection, topic: RawTopic, version: int
) -> None:
    filled(connection, topic, 2)
    uncommitted = fetch(connection, topic, 0, version=version, isolation_level=0)
    committed = fetch(connection, topic, 0, version=version, isolation_level=1)

    assert uncommitted.aborted_transactions is None
    assert committed.aborted_transactions == []
    assert bytes_of_records(committed) == bytes_of_records(uncommitted)
    assert uncommitted.last_stable_offset == committed.last_stable_offset == committed.high_watermark == 2


# -- 34: sessions --------------------------------------------------------------------------------------------


class Session:
    """A consumer with a fetch session: what it asks for first, and then only changes."""

    def __init__(self, connection: RawConnection, topic: RawTopic, version: int = 11) -> None:
        self.connection, self.topic, self.version = connection, topic, version
        self.session_id = self.epoch = 0

    def ask(self, offsets: dict[int, int], **more: Any) -> Any:
        request = fetch_request(
            self.topic, offsets, session_id=self.session_id, session_epoch=self.epoch, **more
        )
        answer = self.connection.ask(request, self.version)
        self.session_id, self.epoch = answer.session_id, self.epoch + 1
        return answer

    def found(self, offsets: dict[int, int], **more: Any) -> dict[int, list[tuple[int, int]]]:
        answer = self.ask(offsets, **more)
        assert answer.error_code == 0
        return {row.index: batches_in(row) for row in fetched_rows(answer)}


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_item_34_only_changes_go_over_the_wire(
    connection: RawConnection, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(3)
    session = Session(connection, topic, version)
    assert session.found({0: 0, 1: 0, 2: 0}) == {0: [], 1: [], 2: []}
    assert session.session_id > 0

    assert session.found({}) == {}
    filled(connection, topic, 0, 1)
    assert session.found({}) == {1: [(0, 0)]}
    assert session.found({1: 1}) == {}
    filled(connection, topic, 1, 1)
    assert session.found({}) == {0: [(0, 0)], 1: [(1, 1)]}


@pytest.mark.parametrize("version", [7, 12, 13])
def test_item_34_forgotten_partitions_are_forgotten(
    connection: RawConnection, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(3)
    session = Session(connection, topic, version)
    session.found({0: 0, 1: 0})
    assert session.found({2: 0}, forgotten=[0]) == {2: []}
    filled(connection, topic, 1, 1, 1)

    assert session.found({}) == {1: [(0, 0)], 2: [(0, 0)]}


def test_item_34_a_long_poll_in_a_session_waits_for_all_its_partitions(
    connect: Connect, new_topic: NewTopic
) -> None:
    topic, (reader, writer) = new_topic(2), (connect(), connect())
    session = Session(reader, topic)
    session.found({0: 0, 1: 0})
    reader.send(fetch_request(topic, {}, wait_ms=LONG_MS, session_id=session.session_id, session_epoch=1), 11)
    assert not reader.has_answer_within(0.05)
    filled(writer, topic, 0, 1)

    (row,) = fetched_rows(reader.receive())
    assert (row.index, batches_in(row)) == (1, [(0, 0)])


def test_item_34_a_request_that_is_not_the_next_of_its_session_is_refused(
    connection: RawConnection, topic: RawTopic
) -> None:
    session = Session(connection, topic)
    session.found({0: 0})

    def error(session_id: int, epoch: int) -> int:
        request = fetch_request(topic, {}, session_id=session_id, session_epoch=epoch, wait_ms=LONG_MS)
        answer = connection.ask(request, 11)
        assert (answer.topics, answer.session_id) == ([], 0)
        return int(answer.error_code)

    wrong = {(session.session_id, 2), (session.session_id, 7), (session.session_id, -2)}
    assert {error(*each) for each in wrong} == {ErrorCode.INVALID_FETCH_SESSION_EPOCH}
    unknown = {(session.session_id ^ 1, 1), (0, 1)}
    assert {error(*each) for each in unknown} == {ErrorCode.FETCH_SESSION_ID_NOT_FOUND}
    assert session.found({}) == {}, "it is as it was"


def test_item_34_a_session_ends_when_it_is_told_to(connection: RawConnection, topic: RawTopic) -> None:
    session = Session(connection, topic)
    session.found({0: 0})
    old = session.session_id
    session.epoch = -1
    answer = session.ask({0: 0})
    assert (answer.error_code, answer.session_id, len(fetched_rows(answer))) == (0, 0, 1)
    request = fetch_request(topic, {}, session_id=old, session_epoch=1)
    assert connection.ask(request, 11).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_item_34_without_a_session_everything_is_answered(
    connection: RawConnection, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    for _ in range(2):
        answer = connection.ask(fetch_request(topic, {0: 0, 1: 0}, session_epoch=-1), 11)
        assert (answer.session_id, len(fetched_rows(answer))) == (0, 2)


def test_item_34_an_error_is_told_again_and_its_end_too(connection: RawConnection, topic: RawTopic) -> None:
    session = Session(connection, topic)
    assert session.found({0: 0}) == {0: []}
    for _ in range(2):
        (row,) = fetched_rows(session.ask({0: 9}))
        assert row.error_code == OUT_OF_RANGE
    assert session.found({0: 0}) == {0: []}
    assert session.found({}) == {}
