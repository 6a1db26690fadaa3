"""ListOffsets, items 13, 19, 35 and 36."""

import asyncio

import pytest

from siltstone.broker.partitions import time_lookup
from siltstone.kafka_protocol.batch_header import Codec, patch_checksum
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.errors import Unavailable
from siltstone.stream_engine.errors import OffsetBeyondEnds
from support.broker.broker_world import READ, WRITE, in_broker_world
from support.broker.partition_state import ReadTurns, trim_in_metadata
from support.engine.engine_world import settled
from support.kafka.kafka_requests import (
    batch_of,
    list_offsets_request,
    produce_request,
    row_of,
    rows_of,
    timed_batch,
)
from support.kafka.message_versions import versions_with_own_layout
from support.scenarios import scenario

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
SINCE = {LATEST: 1, EARLIEST: 1, NEWEST: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
VERSIONS = versions_with_own_layout(ListOffsetsRequest, ListOffsetsResponse)
LEADER_EPOCHS = 4
"""Since this version requests and answers hold a leader epoch."""


async def ask(world, topic, timestamp, version=11, **fields):
    """(error, offset, timestamp, leader epoch)"""
    request = list_offsets_request(topic, timestamp, **fields)
    row = row_of(await world.client().ask(request, version))
    return ErrorCode(row.error_code), row.offset, row.timestamp, row.leader_epoch


async def append(world, topic, *batches):
    for batch in batches:
        row = row_of(await world.client().ask(produce_request(topic, batch)))
        assert row.error_code == 0


async def filled(world):
    """Offsets 2 to 9 under epoch 1, with times that jump about; the log begins within a batch."""
    topic = await world.topic()
    await append(world, topic, timed_batch(50, 10, 40))
    await world.restart()
    await append(world, topic, timed_batch(20, 60), timed_batch(30), timed_batch(60, 70, 45, 70))
    await world.parts.partitions.trim(world.opened(topic), 2)
    return topic


@pytest.mark.parametrize("version", range(1, 12))
def test_items_35_and_36_timestamps_with_a_meaning(version):
    """In every version, since they came one after another without a change of the layout."""
    meant = {
        LATEST: (10, -1, 1),
        EARLIEST: (2, -1, 0),
        NEWEST: (7, 70, 1),
        EARLIEST_LOCAL: (2, -1, 0),
        LATEST_TIERED: (-1, -1, -1),
        EARLIEST_PENDING: (-1, -1, -1),
        -7: (-1, -1, -1),
        -(2**63): (-1, -1, -1),
    }

    def expected(timestamp):
        if version < SINCE.get(timestamp, 99):
            return ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1
        offset, time, epoch = meant[timestamp]
        return ErrorCode.NONE, offset, time, epoch if version >= LEADER_EPOCHS else -1

    async def scenario(world):
        topic = await filled(world)
        answers = {timestamp: await ask(world, topic, timestamp, version) for timestamp in meant}
        assert answers == {timestamp: expected(timestamp) for timestamp in meant}

    in_broker_world(scenario)


@pytest.mark.parametrize("where", ["memory", "objects"])
@pytest.mark.parametrize(
    ("target", "offset", "time"),
    [
        (0, 2, 40),
        (40, 2, 40),
        (41, 4, 60),
        (60, 4, 60),
        (61, 7, 70),
        (70, 7, 70),
        (71, -1, -1),
        (2**63 - 1, -1, -1),
    ],
)
@scenario(in_broker_world)
async def test_item_35_the_first_record_of_that_time_or_later(world, target, offset, time, where) -> None:
    topic = await filled(world)
    if where == "objects":
        await world.restart()
    epoch = -1 if offset < 0 else int(offset >= 3)
    assert await ask(world, topic, target) == (ErrorCode.NONE, offset, time, epoch)


@pytest.mark.parametrize("codec", list(Codec))
@scenario(in_broker_world)
async def test_item_35_within_a_compressed_batch(world, codec) -> None:
    topic = await world.topic()
    await append(world, topic, timed_batch(5, 9, 7, 12, compression=codec))
    assert await ask(world, topic, 6) == (ErrorCode.NONE, 1, 9, 0)
    assert await ask(world, topic, 10) == (ErrorCode.NONE, 3, 12, 0)


@scenario(in_broker_world)
async def test_item_35_with_the_brokers_time_every_record_has_it(world) -> None:
    topic = await world.topic(message_timestamp_type="LogAppendTime")
    now_ms = world.clock.now_ms()
    await append(world, topic, timed_batch(5, 9))
    await world.pass_ms(10)
    await append(world, topic, timed_batch(1, 2))
    assert await ask(world, topic, 3) == (ErrorCode.NONE, 0, now_ms, 0)
    assert await ask(world, topic, now_ms + 1) == (ErrorCode.NONE, 2, now_ms + 10, 0)
    assert await ask(world, topic, NEWEST) == (ErrorCode.NONE, 2, now_ms + 10, 0)


@scenario(in_broker_world)
async def test_item_35_records_without_a_time_are_found_by_none(world) -> None:
    topic = await world.topic()
    await append(world, topic, timed_batch(-1, -1), timed_batch(-1, 0))
    assert await ask(world, topic, 0) == (ErrorCode.NONE, 3, 0, 0)
    assert await ask(world, topic, 1) == (ErrorCode.NONE, -1, -1, -1)


@pytest.mark.parametrize("timestamp", [NEWEST, 0, 2**62])
@scenario(in_broker_world)
async def test_item_35_an_empty_partition(world, timestamp) -> None:
    topic = await world.topic()
    assert await ask(world, topic, timestamp) == (ErrorCode.NONE, -1, -1, -1)
    assert await ask(world, topic, LATEST) == (ErrorCode.NONE, 0, -1, 0)
    assert await ask(world, topic, EARLIEST) == (ErrorCode.NONE, 0, -1, 0)
    await append(world, topic, batch_of(3))
    await world.parts.partitions.trim(world.opened(topic), 3)
    assert await ask(world, topic, timestamp) == (ErrorCode.NONE, -1, -1, -1)
    assert await ask(world, topic, EARLIEST) == (ErrorCode.NONE, 3, -1, 0)


@scenario(in_broker_world)
async def test_item_35_latest_is_what_is_durable_for_every_isolation(world) -> None:
    topic = await world.topic()
    await append(world, topic, batch_of(2))
    world.calls.hold(WRITE)
    on_its_way = world.client().send(produce_request(topic, batch_of(5)))
    await settled()
    for isolation_level in (0, 1):
        request = ListOffsetsRequest(
            isolation_level=isolation_level, topics=list_offsets_request(topic, LATEST).topics
        )
        assert row_of(await world.client().ask(request)).offset == 2
    world.calls.release(WRITE)
    await on_its_way


@scenario(in_broker_world)
async def test_item_35_the_newest_is_waited_for_until_it_is_durable(world) -> None:
    topic = await world.topic()
    await append(world, topic, timed_batch(5))
    world.calls.hold(WRITE)
    on_its_way = world.client().send(produce_request(topic, timed_batch(9)))
    await settled()
    asked = world.client().send(list_offsets_request(topic, NEWEST))
    await settled()
    assert not asked.done()
    world.calls.release(WRITE)
    assert (row_of(await asked).offset, row_of(await asked).timestamp) == (1, 9)
    await on_its_way


@scenario(in_broker_world)
async def test_the_newest_of_a_topic_that_goes_meanwhile(world) -> None:
    topic = await world.topic()
    await append(world, topic, timed_batch(5))
    world.calls.hold(WRITE)
    on_its_way = world.client().send(produce_request(topic, timed_batch(9)))
    await settled()
    asked = world.client().send(list_offsets_request(topic, NEWEST))
    await settled()
    await world.parts.partitions.delete_topic(topic)
    row = row_of(await asked)
    assert (row.error_code, row.offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    world.calls.release(WRITE)
    await on_its_way


@scenario(in_broker_world)
async def test_the_newest_when_nothing_is_written_any_more(world) -> None:
    topic = await world.topic()
    await append(world, topic, timed_batch(5))
    world.calls.hold(WRITE)
    on_its_way = world.client().send(produce_request(topic, timed_batch(9)))
    await settled()
    asked = world.client().send(list_offsets_request(topic, NEWEST))
    await settled()
    world.calls.fail(WRITE, OSError("no disk"))
    world.calls.release(WRITE)
    await on_its_way
    assert row_of(await asked).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await ask(world, topic, 1))[:2] == (ErrorCode.NONE, 0)


@scenario(in_broker_world)
async def test_the_newest_is_looked_for_once_when_it_was_trimmed_away(world) -> None:
    topic = await world.topic()
    await append(world, topic, timed_batch(90, 10), *(timed_batch(time) for time in (30, 50, 50, 20)))
    await world.parts.partitions.trim(world.opened(topic), 1)
    for _ in range(2):
        assert (await ask(world, topic, NEWEST))[:3] == (ErrorCode.NONE, 3, 50)
    assert world.opened(topic).times.newest.offset == 3
    await append(world, topic, timed_batch(50), timed_batch(60))
    assert (await ask(world, topic, NEWEST))[:3] == (ErrorCode.NONE, 7, 60)


@scenario(in_broker_world)
async def test_the_newest_that_was_looked_for_does_not_hide_what_was_on_its_way(world) -> None:
    topic = await world.topic()
    await append(world, topic, timed_batch(90), timed_batch(50))
    await world.parts.partitions.trim(world.opened(topic), 1)
    world.calls.hold(WRITE)
    on_its_way = world.client().send(produce_request(topic, timed_batch(60)))
    await settled()
    assert (await ask(world, topic, NEWEST))[:3] == (ErrorCode.NONE, 1, 50)
    world.calls.release(WRITE)
    await on_its_way
    assert (await ask(world, topic, NEWEST))[:3] == (ErrorCode.NONE, 2, 60)


@pytest.mark.parametrize(
    ("trim_to", "timestamp", "found"),
    [(3, 4, (5, 4)), (3, 1_000, (-1, -1)), (3, NEWEST, (6, 5)), (7, 0, (-1, -1)), (7, NEWEST, (-1, -1))],
)
def test_a_partition_that_is_trimmed_while_it_is_searched(trim_to, timestamp, found, monkeypatch):
    monkeypatch.setattr(time_lookup, "SCAN_BYTES", 1)

    async def scenario(world):
        topic = await world.topic()
        await append(world, topic, timed_batch(900), *(timed_batch(time) for time in range(6)))
        await world.parts.partitions.trim(world.opened(topic), 1)
        await world.restart()
        partition = await world.partition(topic)
        world.calls.hold(READ)
        asked = world.client().send(list_offsets_request(topic, timestamp))
        await settled()
        await world.parts.partitions.trim(partition, trim_to)
        world.calls.release(READ)
        row = row_of(await asked)
        assert (row.error_code, row.offset, row.timestamp) == (0, *found)

    in_broker_world(scenario)


@scenario(in_broker_world)
async def test_a_trim_that_only_the_metadata_has_heard_of_yet(world) -> None:
    topic = await world.topic()
    await append(world, topic, *(timed_batch(time) for time in range(6)))
    await world.restart()
    partition = await world.partition(topic)
    await trim_in_metadata(partition, world.parts, 3)
    asked = world.client().send(list_offsets_request(topic, 0))
    await asyncio.sleep(0)
    await world.parts.partitions.trim(partition, 3)
    row = row_of(await asked)
    assert (row.error_code, row.offset, row.timestamp) == (0, 3, 3)


def test_others_have_their_turn_while_much_is_searched(monkeypatch):
    monkeypatch.setattr(time_lookup, "SCAN_BYTES", 1)

    async def scenario(world):
        topic = await world.topic()
        await append(world, topic, *(timed_batch(time) for time in range(6)))
        reads = ReadTurns(world.parts.engine)
        assert (await ask(world, topic, 5))[:2] == (ErrorCode.NONE, 5)
        reads.counter.stop()
        assert len(reads.turns) == len(set(reads.turns)) == 6

    in_broker_world(scenario)


# -- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_broker_world)
async def test_item_13_what_there_is_not(world, version) -> None:
    topic = await world.topic()
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in (0, 1, -1)
                ],
            )
            for name in ("t", "u")
        ]
    )
    rows = rows_of(await world.client().ask(request, version))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [row.error_code for row in rows] == [0, unknown, unknown, unknown, unknown, unknown]
    assert [row.offset for row in rows] == [0, -1, -1, -1, -1, -1]
    assert topic.partition_count == 1
    assert world.parts.topics.by_name("u") is None


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= LEADER_EPOCHS])
@scenario(in_broker_world)
async def test_item_19_leader_epochs(world, version) -> None:
    topic = await filled(world)
    answers = {
        epoch: await ask(world, topic, LATEST, version, current_leader_epoch=epoch) for epoch in (-1, 0, 1, 2)
    }
    assert answers == {
        -1: (ErrorCode.NONE, 10, -1, 1),
        0: (ErrorCode.FENCED_LEADER_EPOCH, -1, -1, -1),
        1: (ErrorCode.NONE, 10, -1, 1),
        2: (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1, -1),
    }


@scenario(in_broker_world)
async def test_a_partition_named_twice_is_refused_and_others_are_not(world) -> None:
    topic = await world.topic(partitions=2)
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in (0, 1, 0)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic.name, partitions=partitions)])
    rows = rows_of(await world.client().ask(request))
    twice = ErrorCode.INVALID_REQUEST
    assert [row.error_code for row in rows] == [twice, ErrorCode.NONE, twice]
    entries = [ListOffsetsTopic(name=topic.name, partitions=[row]) for row in partitions]
    rows = rows_of(await world.client().ask(ListOffsetsRequest(topics=entries)))
    assert [row.error_code for row in rows] == [twice, ErrorCode.NONE, twice], "also in several entries"


@scenario(in_broker_world)
async def test_what_cannot_be_read_is_told_in_its_partition(world) -> None:
    topic = await filled(world)
    await world.restart()
    await world.partition(topic)
    world.calls.fail(READ, Unavailable("no bucket"))
    assert (await ask(world, topic, 60))[0] is ErrorCode.KAFKA_STORAGE_ERROR
    assert (await ask(world, topic, LATEST))[0] is ErrorCode.NONE


@scenario(in_broker_world)
async def test_records_that_nobody_can_read_are_told_in_their_partition(world) -> None:
    topic = await world.topic()
    batch = build_batch([Record(timestamp_ms=world.clock.now_ms(), value=b"v" * 50)])
    batch[-20:] = b"\xff" * 20
    batch[21:23] = Codec.ZSTD.to_bytes(2, "big")
    patch_checksum(batch)
    await append(world, topic, batch)
    assert (await ask(world, topic, 5))[0] is ErrorCode.INVALID_RECORD


@scenario(in_broker_world)
async def test_nothing_asked(world) -> None:
    assert (await world.client().ask(ListOffsetsRequest())).topics == []
    await world.topic()
    assert rows_of(await world.client().ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name="t")]))) == []


@scenario(in_broker_world)
async def test_a_thousand_partitions(world) -> None:
    topic = await world.topic(partitions=1_000)
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(1_000)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic.name, partitions=partitions)])
    rows = rows_of(await world.client().ask(request))
    assert [(row.partition_index, row.offset) for row in rows] == [(index, 0) for index in range(1_000)]


def test_a_trim_that_the_partition_never_hears_of_ends_the_look_up_and_not_the_loop():
    class Deaf:
        """Its start was trimmed away, and it does not learn of it."""

        log_start_offset, high_watermark, reads = 0, 10, 0

        async def read(self, offset: int, size_bytes: int) -> list[object]:
            self.reads += 1
            assert self.reads <= time_lookup.TURNS_OF_A_TRIM_MAX, "it continues for ever"
            raise OffsetBeyondEnds("trimmed")

    partition = Deaf()

    async def main():
        with pytest.raises(OffsetBeyondEnds):
            async for _ in time_lookup._batches(partition, 0, None):
                pass

    asyncio.run(main())
    assert partition.reads == time_lookup.TURNS_OF_A_TRIM_MAX
