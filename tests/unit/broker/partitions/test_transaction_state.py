"""What is decided in a partition: batches and markers are recorded as a partition appends them, offset by offset."""

import random

import pytest

from siltstone.broker.partitions.producer_state import OutOfOrderSequence, ProducerState, StaleProducerEpoch
from siltstone.broker.partitions.transaction_state import (
    BatchVerdict,
    CoordinatorFenced,
    MarkerOnItsWay,
    MarkerVerdict,
    NotInTransaction,
    OtherTransaction,
    PartitionTransactions,
    TooManyAborted,
    TransactionEnding,
    TransactionOpen,
    TransactionPermission,
)
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT, read_batch_header
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker, build_control_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.object_formats.aborted_page import ENTRY_BYTES
from siltstone.object_formats.partition_snapshot import AbortedTransaction, ProducerEntry
from support.kafka.kafka_batches import encode_batch
from support.kafka.kafka_requests import sequenced

PID, OTHER = 9, 10
COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT


def ending(outcome=COMMIT, epoch=5, pid=PID, coordinator_epoch=1, raises_epoch=False, number=None):
    return TransactionEnding(pid, epoch, TransactionMarker(outcome, coordinator_epoch), raises_epoch, number)


class StepLog:
    """A partition whose appends are durable at once, unless ``high_watermark`` is held back."""

    def __init__(self, producers_max=100):
        self.state = ProducerState(producers_max)
        self.transactions = PartitionTransactions(self.state)
        self.next_offset = 0
        self.high_watermark = None
        self.log_start = 0
        self.sequences: dict[tuple[int, int], int] = {}

    @property
    def stable(self):
        held = self.high_watermark
        return self.transactions.last_stable_offset(
            self.next_offset if held is None else held, self.log_start
        )

    def header(self, count=1, epoch=5, pid=PID, sequence=None, transactional=True):
        if sequence is None:
            sequence = self.sequences.get((pid, epoch), 0)
        attributes = TRANSACTIONAL_BIT if transactional else 0
        return read_batch_header(sequenced(pid, sequence, count, epoch, attributes=attributes))

    def append(self, count=1, number=-1, permission=True, **fields):
        head = self.header(count, **fields)
        assert self.transactions.find_repeated(head) is None
        permitted = TransactionPermission(number) if permission else None
        self.transactions.require_appendable(head, permitted)
        self.transactions.batch_appended(head, self.next_offset, -1, 0, TransactionPermission(number))
        self.sequences[head.producer_id, head.producer_epoch] = head.last_sequence + 1
        self.next_offset += count
        return self.next_offset - count

    def plain(self, count=1):
        self.next_offset += count

    def end(self, outcome=COMMIT, **fields):
        end = ending(outcome, **fields)
        verdict = self.transactions.judge_marker(end)
        if verdict is not MarkerVerdict.IS_REPEATED:
            self.transactions.marker_appended(end, self.next_offset, 0)
            self.next_offset += 1
        return verdict

    @property
    def aborted(self):
        return [*self.transactions.aborted]


def opened_at_10():
    log = StepLog()
    log.plain(10)
    log.append()
    log.plain(10)
    return log


# -- the last stable offset ---------------------------------------------------------------------------------


def test_tp1_committed_aborted_and_plain_records():
    log = StepLog()
    log.append(3)
    log.end()
    log.append(2)
    log.end(ABORT)
    log.plain()
    assert log.stable == log.next_offset == 8
    assert log.aborted == [AbortedTransaction(PID, 4, 6)]


def test_tp2_an_open_transaction_holds_the_last_stable_offset():
    log = opened_at_10()
    assert (log.stable, log.next_offset) == (10, 21)
    log.append()
    assert log.stable == 10
    log.end()
    assert log.stable == log.next_offset


def test_tp6_of_two_open_transactions_the_first_one_holds_it():
    log = opened_at_10()
    log.append(pid=OTHER)
    log.end()
    assert log.stable == 21
    log.end(pid=OTHER)
    assert log.stable == log.next_offset


def test_tp6_a_later_one_that_ends_first_changes_nothing():
    log = opened_at_10()
    log.append(pid=OTHER)
    log.end(ABORT, pid=OTHER)
    assert log.stable == 10
    log.end()
    assert log.stable == log.next_offset


def test_tp7_a_marker_counts_when_it_is_durable():
    log = opened_at_10()
    log.high_watermark = log.next_offset
    log.end(ABORT)
    assert log.stable == 10
    log.high_watermark = log.next_offset
    assert log.stable == log.next_offset


def test_records_that_are_not_durable_are_not_decided():
    log = StepLog()
    log.high_watermark = 0
    log.append()
    log.end()
    assert log.stable == 0


def test_the_start_of_the_log_may_pass_an_open_transaction():
    log = opened_at_10()
    log.log_start = 15
    assert log.stable == 15
    assert log.state.get(PID).is_open
    log.end()
    assert log.stable == log.next_offset


# -- batches ------------------------------------------------------------------------------------------------


def test_tp9_a_batch_begins_a_transaction_only_with_a_permission():
    log = StepLog()
    assert log.transactions.judge(log.header()) is BatchVerdict.BEGINS
    with pytest.raises(NotInTransaction):
        log.append(permission=False)
    log.append()
    assert log.transactions.judge(log.header()) is BatchVerdict.GOES_ON
    log.append(permission=False)


def test_tp10_tp43_an_older_epoch_is_refused_before_anything_else():
    log = StepLog()
    log.append()
    log.end(ABORT, epoch=6, raises_epoch=True)
    with pytest.raises(StaleProducerEpoch):
        log.append(permission=False)
    assert log.stable == log.next_offset == 2


def test_tp12_a_new_epoch_begins_with_sequence_0():
    log = StepLog()
    log.append()
    log.end(epoch=6, raises_epoch=True)
    with pytest.raises(OutOfOrderSequence):
        log.append(epoch=7, sequence=5)
    unknown = StepLog()
    with pytest.raises(OutOfOrderSequence):
        unknown.transactions.require_appendable(
            unknown.header(sequence=5), TransactionPermission(begins_at_0=True)
        )
    unknown.append(sequence=5)  # transaction version 0: its state may have expired


def test_tp13_after_a_marker_that_raised_the_epoch_sequences_begin_again():
    log = StepLog()
    log.append(4)
    log.end(epoch=6, raises_epoch=True)
    with pytest.raises(OutOfOrderSequence):
        log.append(epoch=6, sequence=3)
    log.append(epoch=6, sequence=0)
    assert log.stable == 5


def test_after_a_marker_of_the_same_epoch_they_go_on():
    log = StepLog()
    log.append(4)
    log.end()
    log.append(sequence=4)
    repeated = log.transactions.find_repeated(log.header(4, sequence=0))
    assert repeated is not None and repeated.base_offset == 0


def test_tp14_a_batch_outside_of_transactions_of_a_producer_that_has_one_open():
    log = StepLog()
    log.append()
    with pytest.raises(TransactionOpen):
        log.append(transactional=False)
    log.end()
    log.append(transactional=False)
    assert log.stable == log.next_offset


def test_tp15_a_repeated_batch_has_its_first_offset_and_opens_nothing():
    log = StepLog()
    log.append(3)
    log.end()
    repeated = log.transactions.find_repeated(log.header(3, sequence=0))
    assert repeated is not None and repeated.base_offset == 0
    assert log.stable == log.next_offset


def test_tp41_a_batch_of_the_next_epoch_waits_for_the_marker_before_it():
    log = StepLog()
    log.append()
    assert log.transactions.judge(log.header(epoch=6)) is BatchVerdict.WAITS
    with pytest.raises(MarkerOnItsWay):
        log.append(epoch=6)
    log.end(epoch=6, raises_epoch=True)
    assert log.append(epoch=6) == 2


# -- markers ------------------------------------------------------------------------------------------------


def test_tp16_tp40_a_repeated_marker_writes_nothing_and_ends_nothing_later():
    log = StepLog()
    log.append()
    assert log.end(epoch=6, raises_epoch=True) is MarkerVerdict.ENDS
    assert log.end(epoch=6, raises_epoch=True) is MarkerVerdict.IS_REPEATED
    assert log.next_offset == 2
    log.append(epoch=6)
    with pytest.raises(StaleProducerEpoch):
        log.end(epoch=6, raises_epoch=True)
    assert log.stable == 2


def test_tp17_a_marker_of_a_lower_epoch_is_refused():
    log = StepLog()
    log.append()
    with pytest.raises(StaleProducerEpoch):
        log.end(epoch=4)


@pytest.mark.parametrize("raises_epoch", [True, False])
def test_tp18_a_marker_without_data_stands_and_is_no_aborted_transaction(raises_epoch):
    log = StepLog()
    log.end(ABORT, epoch=6, raises_epoch=raises_epoch)
    assert (log.next_offset, log.aborted, log.stable) == (1, [], 1)
    if raises_epoch:
        with pytest.raises(StaleProducerEpoch):
            log.append(epoch=5)


def test_tp30_the_marker_leaves_the_epoch_of_its_coordinator():
    log = opened_at_10()
    assert (log.state.get(PID).open_from, log.state.get(PID).coordinator_epoch) == (10, -1)
    log.end(coordinator_epoch=7)
    assert (log.state.get(PID).open_from, log.state.get(PID).coordinator_epoch) == (-1, 7)


def test_a_marker_of_an_older_coordinator_is_refused():
    log = StepLog()
    log.append()
    log.end(coordinator_epoch=7)
    log.append()
    with pytest.raises(CoordinatorFenced):
        log.end(coordinator_epoch=6)
    assert log.end(coordinator_epoch=7) is MarkerVerdict.ENDS


def test_tp39_a_late_marker_of_the_same_epoch_is_told_by_its_number():
    log = StepLog()
    log.append(number=100)
    log.end(number=100)
    log.append(number=101)
    with pytest.raises(OtherTransaction):
        log.end(number=100)
    assert log.stable == 2
    assert log.end(number=101) is MarkerVerdict.ENDS


def test_a_number_that_is_not_known_has_to_be_asked_for_and_a_tool_has_none():
    log = StepLog()
    log.append()
    assert log.transactions.judge_marker(ending(number=100)) is MarkerVerdict.IS_UNSURE
    assert log.transactions.judge_marker(ending(number=None)) is MarkerVerdict.ENDS


# -- producers that are forgotten ---------------------------------------------------------------------------


def test_tp22_another_producer_than_one_with_an_open_transaction_is_forgotten():
    log = StepLog(producers_max=2)
    log.append(pid=1)
    log.append(pid=2, transactional=False)
    log.append(pid=3, transactional=False)
    assert [entry.producer_id for entry in log.state.entries()] == [1, 3]
    log.append(pid=3)
    log.append(pid=4)
    assert [entry.producer_id for entry in log.state.entries()] == [1, 3, 4]
    log.end(pid=1)
    log.append(pid=5, transactional=False)
    assert 1 not in [entry.producer_id for entry in log.state.entries()]


def test_tp23_an_open_transaction_does_not_expire():
    log = StepLog()
    log.append()
    log.append(pid=OTHER, transactional=False)
    log.state.expire(1)
    assert [entry.producer_id for entry in log.state.entries()] == [PID]
    assert log.stable == 0
    log.end()
    log.state.expire(1)
    assert len(log.state) == 0


# -- what is written down, and read again -------------------------------------------------------------------


def test_tp19_what_was_written_down_is_known_again():
    log = opened_at_10()
    log.append(pid=OTHER)
    log.end(ABORT, pid=OTHER)
    again = StepLog()
    again.state = ProducerState(100, log.state.entries())
    again.transactions = PartitionTransactions(again.state, log.aborted)
    again.next_offset = log.next_offset
    assert again.stable == log.stable == 10
    assert again.aborted == log.aborted == [AbortedTransaction(OTHER, 21, 22)]
    again.end(ABORT)
    assert again.stable == again.next_offset
    assert again.aborted[-1] == AbortedTransaction(PID, 10, 23)


def test_tp24_no_transaction_begins_in_a_partition_that_has_the_most_aborted_ones():
    log = StepLog()
    log.transactions = PartitionTransactions(log.state, aborted_bytes_max=3 * ENTRY_BYTES)
    for _ in range(2):
        log.append()
        log.end(ABORT)
        assert log.stable == log.next_offset
    log.append()  # it may be aborted, too
    with pytest.raises(TooManyAborted) as refused:
        log.append(pid=OTHER)
    assert refused.value.count == 3
    log.append()
    log.end(ABORT)
    assert log.stable == log.next_offset
    assert log.transactions.aborted_bytes == 3 * ENTRY_BYTES
    with pytest.raises(TooManyAborted):
        log.append()
    log.append(sequence=0, pid=OTHER, transactional=False)
    log.transactions.trim(log.aborted[0].marker_offset + 1)
    log.append()
    assert log.transactions.aborted_bytes == 2 * ENTRY_BYTES


def test_tp24_committed_transactions_count_no_longer_than_they_are_open():
    log = StepLog()
    log.transactions = PartitionTransactions(log.state, aborted_bytes_max=ENTRY_BYTES)
    for _ in range(3):
        log.append()
        log.end()
        assert log.stable == log.next_offset


def test_tp24_offsets_in_transactions_are_never_refused_for_it():
    """The broker writes them, and takes their partitions' aborted transactions away with each checkpoint."""
    log = StepLog()
    log.transactions = PartitionTransactions(log.state, aborted_bytes_max=0)
    log.append(sequence=-1)
    with pytest.raises(TooManyAborted):
        log.append(sequence=0, pid=OTHER)


def replayed(*batches):
    transactions = PartitionTransactions(ProducerState(100))
    offset = 0
    for batch in batches:
        header = read_batch_header(batch)
        transactions.replay(batch, header, offset, 0)
        offset += header.last_offset_delta + 1
    return transactions, offset


def transactional(pid=PID, sequence=0, count=1, epoch=5):
    return sequenced(pid, sequence, count, epoch, attributes=TRANSACTIONAL_BIT)


def control(outcome=COMMIT, pid=PID, epoch=5):
    return build_control_batch(
        TransactionMarker(outcome, 3), producer_id=pid, producer_epoch=epoch, timestamp_ms=0
    )


def test_batches_and_markers_are_read_from_the_log():
    transactions, end = replayed(transactional(), transactional(OTHER), control(ABORT), sequenced(11, 0))
    assert transactions.last_stable_offset(end, 0) == 1
    assert [*transactions.aborted] == [AbortedTransaction(PID, 0, 2)]


def test_tp28_batches_that_key_compaction_has_emptied_open_and_end_nothing():
    emptied = bytearray(encode_batch(read_batch_header(transactional()), []))
    transactions, end = replayed(emptied, sequenced(11, 0))
    assert transactions.last_stable_offset(end, 0) == end
    no_marker = bytearray(encode_batch(read_batch_header(control()), []))
    transactions, end = replayed(transactional(), no_marker)
    assert transactions.last_stable_offset(end, 0) == 0


def test_a_control_batch_that_is_no_marker_changes_nothing():
    other = build_batch(
        [Record(key=b"\0\0\0\2", value=bytes(6))], producer_id=PID, producer_epoch=5, attributes=0x30
    )
    transactions, end = replayed(transactional(), other)
    assert transactions.last_stable_offset(end, 0) == 0


@pytest.mark.parametrize("seed", range(30))
def test_the_last_stable_offset_is_that_of_a_plain_walk_and_never_goes_back(seed):
    rng = random.Random(seed)
    log = StepLog()
    log.high_watermark = 0
    history: list[tuple[str, int, int]] = []  # what, producer, offset
    for _ in range(200):
        pid = rng.randrange(3)
        entry = log.state.get(pid)
        if rng.random() < 0.6:
            history.append(("data", pid, log.next_offset))
            log.append(pid=pid)
        elif entry is not None and entry.is_open:
            history.append(("marker", pid, log.next_offset))
            log.end(rng.choice([COMMIT, ABORT]), pid=pid)
        if rng.random() < 0.5:
            log.high_watermark = rng.randrange(log.high_watermark, log.next_offset + 1)
        told = log.stable
        first_open: dict[int, int] = {}
        for what, producer, offset in history:
            if what == "data":
                first_open.setdefault(producer, offset)
            elif offset < log.high_watermark:
                first_open.pop(producer, None)
            else:
                break
        assert told == min([log.high_watermark, *(first for first in first_open.values())])


def test_an_entry_of_a_snapshot_without_transactions_has_none():
    entry = ProducerEntry(PID, 5, 0, ())
    assert not entry.is_open and entry.coordinator_epoch == -1
