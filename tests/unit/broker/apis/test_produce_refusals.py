"""What a Produce refuses, and which record is to blame (item 26)."""

import pytest

from siltstone.broker.partitions.admission import NO_KEY
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT, Codec, read_batch_header
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.kafka_protocol.records.validation import RECORDS_NAMED_MAX
from siltstone.model.errors import Unavailable
from support.broker.broker_world import READ, SMALL_TAIL, WRITE, in_broker_world
from support.broker.produce_tests import SWEEP_MS, codes, stored
from support.engine.engine_world import settled
from support.kafka.kafka_batches import bytes_of_records, with_header, with_offset_deltas
from support.kafka.kafka_requests import (
    NOW_MS,
    batch_of,
    fetch_request,
    produce_request,
    row_of,
    rows_of,
    sequenced,
    timed_batch,
)
from support.scenarios import scenario


@scenario(in_broker_world)
async def test_item_26_the_brokers_time_and_the_start_of_the_log_are_told(world) -> None:
    topic = await world.topic(message_timestamp_type="LogAppendTime")
    client = world.client()
    await client.ask(produce_request(topic, batch_of(3)))
    await world.parts.partitions.trim(world.opened(topic), 2)
    row = row_of(await client.ask(produce_request(topic, timed_batch(1, 2))))
    assert (row.base_offset, row.log_append_time_ms, row.log_start_offset) == (3, NOW_MS, 2)
    stored = read_batch_header(bytes_of_records(row_of(await client.ask(fetch_request(topic, {0: 3})))))
    assert (stored.is_log_append_time, stored.max_timestamp_ms) == (True, NOW_MS)


REFUSED = {
    "no batch": (None, {}, ErrorCode.INVALID_RECORD),
    "empty": (b"", {}, ErrorCode.INVALID_RECORD),
    "two batches": (batch_of() + batch_of(), {}, ErrorCode.INVALID_RECORD),
    "half a batch": (batch_of()[:61], {}, ErrorCode.CORRUPT_MESSAGE),
    "less than a header": (batch_of()[:20], {}, ErrorCode.CORRUPT_MESSAGE),
    "one byte less": (batch_of()[:-1], {}, ErrorCode.CORRUPT_MESSAGE),
    "one byte more": (batch_of() + b"\0", {}, ErrorCode.CORRUPT_MESSAGE),
    "another crc": (with_header(batch_of(), crc=5), {}, ErrorCode.CORRUPT_MESSAGE),
    "flipped": (batch_of()[:-1] + b"\1", {}, ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (with_header(batch_of(), magic=1), {}, ErrorCode.INVALID_RECORD),
    "offset not 0": (with_header(batch_of(), base_offset=1), {}, ErrorCode.INVALID_RECORD),
    "another count": (with_header(batch_of(), record_count=3), {}, ErrorCode.INVALID_RECORD),
    "a count of 0": (
        with_header(batch_of(), record_count=0, last_offset_delta=-1),
        {},
        ErrorCode.INVALID_RECORD,
    ),
    "a gap in it": (with_header(batch_of(2), last_offset_delta=7), {}, ErrorCode.INVALID_RECORD),
    "more than fit": (
        with_header(batch_of(), record_count=2**31 - 1, last_offset_delta=2**31 - 2),
        {},
        ErrorCode.INVALID_RECORD,
    ),
    "control": (with_header(batch_of(), attributes=0x20), {}, ErrorCode.INVALID_RECORD),
    "log append time": (with_header(batch_of(), attributes=8), {}, ErrorCode.INVALID_TIMESTAMP),
    "codec 6": (with_header(batch_of(), attributes=6), {}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "no sequence": (with_header(batch_of(), producer_id=1, producer_epoch=0), {}, ErrorCode.INVALID_RECORD),
    "no epoch": (with_header(batch_of(), producer_id=1), {}, ErrorCode.INVALID_RECORD),
    "too large": (batch_of(value_bytes=500), {"max_message_bytes": "400"}, ErrorCode.MESSAGE_TOO_LARGE),
    "too large when stored": (
        batch_of(value_bytes=100_000, compression=Codec.ZSTD),
        {"max_message_bytes": "5000", "compression_type": "uncompressed"},
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "in a transaction": (
        with_header(sequenced(1, 0), attributes=TRANSACTIONAL_BIT),
        {},
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "without key": (batch_of(key=None), {"cleanup_policy": "compact"}, ErrorCode.INVALID_RECORD),
    "too early": (batch_of(timestamp_ms=NOW_MS + 3_600_001), {}, ErrorCode.INVALID_TIMESTAMP),
    "deltas that do not increase": (
        with_offset_deltas([Record(timestamp_ms=NOW_MS, key=b"k")] * 3, (2, 1, 0)),
        {"cleanup_policy": "compact"},
        ErrorCode.INVALID_RECORD,
    ),
    "a producer epoch that cannot be": (
        with_header(batch_of(), producer_id=4, producer_epoch=-5, base_sequence=0),
        {},
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    "no records": (
        with_header(batch_of(), attributes=1),
        {"siltstone_record_validation": "full"},
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("version", [7, 13])
def test_item_26_what_is_refused(name, version):
    batch, configs, code = REFUSED[name]

    async def scenario(world):
        topic = await world.topic(**configs)
        sent = None if batch is None else bytes(batch)
        row = row_of(await world.client().ask(produce_request(topic, sent), version))
        assert (ErrorCode(row.error_code), row.base_offset, row.log_append_time_ms) == (code, -1, -1)
        assert row.log_start_offset == -1
        assert bool(row.error_message) == (version >= 8)
        assert await stored(world, topic) == 0

    in_broker_world(scenario)


@scenario(in_broker_world)
async def test_item_26_zstd_from_a_client_before_version_7(world) -> None:
    topic = await world.topic()
    request = produce_request(topic, batch_of(compression=Codec.ZSTD))
    assert codes(await world.client().ask(request, 6)) == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE]
    assert codes(await world.client().ask(request, 7)) == [ErrorCode.NONE]


@pytest.mark.parametrize("version", [7, 8, 13])
@scenario(in_broker_world)
async def test_item_26_which_record_is_to_blame(world, version) -> None:
    compacted = await world.topic("keys", cleanup_policy="compact")
    some = build_batch([Record(timestamp_ms=NOW_MS, key=key) for key in (b"a", None, b"b", None)])
    row = row_of(await world.client().ask(produce_request(compacted, some), version))
    assert row.error_code == ErrorCode.INVALID_RECORD
    errors = [(error.batch_index, error.message) for error in row.record_errors]
    assert errors == ([(1, NO_KEY), (3, NO_KEY)] if version >= 8 else [])
    assert row.error_message == (f"2 records are refused; record 1: {NO_KEY}" if version >= 8 else None)
    late = await world.topic("late", message_timestamp_before_max_ms="10")
    row = row_of(await world.client().ask(produce_request(late, timed_batch(NOW_MS, 5, NOW_MS, 6)), version))
    assert row.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in row.record_errors] == ([1, 3] if version >= 8 else [])


@scenario(in_broker_world)
async def test_one_answer_names_no_more_records_than_the_limit_says(world) -> None:
    """However many batches of few bytes a request holds: these have 8,000 records each."""
    compacted = await world.topic("keys", partitions=3, cleanup_policy="compact")
    keyless = build_batch([Record(timestamp_ms=NOW_MS)] * 8_000, compression=Codec.ZSTD)
    answer = await world.client().ask(produce_request(compacted, *[bytes(keyless)] * 3), 13)
    rows = answer.topics[0].partitions
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_RECORD] * 3
    assert [len(row.record_errors) for row in rows] == [8_000, RECORDS_NAMED_MAX - 8_000, 0]
    assert all(row.error_message.startswith("8000 records are refused; record 0: ") for row in rows)


@scenario(in_broker_world)
async def test_tp11_one_transactional_batch_without_a_transactional_id_refuses_the_whole_request(
    world,
) -> None:
    topic = await world.topic(partitions=2)
    transactional = with_header(sequenced(1, 0), attributes=TRANSACTIONAL_BIT)
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = produce_request(topic, batch_of(), transactional)
    assert codes(await world.client().ask(request)) == [code] * 2
    assert await stored(world, topic) == 0
    request = produce_request(topic, batch_of(), batch_of(), transactional_id="tx")
    assert codes(await world.client().ask(request)) == [0] * 2, "none of the batches is in a transaction"


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_item_25_an_append_that_waits_for_room_is_answered_in_time_and_stands_later(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    world.calls.hold(WRITE)
    count = 0
    while not world.broker.wants_pause:
        asked = world.client().send(produce_request(topic, batch_of(value_bytes=2_000), timeout_ms=1_500))
        count += 1
    for _ in range(2):
        await settled()
        assert not asked.done()
        await world.pass_ms(SWEEP_MS)
    assert world.broker.wants_pause
    assert codes(await asked) == [ErrorCode.REQUEST_TIMED_OUT]
    world.calls.release(WRITE)
    while world.broker.wants_pause:
        await world.pass_ms(SWEEP_MS)
    assert await stored(world, topic) == count


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_no_room_means_ask_again(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = world.client()
    world.calls.hold(WRITE)
    asked = [
        client.send(produce_request(topic, sequenced(9, number, value_bytes=2_000))) for number in range(40)
    ]
    assert world.broker.wants_pause
    world.calls.release(WRITE)
    answers = [row_of(await world.world.passing(answer)) for answer in asked]
    accepted = [row.base_offset for row in answers if not row.error_code]
    refused = {ErrorCode(row.error_code) for row in answers if row.error_code}
    assert accepted == list(range(len(accepted)))
    assert refused == {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    } or refused == {ErrorCode.REQUEST_TIMED_OUT}
    again = row_of(await client.ask(produce_request(topic, sequenced(9, len(accepted)))))
    assert (again.error_code, again.base_offset) == (0, len(accepted))
    assert not world.broker.wants_pause


@scenario(in_broker_world)
async def test_a_partition_that_cannot_be_opened_fails_alone(world) -> None:
    topic = await world.topic(partitions=2)
    client = world.client()
    await client.ask(produce_request(topic, batch_of()))
    await world.restart()
    world.calls.fail(READ, Unavailable("no bucket"))
    response = await world.client().ask(produce_request(topic, batch_of(), batch_of()))
    assert codes(response) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert rows_of(response)[0].error_message == "no bucket"
