"""The scenarios of the coordinator, decided from values alone."""

import msgspec
import pytest

from siltstone.broker.transactions.rules.deciding import decide, wants_producer_id
from siltstone.broker.transactions.rules.decision import MarkersToWrite, TransactionDecision, markers_of
from siltstone.broker.transactions.rules.requests import (
    AddToTransaction,
    Answer,
    End,
    Expire,
    MarkersWritten,
    ProducerEpoch,
    Request,
    StartProducer,
    TimeOut,
)
from siltstone.broker.transactions.rules.transaction import Transaction, new_transaction, transaction_of
from siltstone.broker.transactions.state_log.record import (
    LoggedTransaction,
    TransactionRecord,
    TransactionState,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.control import Outcome
from siltstone.model.serving_limits import TRANSACTION_PARTITIONS_MAX

PID = 7
A0, A1 = ("a", 0), ("a", 1)
TIMEOUT_MS = 60_000
ASK_AGAIN, INVALID, FENCED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
)


class OneId:
    """A transactional id whose decisions are taken at once, as a coordinator does. ``is_slow``: the markers stay on
    their way until ``markers_written``."""

    def __init__(self, epoch: int = 5, is_slow: bool = False, **fields: object) -> None:
        made = Transaction("pay", PID, epoch, TIMEOUT_MS, previous_producer_id=PID)
        self.transaction = msgspec.structs.replace(made, **fields)
        self.is_slow = is_slow
        self.now_ms = 1_000
        self.records: list[TransactionRecord] = []
        self.markers: list[MarkersToWrite] = []
        self._producer_ids = iter(range(70, 80))

    @property
    def state(self) -> TransactionState:
        return self.transaction.state

    @property
    def epoch(self) -> tuple[int, int]:
        return self.transaction.producer_id, self.transaction.producer_epoch

    def ask(self, request: Request) -> Answer:
        decision = self._decide(request)
        self.transaction = decision.transaction
        if decision.record is not None:
            self.records.append(decision.record)
        if decision.markers is not None:
            self.markers.append(decision.markers)
            if not self.is_slow:
                self.markers_written()
        return decision.answer

    def _decide(self, request: Request) -> TransactionDecision:
        fresh = (
            next(self._producer_ids) if wants_producer_id(self.transaction, request, self.now_ms) else None
        )
        return decide(self.transaction, request, self.now_ms, fresh)

    def markers_written(self) -> None:
        self.ask(MarkersWritten())

    def begin(self, client_version: int, *partitions: tuple[str, int]) -> Answer:
        return self.ask(AddToTransaction(*self.epoch, frozenset(partitions or {A0}), client_version))

    def end(
        self, commits: bool, client_version: int, epoch: int | None = None, pid: int | None = None
    ) -> Answer:
        known_pid, known_epoch = self.epoch
        return self.ask(
            End(
                known_pid if pid is None else pid,
                known_epoch if epoch is None else epoch,
                commits,
                client_version,
            )
        )

    def time_out(self) -> Answer:
        return self.ask(TimeOut(self.transaction.start_ms))

    def written(self) -> list[tuple[TransactionState, int]]:
        return [(one.logged.state, one.logged.producer_epoch) for one in self.records if one.logged]


def test_tx1_a_new_id_gets_epoch_0_and_a_record_without_a_start() -> None:
    decision = decide(new_transaction("pay", PID, TIMEOUT_MS), StartProducer(TIMEOUT_MS), 1_000)
    assert decision.answer == ProducerEpoch(PID, 0)
    assert decision.record == TransactionRecord(
        "pay",
        LoggedTransaction(
            PID, 0, TIMEOUT_MS, TransactionState.EMPTY, frozenset(), 1_000, -1, previous_producer_id=PID
        ),
    )


def test_tx2_a_second_instance_fences_the_first() -> None:
    one = OneId(epoch=0)
    assert one.ask(StartProducer(TIMEOUT_MS)) == ProducerEpoch(PID, 1)
    assert one.ask(AddToTransaction(PID, 0, frozenset({A0}))) is FENCED
    assert one.end(False, 2, epoch=0) is FENCED
    assert one.end(False, 0, epoch=0) is FENCED


def test_tx3_the_same_partitions_again_write_no_record() -> None:
    one = OneId()
    assert one.begin(0, A0, A1) is ErrorCode.NONE
    assert one.state is TransactionState.ONGOING and len(one.records) == 1
    assert one.records[0].logged is not None
    assert one.records[0].logged.partitions == {A0, A1}
    assert one.begin(0, A1) is ErrorCode.NONE
    assert len(one.records) == 1
    one.begin(0, ("b", 0))
    assert len(one.records) == 2


def test_tx5_a_client_of_version_0_keeps_its_epoch() -> None:
    one = OneId()
    one.begin(0, A0)
    assert one.end(True, 0) == ProducerEpoch(PID, 5)
    (marker,) = one.markers
    assert (marker.outcome, marker.producer_epoch, marker.raises_epoch) == (Outcome.COMMIT, 5, False)
    assert marker.partitions == {A0}
    assert one.written()[-2:] == [(TransactionState.PREPARE_COMMIT, 5), (TransactionState.COMPLETE_COMMIT, 5)]
    assert one.end(True, 0) == ProducerEpoch(PID, 5)
    assert one.end(False, 0) is INVALID
    assert len(one.records) == 3


def test_tx6_a_client_of_version_2_gets_the_next_epoch() -> None:
    one = OneId()
    one.begin(2, A0)
    assert one.end(True, 2) == ProducerEpoch(PID, 6)
    (marker,) = one.markers
    assert (marker.producer_epoch, marker.raises_epoch) == (6, True)
    assert one.written()[-2:] == [(TransactionState.PREPARE_COMMIT, 6), (TransactionState.COMPLETE_COMMIT, 6)]
    assert one.end(True, 2, epoch=5) == ProducerEpoch(PID, 6)
    assert one.end(False, 2, epoch=5) is INVALID
    assert len(one.records) == 3


def test_tx7_after_a_commit_nothing_is_left_to_commit() -> None:
    one = OneId()
    one.begin(2, A0)
    one.end(True, 2)
    assert one.end(True, 2, epoch=6) is INVALID
    assert one.end(False, 2, epoch=6) == ProducerEpoch(PID, 7)
    assert one.state is TransactionState.COMPLETE_ABORT
    assert one.markers[-1].partitions == frozenset()


def test_tx8_an_abort_before_the_first_partition() -> None:
    assert OneId(epoch=0).end(False, 0) is INVALID
    one = OneId(epoch=0)
    assert one.end(False, 2) == ProducerEpoch(PID, 1)
    assert one.state is TransactionState.COMPLETE_ABORT and one.transaction.start_ms == 1_000
    assert OneId(epoch=0).end(True, 2) is INVALID


def test_tx9_the_epoch_before_ends_nothing_in_an_id_without_transactions() -> None:
    assert OneId(epoch=1).end(False, 2, epoch=0) is FENCED


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commits", [True, False])
def test_tx10_while_markers_are_written_requests_ask_again(version: int, commits: bool) -> None:
    one = OneId(is_slow=True)
    one.begin(version, A0)
    one.end(commits, version)
    epoch = 5  # the client repeats what it sent
    assert one.end(commits, version, epoch) is ASK_AGAIN
    assert one.end(not commits, version, epoch) is INVALID
    assert one.begin(version, A1) is ASK_AGAIN
    assert one.ask(StartProducer(TIMEOUT_MS)) is ASK_AGAIN
    one.markers_written()
    assert one.begin(version, A1) is ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 2])
def test_tx11_a_time_out_aborts_and_fences_whatever_the_client_speaks(version: int) -> None:
    one = OneId()
    one.begin(version, A0)
    one.time_out()
    assert (one.state, one.epoch) == (TransactionState.COMPLETE_ABORT, (PID, 6))
    assert (one.markers[0].outcome, one.markers[0].producer_epoch) == (Outcome.ABORT, 6)
    assert one.end(True, 2, epoch=5) is INVALID
    assert one.end(True, 0, epoch=5) is FENCED
    assert one.end(False, 2, epoch=5) == ProducerEpoch(PID, 6)
    assert one.begin(version, A0) is ErrorCode.NONE


def test_tx11_a_timer_of_an_earlier_transaction_aborts_nothing() -> None:
    one = OneId()
    one.begin(0, A0)
    start_ms = one.transaction.start_ms
    one.end(True, 0)
    one.begin(0, A0)
    assert one.ask(TimeOut(start_ms)) is ErrorCode.NONE
    assert one.state is TransactionState.ONGOING


def test_tx14_what_no_client_may_send_is_in_test_requests_and_a_wrong_producer_id_here() -> None:
    one = OneId()
    assert one.ask(StartProducer(TIMEOUT_MS, 8, 5)) is FENCED
    assert one.ask(AddToTransaction(8, 5, frozenset({A0}))) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for version in (0, 2):
        assert one.end(True, version, pid=8) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_tx15_a_second_instance_aborts_what_the_first_has_open() -> None:
    one = OneId(epoch=3)
    one.begin(2, A0)
    assert one.ask(StartProducer(TIMEOUT_MS)) is ASK_AGAIN
    assert one.markers[0].producer_epoch == 4
    assert one.ask(StartProducer(TIMEOUT_MS)) == ProducerEpoch(PID, 5)
    for version in (0, 2):
        assert one.end(True, version, epoch=3) is FENCED


def test_tx16_a_repeated_recovery_gets_the_same_epoch() -> None:
    one = OneId(epoch=4)
    assert one.ask(StartProducer(TIMEOUT_MS, PID, 4)) == ProducerEpoch(PID, 5)
    assert one.ask(StartProducer(TIMEOUT_MS, PID, 4)) == ProducerEpoch(PID, 5)
    one.ask(StartProducer(TIMEOUT_MS))
    assert one.ask(StartProducer(TIMEOUT_MS, PID, 4)) is FENCED
    assert one.ask(StartProducer(TIMEOUT_MS, PID, 5)) is FENCED


def test_tx18_an_epoch_that_is_fenced_gets_no_other() -> None:
    one = OneId(epoch=6)
    assert one.ask(StartProducer(TIMEOUT_MS, PID, 2)) is FENCED
    assert one.epoch == (PID, 6) and one.records == []


def test_tx19_an_id_that_the_coordinator_has_forgotten_takes_any_producer() -> None:
    decision = decide(new_transaction("pay", PID, TIMEOUT_MS), StartProducer(TIMEOUT_MS, 3, 3), 1_000)
    assert decision.answer == ProducerEpoch(PID, 0)


def test_tx20_the_last_epoch_of_a_producer_id_ends_with_another_producer_id() -> None:
    one = OneId(epoch=32_766, is_slow=True)
    one.begin(2, A0)
    assert one.end(True, 2) == ProducerEpoch(70, 0)
    prepared = one.records[-1].logged
    assert prepared is not None
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (PID, 32_767, 70)
    assert (one.markers[0].producer_id, one.markers[0].producer_epoch) == (PID, 32_767)
    # The client goes on before the markers are written.
    assert one.ask(AddToTransaction(70, 0, frozenset({A0}), 2)) is ASK_AGAIN
    assert one.end(True, 2, epoch=0, pid=70) is ASK_AGAIN
    assert one.ask(StartProducer(TIMEOUT_MS, 70, 0)) is ASK_AGAIN
    one.markers_written()
    complete = one.records[-1].logged
    assert complete is not None
    assert (complete.producer_id, complete.producer_epoch, complete.previous_producer_id) == (70, 0, PID)
    assert complete.next_producer_id == -1
    assert one.end(True, 2, epoch=32_766, pid=PID) == ProducerEpoch(70, 0)
    assert one.ask(AddToTransaction(70, 0, frozenset({A0}), 2)) is ErrorCode.NONE


def test_tx22_a_time_out_at_the_last_epoch_gives_another_producer_id() -> None:
    one = OneId(epoch=32_766)
    one.begin(0, A0)
    one.time_out()
    assert one.epoch == (70, 0)
    assert one.end(False, 2, epoch=32_766, pid=PID) == ProducerEpoch(70, 0)
    assert one.end(True, 2, epoch=32_766, pid=PID) is INVALID


@pytest.mark.parametrize("named", [StartProducer(TIMEOUT_MS), StartProducer(TIMEOUT_MS, PID, 32_766)])
def test_tx23_initialize_at_the_last_epoch_gives_another_producer_id(named: StartProducer) -> None:
    one = OneId(epoch=32_766)
    assert one.ask(named) == ProducerEpoch(70, 0)
    again = one.ask(StartProducer(TIMEOUT_MS, PID, 32_766))
    assert again == (ProducerEpoch(70, 0) if named.producer_id == PID else FENCED)


def test_tx23_a_client_of_version_0_commits_with_the_last_epoch() -> None:
    one = OneId(epoch=32_766)
    one.begin(0, A0)
    assert one.end(True, 0) == ProducerEpoch(PID, 32_766)
    assert one.markers[0].producer_epoch == 32_766


def test_tx26_a_fence_that_cannot_be_written_burns_no_epoch() -> None:
    """Its decision is dropped."""
    one = OneId()
    one.begin(2, A0)
    dropped = {decide(one.transaction, StartProducer(TIMEOUT_MS), 2_000).transaction for _ in range(10)}
    assert {transaction.producer_epoch for transaction in dropped} == {6}
    assert one.epoch == (PID, 5)


def test_tx29_an_id_at_rest_for_long_is_forgotten() -> None:
    one = OneId()
    one.begin(0, A0)
    assert one.ask(Expire(0)) is ErrorCode.NONE and one.state is TransactionState.ONGOING
    one.end(True, 0)
    one.now_ms += 99
    assert one.ask(Expire(100)) is ErrorCode.NONE and one.state is TransactionState.COMPLETE_COMMIT
    one.now_ms += 1
    one.ask(Expire(100))
    assert one.state is TransactionState.DEAD
    assert one.records[-1] == TransactionRecord("pay", None)


def test_the_number_of_a_transaction_rises_although_the_clock_does_not() -> None:
    """A client of version 0 uses one epoch for many transactions; a clock may go back."""
    one = OneId()
    numbers = []
    for now_ms in (1_000, 1_000, 500, 2_000):
        one.now_ms = now_ms
        one.begin(0, A0)
        one.end(True, 0)
        numbers.append(one.markers[-1].start_ms)
    assert numbers == [1_000, 1_001, 1_002, 2_000]


def test_partitions_of_the_transaction_before_are_not_in_the_next() -> None:
    one = OneId()
    one.begin(2, A0)
    one.end(True, 2)
    one.begin(2, A1)
    one.end(True, 2)
    assert [marker.partitions for marker in one.markers] == [{A0}, {A1}]


def test_initialize_takes_the_new_timeout() -> None:
    one = OneId()
    one.ask(StartProducer(1))
    assert one.transaction.timeout_ms == 1


def test_a_transaction_has_so_many_partitions_at_most() -> None:
    one = OneId()
    many = frozenset(("a", index) for index in range(TRANSACTION_PARTITIONS_MAX))
    assert one.ask(AddToTransaction(*one.epoch, many)) is ErrorCode.NONE
    assert one.begin(0, ("b", 0)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.begin(0, A0) is ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 2])
def test_tx31_a_prepared_transaction_has_the_same_markers_after_a_load(version: int) -> None:
    one = OneId(is_slow=True)
    one.begin(2, A0)  # the version of the end counts
    one.end(True, version)
    logged = one.records[-1].logged
    assert logged is not None and logged.client_version == version
    assert markers_of(transaction_of("pay", logged)) == one.markers[0]
