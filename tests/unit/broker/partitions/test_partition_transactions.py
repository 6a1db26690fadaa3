"""Transactions in a partition on a real engine: appended, written down in snapshots, and read again after a crash."""

import msgspec
import pytest

from siltstone.broker.partitions.admission import Admitted
from siltstone.broker.partitions.producer_state import StaleProducerEpoch
from siltstone.broker.partitions.transaction_state import (
    NotInTransaction,
    TransactionEnding,
    TransactionPermission,
)
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT, read_batch_header
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker, read_control_batch
from siltstone.object_formats.aborted_page import encode_aborted_page
from siltstone.object_formats.partition_snapshot import (
    AbortedPage,
    AbortedTransaction,
    PartitionSnapshot,
    SnapshotBody,
    TimeIndexState,
    encode_snapshot,
    pack_aborted,
)
from support.broker.broker_world import ENGINE, KIB, WRITE, in_broker_world
from support.broker.partition_state import ReadOffsets
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of, sequenced
from support.processes.calls_counted import calls_counted
from support.scenarios import scenario

PID = 9


def admitted(sequence, epoch=5, count=1, pid=PID):
    batch = sequenced(pid, sequence, count, epoch, attributes=TRANSACTIONAL_BIT)
    return Admitted(batch, read_batch_header(batch), -1)


def plain():
    batch = batch_of()
    return Admitted(batch, read_batch_header(batch), -1)


def begin(partition, sequence=0, pid=PID, epoch=5, number=100):
    return partition.append_admitted(admitted(sequence, epoch, pid=pid), TransactionPermission(number))


def ending(outcome, pid=PID, epoch=6):
    return TransactionEnding(pid, epoch, TransactionMarker(outcome, 3), raises_epoch=True, number=100)


async def last(begun):
    return await begun.durable


@scenario(in_broker_world)
async def test_tp2_tp7_the_last_stable_offset_follows_a_marker_when_it_is_durable(world) -> None:
    partition = await world.partition(await world.topic())
    with pytest.raises(NotInTransaction):
        partition.append_admitted(admitted(0))
    await last(partition.append_admitted(plain()))
    await last(begin(partition))
    await last(partition.append_admitted(admitted(1)))
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 3)
    world.calls.hold(WRITE)
    marker = partition.append_marker(ending(Outcome.ABORT))
    await settled()
    assert partition.last_stable_offset == 1
    world.calls.release(WRITE)
    await marker
    assert partition.last_stable_offset == partition.high_watermark == 4
    assert [*partition.transactions.aborted] == [AbortedTransaction(PID, 1, 3)]
    stored = (await partition.read(3, 10_000))[0].payload
    assert read_control_batch(stored) == TransactionMarker(Outcome.ABORT, 3)
    assert read_batch_header(stored).attributes == 0x30
    assert partition.append_marker(ending(Outcome.ABORT)) is None
    assert partition.next_offset == 4
    with pytest.raises(StaleProducerEpoch):
        partition.append_admitted(admitted(2))


@pytest.mark.parametrize("end", ["restart", "crash", "snapshot, then crash"])
@scenario(in_broker_world)
async def test_tp19_an_open_transaction_and_aborted_ones_are_known_again(world, end) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    begin(partition, pid=8)
    await partition.append_marker(ending(Outcome.ABORT, pid=8))
    await last(begin(partition))
    if end.startswith("snapshot"):
        await partition.write_snapshot()
    await last(partition.append_admitted(plain()))
    before = (partition.last_stable_offset, [*partition.transactions.aborted], partition.next_offset)
    assert before == (2, [AbortedTransaction(8, 0, 1)], 4)
    await (world.restart() if end == "restart" else world.crash())
    partition = await world.partition(topic)
    after = (partition.last_stable_offset, [*partition.transactions.aborted], partition.next_offset)
    assert after == before
    await last(partition.append_admitted(admitted(1)))
    await partition.append_marker(ending(Outcome.ABORT))
    assert partition.last_stable_offset == partition.high_watermark == 6
    assert [*partition.transactions.aborted][-1] == AbortedTransaction(PID, 2, 5)


@scenario(in_broker_world)
async def test_tp23_an_open_transaction_outlives_the_time_of_idle_producers(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    await last(begin(partition))
    await world.restart()
    world.clock.advance_ms(3 * 86_400_000)
    partition = await world.partition(topic)
    partition.expire_producers(world.clock.now_ms())
    assert partition.last_stable_offset == 0
    await partition.append_marker(ending(Outcome.COMMIT))
    assert partition.last_stable_offset == 2


@scenario(in_broker_world)
async def test_tp25_aborted_transactions_leave_with_the_start_of_the_log(world) -> None:
    partition = await world.partition(await world.topic())
    begin(partition)
    await partition.append_marker(ending(Outcome.ABORT))
    await last(partition.append_admitted(plain()))
    await partition.trim(1)
    assert len(partition.transactions.aborted) == 1
    await partition.trim(2)
    assert len(partition.transactions.aborted) == 0


@scenario(in_broker_world)
async def test_tp24_many_aborted_transactions_are_listed_exactly_after_a_crash(world, count=500) -> None:
    """Each snapshot has the whole list, and takes the place of the one before it."""
    topic = await world.topic()
    partition = await world.partition(topic)
    for number in range(count):
        begin(partition, epoch=number)
        durable = partition.append_marker(ending(Outcome.ABORT, epoch=number + 1))
        if number % 100 == 99:
            await durable
    expected = [AbortedTransaction(PID, 2 * number, 2 * number + 1) for number in range(count)]
    assert [*partition.transactions.aborted] == expected
    await partition.write_snapshot()
    await partition.write_snapshot()
    await world.crash()
    partition = await world.partition(topic)
    assert [*partition.transactions.aborted] == expected
    meta = world.parts.metadata.image.streams[topic.metadata.partitions[0].meta_stream_id]
    assert meta.end_offset - meta.start_offset <= 2, "older snapshots are trimmed"
    assert partition.last_stable_offset == partition.high_watermark == 2 * count


LITTLE_ROOM = msgspec.structs.replace(ENGINE, append_bytes_max=8 * KIB)


async def aborted_ones(partition, numbers) -> list[AbortedTransaction]:
    """Aborts a transaction for each number; returns them as they are listed."""
    first = partition.next_offset
    for number in numbers:
        begin(partition, epoch=number)
        durable = partition.append_marker(ending(Outcome.ABORT, epoch=number + 1))
        if number % 20 == 19:
            await durable
    await durable
    return [AbortedTransaction(PID, first + 2 * each, first + 2 * each + 1) for each in range(len(numbers))]


@scenario(in_broker_world, engine=LITTLE_ROOM)
async def test_tp24_from_half_of_the_limit_on_a_full_page_is_a_warning(world, caplog, monkeypatch) -> None:
    partition = await world.partition(await world.topic())
    monkeypatch.setattr("siltstone.broker.partitions.partition.ABORTED_BYTES_PER_PARTITION_MAX", 400 * 24)
    await aborted_ones(partition, range(190))
    await partition.write_snapshot()
    assert "aborted" not in caplog.text
    await aborted_ones(partition, range(190, 300))
    await partition.write_snapshot()
    assert "has 7200 of at most 9600 bytes of aborted transactions" in caplog.text


@scenario(in_broker_world, engine=LITTLE_ROOM)
async def test_tp24_more_aborted_transactions_than_one_append_holds(world, count=3_000) -> None:
    """Their list would be nine times as long as an append may be. Records are deleted, a segment is closed, and a
    restart reads no batch again; the older ones are written once, and leave with the start of the log."""
    topic = await world.topic()
    partition = await world.partition(topic)
    expected = await aborted_ones(partition, range(count))
    await partition.trim(1)  # as DeleteRecords does
    assert not partition.needs_snapshot
    written = partition.streams.meta.next_offset
    expected += await aborted_ones(partition, range(count, count + 10))
    await partition.write_snapshot()
    assert partition.streams.meta.next_offset == written + 1, "no page is written twice"
    await world.crash()
    reads = ReadOffsets(world.parts.engine)
    partition = await world.partition(topic)
    assert [*partition.transactions.aborted] == expected
    assert reads.of(partition.streams.data.stream_id) == []
    meta = partition.streams.meta
    held = meta.next_offset - meta.start_offset
    await partition.trim(5_000)
    assert [*partition.transactions.aborted] == expected[2_500:]
    await aborted_ones(partition, range(count + 10, count + 11))
    await partition.write_snapshot()
    assert meta.next_offset - meta.start_offset < held / 2, "the pages have left with the start of the log"
    expected = [*partition.transactions.aborted]
    await world.restart()
    assert [*(await world.partition(topic)).transactions.aborted] == expected


@pytest.mark.parametrize("record", ["the snapshot after a page", "a page"])
@scenario(in_broker_world, engine=LITTLE_ROOM)
async def test_tp24_a_page_without_its_snapshot_and_a_page_that_is_damaged(world, record, caplog) -> None:
    """A snapshot that was never written costs reading what came since the one before it; a damaged page costs reading
    all."""
    topic = await world.topic()
    partition = await world.partition(topic)
    expected = await aborted_ones(partition, range(300))
    await partition.write_snapshot()
    snapshot_offset = partition.next_offset
    expected += await aborted_ones(partition, range(300, 310))
    meta = partition.streams.meta
    if record == "a page":
        damaged = AbortedPage(meta.next_offset, 1)  # in its place is a snapshot
        body = SnapshotBody((), TimeIndexState(), pages=(damaged,))
        await world.parts.engine.append(
            meta, encode_snapshot(PartitionSnapshot(snapshot_offset, SnapshotBody((), TimeIndexState()))), 1
        )
        await world.parts.engine.append(meta, encode_snapshot(PartitionSnapshot(snapshot_offset, body)), 1)
    else:
        await world.parts.engine.append(meta, encode_aborted_page(pack_aborted(expected[-5:])), 1)
    await world.crash()
    reads = ReadOffsets(world.parts.engine)
    partition = await world.partition(topic)
    assert [*partition.transactions.aborted] == expected
    first_read = reads.of(partition.streams.data.stream_id)[0][0]
    assert first_read == (0 if record == "a page" else snapshot_offset)
    assert ("so the whole partition is read" in caplog.text) == (record == "a page")


@scenario(in_broker_world)
async def test_a_commit_builds_its_marker_once_and_each_partition_has_its_own_copy(world) -> None:
    topic = await world.topic(partitions=3)
    partitions = [await world.partition(topic, index) for index in range(3)]
    for number, partition in enumerate(partitions):
        for _ in range(number):
            await last(partition.append_admitted(plain()))
        await last(begin(partition))
    with calls_counted() as calls:
        markers = [partition.append_marker(ending(Outcome.COMMIT, epoch=6)) for partition in partitions]
    assert calls.count("build_control_batch") == 1
    assert [await marker for marker in markers] == [1, 2, 3]
    for partition in partitions:
        stored = (await partition.read(partition.next_offset - 1, 10_000))[0].payload
        header = read_batch_header(stored)
        assert (header.base_offset, header.producer_epoch) == (partition.next_offset - 1, 6)
        assert read_control_batch(stored) == TransactionMarker(Outcome.COMMIT, 3)
