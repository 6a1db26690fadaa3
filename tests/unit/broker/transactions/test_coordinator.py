"""A coordinator on the partitions of a real engine: a commit is one turn, and what a crash leaves of it is finished."""

import asyncio

import pytest

from siltstone.broker.partitions.admission import Admitted
from siltstone.broker.partitions.transaction_state import TransactionPermission
from siltstone.broker.transaction_topic import TransactionTopicLogs
from siltstone.broker.transactions import coordinator as module
from siltstone.broker.transactions.coordinator import Phase, TransactionCoordinator
from siltstone.broker.transactions.rules.requests import (
    AddToTransaction,
    End,
    Expire,
    ProducerEpoch,
    StartProducer,
    TimeOut,
)
from siltstone.broker.transactions.state_log.record import TransactionState, decode_record
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT, read_batch_header
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.control import Outcome, read_control_batch
from siltstone.kafka_protocol.records.reading import iterate_records
from siltstone.stream_engine.errors import EngineOverloaded
from support.broker.broker_world import WRITE, in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_requests import sequenced
from support.scenarios import scenario

TIMEOUT_MS = 60_000
STATES = "states"
"""The broker of the world has coordinators of its own, in ``__transaction_state``."""
ASK_AGAIN = ErrorCode.CONCURRENT_TRANSACTIONS


class Producer:
    """Sends to the coordinator, and to the partitions that it has added."""

    def __init__(self, world, coordinator, epoch, version=2, name="pay"):
        self.world, self.coordinator, self.version, self.name = world, coordinator, version, name
        self.pid, self.epoch = epoch.producer_id, epoch.epoch
        self.sequences = {}

    async def add(self, *partitions):
        request = AddToTransaction(self.pid, self.epoch, frozenset(partitions), self.version)
        return await self.coordinator.ask(self.name, request)

    async def send(self, topic, index=0):
        """Adds the partition and appends a batch to it."""
        assert await self.add((topic.name, index)) is ErrorCode.NONE
        partition = await self.world.partition(topic, index)
        sequence = self.sequences.get((topic.name, index), 0)
        batch = sequenced(self.pid, sequence, 1, self.epoch, attributes=TRANSACTIONAL_BIT)
        self.sequences[topic.name, index] = sequence + 1
        known = self.coordinator.find(self.name)
        permission = TransactionPermission(known.start_ms, self.version == 2)
        appended = partition.append_admitted(Admitted(batch, read_batch_header(batch), -1), permission)
        await appended.durable

    def ending(self, commits=True):
        return self.coordinator.ask(self.name, End(self.pid, self.epoch, commits, self.version))

    async def end(self, commits=True):
        answer = await self.ending(commits)
        if isinstance(answer, ProducerEpoch):
            self.pid, self.epoch = answer.producer_id, answer.epoch
            if self.version == 2:
                self.sequences.clear()
        return answer


async def coordinator_of(world, partition=0, **settings):
    topics = world.parts.topics
    if topics.by_name(STATES) is None:
        await world.topic(STATES, partitions=2, cleanup_policy="compact")

    async def topic():
        return topics.by_name(STATES)

    made = TransactionCoordinator(
        partition, 2, TransactionTopicLogs(topic, world.parts.partitions, world.clock),
        world.parts.markers, world.parts.producer_ids, world.clock, **settings,
    )  # fmt: skip
    made.start()
    while made.phase is Phase.LOADING:
        await settled()
    await settled()
    return made


async def started(world, version=2, **settings):
    coordinator = await coordinator_of(world, **settings)
    epoch = await coordinator.ask("pay", StartProducer(TIMEOUT_MS))
    return Producer(world, coordinator, epoch, version)


async def written(world):
    """States and epochs of the records in the log of the coordinator."""
    partition = await world.partition(world.parts.topics.by_name(STATES))
    found = []
    for batch in await partition.read(0, 10**6):
        for record in iterate_records(batch.payload):
            logged = decode_record((bytes(record.key), record.value and bytes(record.value))).logged
            found.append(None if logged is None else (logged.state.title, logged.producer_epoch))
    return found


async def markers_in(world, topic, index=0):
    partition = await world.partition(topic, index)
    batches = [batch.payload for batch in await partition.read(0, 10**6)]
    return [read_control_batch(each).outcome for each in batches if read_batch_header(each).is_control]


async def stable(world, topic, index=0):
    partition = await world.partition(topic, index)
    return partition.last_stable_offset, partition.high_watermark


@scenario(in_broker_world)
async def test_tx5_tx6_a_commit_over_three_partitions_is_one_turn(world) -> None:
    topic = await world.topic(partitions=3)
    producer = await started(world)
    for index in range(3):
        await producer.send(topic, index)
    assert await stable(world, topic) == (0, 1)
    world.calls.hold(WRITE)
    ending = asyncio.ensure_future(producer.end())
    await settled()
    assert not ending.done() and (await world.partition(topic, 2)).next_offset == 2
    world.calls.release(WRITE)
    assert await ending == ProducerEpoch(0, 1)
    assert await written(world) == [
        ("Empty", 0), *[("Ongoing", 0)] * 3, ("PrepareCommit", 1), ("CompleteCommit", 1),
    ]  # fmt: skip
    for index in range(3):
        assert await stable(world, topic, index) == (2, 2)
        assert await markers_in(world, topic, index) == [Outcome.COMMIT]
    await producer.send(topic)
    assert await producer.end(commits=False) == ProducerEpoch(0, 2)
    assert await markers_in(world, topic) == [Outcome.COMMIT, Outcome.ABORT]


@pytest.mark.parametrize("version", [0, 2])
@scenario(in_broker_world)
async def test_tx11_tx12_a_time_out_aborts_also_what_has_no_data(world, version) -> None:
    topic = await world.topic(partitions=2)
    producer = await started(world, version)
    await producer.send(topic)
    await producer.add((topic.name, 1))
    await world.pass_ms(TIMEOUT_MS + 1)
    await settled()
    (known,) = producer.coordinator.transactions()
    assert (known.state, known.producer_epoch) == (TransactionState.COMPLETE_ABORT, 1)
    assert [await markers_in(world, topic, index) for index in (0, 1)] == [[Outcome.ABORT]] * 2
    assert await producer.end() is (
        ErrorCode.INVALID_TXN_STATE if version == 2 else ErrorCode.PRODUCER_FENCED
    )


@scenario(in_broker_world)
async def test_tx15_a_second_instance_waits_for_the_abort_and_gets_its_epoch(world) -> None:
    topic = await world.topic()
    producer = await started(world)
    await producer.send(topic)
    assert await producer.coordinator.ask("pay", StartProducer(TIMEOUT_MS)) == ProducerEpoch(0, 2)
    assert await markers_in(world, topic) == [Outcome.ABORT]
    assert await producer.end() is ErrorCode.PRODUCER_FENCED


def refusing(coordinator, fails):
    """The log of the coordinator takes no append for which ``fails(state)``."""
    log = coordinator._log
    append = log.append

    def refuse(records):
        state = decode_record(records[0]).logged.state
        if fails(state):
            raise EngineOverloaded("full")
        return append(records)

    log.append = refuse


@scenario(in_broker_world)
async def test_tx25_tx26_while_the_log_takes_no_appends_nothing_changes(world) -> None:
    topic = await world.topic()
    producer = await started(world)
    await producer.send(topic)
    is_full = True
    refusing(producer.coordinator, lambda _: is_full)
    assert await producer.end() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for _ in range(10):
        answer = await producer.coordinator.ask("pay", StartProducer(TIMEOUT_MS))
        assert answer is ErrorCode.COORDINATOR_NOT_AVAILABLE
    (known,) = producer.coordinator.transactions()
    assert (known.state, known.producer_epoch) == (TransactionState.ONGOING, 0)
    is_full = False
    assert await producer.end() == ProducerEpoch(0, 1)
    assert await markers_in(world, topic) == [Outcome.COMMIT]


@scenario(in_broker_world)
async def test_tx25_with_room_for_no_more_than_the_prepared_record_it_is_complete_later(world) -> None:
    topic = await world.topic()
    producer = await started(world)
    await producer.send(topic)
    is_full = True
    refusing(producer.coordinator, lambda state: is_full and state is TransactionState.COMPLETE_COMMIT)
    assert await producer.end() == ProducerEpoch(0, 1)
    assert (await written(world))[-1] == ("PrepareCommit", 1)
    asked = asyncio.ensure_future(producer.add((topic.name, 0)))
    await settled()
    assert not asked.done(), "it waits for the transaction before"
    is_full = False
    await world.pass_ms(200)
    assert await asked is ErrorCode.NONE
    assert await markers_in(world, topic) == [Outcome.COMMIT]


@scenario(in_broker_world)
async def test_tx10_tx51_a_request_waits_for_a_second_and_no_longer(world) -> None:
    topic = await world.topic()
    producer = await started(world)
    await producer.send(topic)
    refusing(producer.coordinator, lambda state: state is TransactionState.COMPLETE_COMMIT)
    await producer.end()
    asked = asyncio.ensure_future(producer.coordinator.ask("pay", StartProducer(TIMEOUT_MS)))
    await settled()
    await world.pass_ms(900)
    assert not asked.done()
    await world.pass_ms(200)
    assert await asked is ASK_AGAIN


@scenario(in_broker_world)
async def test_tx28_a_deleted_topic_needs_no_marker(world) -> None:
    topic, other = await world.topic(), await world.topic("other")
    producer = await started(world)
    await producer.send(topic)
    assert await producer.add((other.name, 0)) is ErrorCode.NONE
    delete = world.parts.topics.by_name
    world.parts.topics.by_name = lambda name: None if name == "other" else delete(name)
    assert await producer.end() == ProducerEpoch(0, 1)
    assert (await written(world))[-1] == ("CompleteCommit", 1)
    assert await markers_in(world, topic) == [Outcome.COMMIT]


@scenario(in_broker_world)
async def test_tx29_tx30_an_id_that_is_forgotten_begins_with_another_producer(world) -> None:
    producer = await started(world)
    await producer.coordinator.expire(0)
    assert producer.coordinator.transactions() == []
    assert (await written(world))[-1] is None
    assert await producer.add(("t", 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await producer.end() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await producer.coordinator.ask("pay", StartProducer(TIMEOUT_MS)) == ProducerEpoch(2, 0)
    again = await coordinator_of(world)
    assert [each.producer_id for each in again.transactions()] == [2]


@pytest.mark.parametrize("missing", range(5))
def test_tx31_a_crash_within_a_commit_leaves_nothing_or_is_finished(missing):
    """Of [prepared record, three markers, complete record] the last ``missing`` did not become durable."""

    async def scenario(world):
        topic = await world.topic(partitions=3)
        producer = await started(world)
        for index in range(3):
            await producer.send(topic, index)
        appended, append = 0, world.parts.engine.append
        world.calls.hold(WRITE)

        def counted(*asked):
            nonlocal appended
            appended += 1
            if appended > 5 - missing:
                raise EngineOverloaded("the crash comes before this append")
            return append(*asked)

        world.parts.engine.append = counted
        ending = asyncio.ensure_future(producer.ending())
        await settled()
        world.parts.engine.append = append
        world.calls.release(WRITE)
        await settled()
        await world.crash()
        ending.cancel()
        again = await coordinator_of(world)
        await world.pass_ms(10_000)
        (known,) = again.transactions()
        assert known.state is TransactionState.COMPLETE_COMMIT
        for index in range(3):
            assert await stable(world, topic, index) == (2, 2)
            assert await markers_in(world, topic, index) == [Outcome.COMMIT]

    in_broker_world(scenario)


@scenario(in_broker_world)
async def test_tx31_a_commit_of_which_nothing_is_durable_times_out(world) -> None:
    topic = await world.topic()
    producer = await started(world)
    await producer.send(topic)
    world.calls.hold(WRITE)
    ending = asyncio.ensure_future(producer.ending())
    await settled()
    await world.crash()
    ending.cancel()
    again = await coordinator_of(world)
    assert await stable(world, topic) == (0, 1)
    await world.pass_ms(TIMEOUT_MS + 1)
    await settled()
    (known,) = again.transactions()
    assert known.state is TransactionState.COMPLETE_ABORT
    assert await markers_in(world, topic) == [Outcome.ABORT]


@pytest.mark.parametrize("commits_in_time", [True, False])
@scenario(in_broker_world)
async def test_tx32_an_open_transaction_has_the_rest_of_its_time_after_a_restart(
    world, commits_in_time
) -> None:
    topic = await world.topic()
    producer = await started(world)
    await producer.send(topic)
    await world.pass_ms(TIMEOUT_MS - 20_000)
    await world.restart()
    producer.coordinator = await coordinator_of(world)
    await world.pass_ms(19_000)
    if commits_in_time:
        assert await producer.end() == ProducerEpoch(0, 1)
    else:
        await world.pass_ms(1_001)
        await settled()
    outcome = Outcome.COMMIT if commits_in_time else Outcome.ABORT
    assert await markers_in(world, topic) == [outcome]


@scenario(in_broker_world)
async def test_a_long_log_is_written_again_and_trimmed(world) -> None:
    topic = await world.topic()
    producer = await started(world, checkpoint_records_min=20)
    other = await producer.coordinator.ask("other", StartProducer(TIMEOUT_MS))
    for _ in range(30):
        await producer.send(topic)
        assert isinstance(await producer.end(), ProducerEpoch)
    await producer.send(topic)
    await settled()
    partition = await world.partition(world.parts.topics.by_name(STATES))
    assert partition.next_offset - partition.log_start_offset < 40 < partition.log_start_offset
    await world.crash()
    again = await coordinator_of(world)
    found = {each.transactional_id: (each.state, each.producer_epoch) for each in again.transactions()}
    assert found == {
        "pay": (TransactionState.ONGOING, 30), "other": (TransactionState.EMPTY, other.epoch),
    }  # fmt: skip


@scenario(in_broker_world)
async def test_tx33_while_it_is_loaded_requests_ask_again_and_when_it_is_closed_elsewhere(world) -> None:
    await coordinator_of(world)
    made = TransactionCoordinator(0, 2, None, None, None, world.clock)
    assert await made.ask("pay", TimeOut(0)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await made.close()
    assert await made.ask("pay", TimeOut(0)) is ErrorCode.NOT_COORDINATOR
    loaded = await coordinator_of(world)
    assert await loaded.ask("pay", End(0, 0, True)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@scenario(in_broker_world)
async def test_tx42_when_ids_are_full_a_new_one_is_refused_and_a_known_one_goes_on(
    world, monkeypatch
) -> None:
    monkeypatch.setattr(module, "TRANSACTIONAL_IDS_MAX", 1)
    producer = await started(world)
    answer = await producer.coordinator.ask("other", StartProducer(TIMEOUT_MS))
    assert answer is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await producer.coordinator.ask("pay", StartProducer(TIMEOUT_MS)) == ProducerEpoch(0, 1)


@scenario(in_broker_world)
async def test_a_coordinator_whose_append_failed_reads_its_log_again(world) -> None:
    topic = await world.topic()
    producer = await started(world)
    await producer.send(topic)
    log, append = producer.coordinator._log, producer.coordinator._log.append

    def failing(records):
        append(records)
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(EngineOverloaded("unknown"))
        return failed

    log.append = failing
    assert await producer.coordinator.ask("pay", Expire(0)) is ErrorCode.NONE
    answer = await producer.end()
    assert answer is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await world.pass_ms(1_000)
    (known,) = producer.coordinator.transactions()
    assert known.state is TransactionState.COMPLETE_COMMIT
    assert await producer.end() == ProducerEpoch(0, 1), "the client repeats it"
    assert await markers_in(world, topic) == [Outcome.COMMIT]


@scenario(in_broker_world)
async def test_tx44_a_hundred_commits_take_two_writes_each_and_no_request_is_repeated(world) -> None:
    topic = await world.topic()
    producer = await started(world)
    await producer.send(topic)
    await producer.end()
    run, calls = world.calls.run, []

    async def counted(call, *args, **kwargs):
        if getattr(call, "__name__", "") == WRITE:
            calls.append(1)
        return await run(call, *args, **kwargs)

    world.calls.run = counted
    for _ in range(100):
        await producer.send(topic)
        assert isinstance(await producer.end(), ProducerEpoch)
    assert 0 < len(calls) <= 300  # the client that was asked, its batch, and the end
