"""The transactions of a partition: up to which offset all is decided, and which were aborted. Pure.

The *last stable offset* is the end for a client that reads committed records: below it every transaction has its
marker, and the marker is durable. It never goes back while the partition is open.

Whether a batch or a marker may be appended is asked here before it is; then it is recorded here, when the append is
called. The append becomes durable later, in the order of the calls: until then the last stable offset stays before it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto

import msgspec

from siltstone.broker.partitions.producer_state import ProducerState, StaleProducerEpoch
from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.kafka_protocol.batch_header import BatchHeader
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker, read_control_batch
from siltstone.model.buffers import Buffer
from siltstone.model.errors import Fenced, InvalidRequest, Unavailable
from siltstone.model.limits import ABORTED_BYTES_PER_PARTITION_MAX
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.object_formats.aborted_page import ENTRY_BYTES
from siltstone.object_formats.partition_snapshot import AbortedTransaction, ProducerEntry, SequencedBatch
from siltstone.offline.transactions import AbortedTransactions

NOT_YET = -1
NOT_KNOWN = -1


class TransactionOpen(InvalidRequest):
    """A batch outside of transactions came from a producer that has a transaction open in the partition."""


class NotInTransaction(InvalidRequest):
    """A transactional batch came for a partition that is not in the producer's transaction."""


class TooManyAborted(InvalidRequest):
    """A transaction would begin in a partition that has the most aborted transactions, or open ones that may end so.
    ``count``: how many there are."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(
            f"this partition has {count} aborted transactions, the most: none may begin here. They leave when "
            "retention, or kafka-delete-records, moves its start past their markers, not by compaction: let the topic "
            "also delete (cleanup.policy=compact,delete), or copy it to a new one"
        )


class MarkerOnItsWay(Unavailable):
    """A producer begins a transaction in a partition in which its last one has no marker yet."""


class CoordinatorFenced(Fenced):
    """Another node has become the coordinator of the transaction."""


class OtherTransaction(Unavailable):
    """A marker came for an earlier transaction than the one that the producer has open."""


class BatchVerdict(Enum):
    GOES_ON = auto()
    """The batch continues a transaction that is open here, or is of none."""
    BEGINS = auto()
    """It begins a transaction here: the coordinator has to know that first."""
    WAITS = auto()
    """The transaction before it has no marker yet, and the marker is on its way."""


class TransactionPermission(msgspec.Struct, frozen=True):
    """The coordinator has written down that the partition is in the producer's transaction, which has this ``number``.
    ``begins_at_0``: the producer is of transaction version 2, and begins each transaction with sequence 0.
    ``coordinator_epoch``: of the coordinator that has written it."""

    number: int = -1
    begins_at_0: bool = False
    coordinator_epoch: int = -1


class PermissionQuestion(msgspec.Struct, eq=False):
    """The coordinator is being asked for a permission. ``is_void``: a marker of the producer was appended meanwhile, so
    that the answer may be about the transaction that it has ended. ``coordinator_epoch``: the highest one that is known
    of the producer's transactions here; an answer of an older coordinator is not believed: it may have been paused, and
    have woken behind the end of what it remembers."""

    coordinator_epoch: int = -1
    is_void: bool = False


class TransactionEnding(msgspec.Struct, frozen=True):
    """A marker that a coordinator wants to have written. ``raises_epoch``: ``producer_epoch`` is higher than that of
    the batches of the transaction. ``number``: that of the transaction; None: a tool ends whatever is open."""

    producer_id: int
    producer_epoch: int
    marker: TransactionMarker
    raises_epoch: bool = False
    number: int | None = None


class MarkerVerdict(Enum):
    ENDS = auto()
    """The marker is appended, also where nothing is open: it fences a batch that is on its way."""
    IS_REPEATED = auto()
    """It is there already, and is not appended again."""
    IS_UNSURE = auto()
    """It may be for an earlier transaction of the same epoch: whose number the open one has is not known."""


class _Open(msgspec.Struct):
    """``marker_offset`` -1: the transaction has no marker yet."""

    producer_id: int
    marker_offset: int = NOT_YET


class PartitionTransactions:
    """``producers`` is kept as well by the calls of ``batch_appended`` and ``marker_appended``."""

    def __init__(
        self,
        producers: ProducerState,
        aborted: Iterable[AbortedTransaction] = (),
        aborted_bytes_max: int = ABORTED_BYTES_PER_PARTITION_MAX,
    ) -> None:
        self._producers = producers
        self._aborted_max = aborted_bytes_max // ENTRY_BYTES
        opened = sorted((entry for entry in producers.entries() if entry.is_open), key=_first_offset)
        self._open = {entry.open_from: _Open(entry.producer_id) for entry in opened}
        """By their first offsets, which ascend: a transaction begins at the end of the log."""
        self._aborted = AbortedTransactions(aborted, next(iter(self._open), None))
        self._told = 0
        self._questions: dict[int, set[PermissionQuestion]] = {}
        self._doubted: set[int] = set()
        """Producers with a transaction open where batches could not be read."""

    @property
    def aborted(self) -> AbortedTransactions:
        return self._aborted

    @property
    def aborted_bytes(self) -> int:
        """The size of the list in pages and snapshot."""
        return len(self._aborted) * ENTRY_BYTES

    def last_stable_offset(self, high_watermark: int, log_start_offset: int) -> int:
        """Returns the offset below which all is decided, and durable."""
        undecided = high_watermark
        while self._open:
            first_offset, one = next(iter(self._open.items()))
            if not NOT_YET < one.marker_offset < high_watermark:
                undecided = first_offset
                break
            del self._open[first_offset]
        stable = min(high_watermark, undecided)
        stable = max(stable, min(log_start_offset, high_watermark))
        assert stable >= self._told, f"the last stable offset goes back from {self._told} to {stable}"
        self._told = stable
        return stable

    # -- batches -----------------------------------------------------------------------------------------

    def find_repeated(self, header: BatchHeader) -> SequencedBatch | None:
        """Returns the batch that ``header`` repeats. An older epoch is refused first: a producer that is fenced must
        not take the refusal for one of its transaction (KAFKA-19690). Raises StaleProducerEpoch."""
        return self._producers.repetition_of(header)

    def judge(self, header: BatchHeader) -> BatchVerdict:
        """Judges a batch that repeats none. Raises TransactionOpen."""
        entry = self._producers.get(header.producer_id)
        is_open = entry is not None and entry.is_open
        if not header.is_transactional:
            if is_open:
                raise TransactionOpen(
                    f"producer {header.producer_id} has a transaction open in this partition: "
                    "end it before you send records outside of transactions"
                )
            return BatchVerdict.GOES_ON
        if entry is None or not is_open:
            return BatchVerdict.BEGINS
        return BatchVerdict.GOES_ON if entry.epoch == header.producer_epoch else BatchVerdict.WAITS

    def require_appendable(self, header: BatchHeader, permission: TransactionPermission | None) -> None:
        """Checks a batch that repeats none. Raises TransactionOpen, NotInTransaction, MarkerOnItsWay,
        TooManyAborted, OutOfOrderSequence."""
        verdict = self.judge(header)
        if verdict is BatchVerdict.WAITS:
            raise MarkerOnItsWay(
                f"the last transaction of producer {header.producer_id} has no marker in this partition yet: retry"
            )
        if verdict is BatchVerdict.BEGINS and permission is None:
            raise NotInTransaction(
                f"this partition is not in the transaction of producer {header.producer_id}: add it first"
            )
        if header.base_sequence >= 0:  # offsets in transactions, which the broker writes itself, have none
            count = len(self._aborted) + len(self._open)
            if verdict is BatchVerdict.BEGINS and count >= self._aborted_max:
                raise TooManyAborted(count)
            self._producers.require_next(header, permission is not None and permission.begins_at_0)

    def batch_appended(
        self,
        header: BatchHeader,
        base_offset: int,
        append_time_ms: int,
        now_ms: int,
        permission: TransactionPermission | None = None,
    ) -> None:
        """``permission``: for the first batch of a transaction; None in a log that is read."""
        number = NOT_KNOWN if permission is None else permission.number
        if self._producers.appended(header, base_offset, append_time_ms, now_ms, number):
            self._open[base_offset] = _Open(header.producer_id)
            if permission is not None:
                self._producers.coordinated(header.producer_id, permission.coordinator_epoch)

    @contextmanager
    def question(self, producer_id: int) -> Iterator[PermissionQuestion]:
        """Used while the coordinator is asked for a permission."""
        asked = PermissionQuestion(self.coordinator_epoch_of(producer_id))
        self._questions.setdefault(producer_id, set()).add(asked)
        try:
            yield asked
        finally:
            self._questions[producer_id].discard(asked)
            if not self._questions[producer_id]:
                del self._questions[producer_id]

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """Returns the highest epoch of a coordinator of the producer that is known here; -1 if none is."""
        entry = self._producers.get(producer_id)
        return NOT_KNOWN if entry is None else entry.coordinator_epoch

    # -- markers -----------------------------------------------------------------------------------------

    def judge_marker(self, ending: TransactionEnding) -> MarkerVerdict:
        """Raises CoordinatorFenced, StaleProducerEpoch, OtherTransaction."""
        entry = self._producers.get(ending.producer_id)
        if entry is None:
            return MarkerVerdict.ENDS
        epoch, coordinator_epoch = ending.producer_epoch, ending.marker.coordinator_epoch
        if coordinator_epoch < entry.coordinator_epoch:
            raise CoordinatorFenced(
                f"a marker of coordinator epoch {coordinator_epoch}; epoch {entry.coordinator_epoch} has written one"
            )
        if epoch < entry.epoch or (ending.raises_epoch and epoch == entry.epoch and entry.is_open):
            raise StaleProducerEpoch(
                f"producer {ending.producer_id} is at epoch {entry.epoch}, the marker has {epoch}"
            )
        if ending.raises_epoch:
            return MarkerVerdict.IS_REPEATED if epoch == entry.epoch else MarkerVerdict.ENDS
        if not entry.is_open:
            is_known = ending.number is not None and ending.number == entry.open_number
            return MarkerVerdict.IS_REPEATED if is_known and epoch == entry.epoch else MarkerVerdict.ENDS
        if ending.number is None or ending.number == entry.open_number:
            return MarkerVerdict.ENDS
        if entry.open_number == NOT_KNOWN:
            return MarkerVerdict.IS_UNSURE
        raise OtherTransaction(
            f"a marker for transaction {ending.number} of producer {ending.producer_id}, which has "
            f"{entry.open_number} open"
        )

    def number_is(self, producer_id: int, number: int, coordinator_epoch: int) -> None:
        """The coordinator was asked for the number of the transaction that the producer has open."""
        self._producers.numbered(producer_id, number)
        self._producers.coordinated(producer_id, coordinator_epoch)

    def marker_appended(self, ending: TransactionEnding, marker_offset: int, now_ms: int) -> None:
        producer_id, marker = ending.producer_id, ending.marker
        self._doubted.discard(producer_id)
        for asked in self._questions.get(producer_id, ()):
            asked.is_void = True
        first_offset = self._producers.marked(
            producer_id, ending.producer_epoch, marker.coordinator_epoch, now_ms,
            NOT_KNOWN if ending.number is None else ending.number,
        )  # fmt: skip
        if first_offset == NOT_YET:
            return
        self._open[first_offset].marker_offset = marker_offset
        if marker.outcome is Outcome.ABORT:
            undecided = (first for first, one in self._open.items() if one.marker_offset == NOT_YET)
            ended = AbortedTransaction(producer_id, first_offset, marker_offset)
            self._aborted.add(ended, next(undecided, marker_offset + 1))

    # -- lost markers ------------------------------------------------------------------------------------

    def in_doubt(self, silent_since_ms: int) -> list[ProducerEntry]:
        """Returns the producers with an open transaction whose marker may be lost: it may be where batches could not be
        read, or nothing was appended for the transaction since a time at which all that are under way began later."""
        opened = (one.producer_id for one in self._open.values() if one.marker_offset == NOT_YET)
        known = (entry for each in opened if (entry := self._producers.get(each)) is not None)
        return [each for each in known if each.producer_id in self._doubted or each.seen_ms < silent_since_ms]

    def is_under_way(self, producer_id: int) -> None:
        """The coordinator says that the transaction of the producer has no outcome yet, or that its marker is on its
        way."""
        self._doubted.discard(producer_id)

    # -- the log -----------------------------------------------------------------------------------------

    def damaged(self) -> None:
        """The next batches of the log cannot be read: the markers of all open transactions may be among them."""
        self._doubted.update(one.producer_id for one in self._open.values() if one.marker_offset == NOT_YET)

    def replay(self, payload: Buffer, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Records a batch that is in the log already. Batches that key compaction has emptied open and end nothing, nor
        do control batches that are no transaction marker."""
        if header.producer_id < 0:
            return
        if not header.is_control:
            append_time_ms = header.max_timestamp_ms if header.is_log_append_time else NO_TIMESTAMP
            self.batch_appended(header, base_offset, append_time_ms, now_ms)
        elif header.record_count:
            try:
                marker = read_control_batch(payload)
            except MalformedRecords:
                return
            ending = TransactionEnding(header.producer_id, header.producer_epoch, marker)
            self.marker_appended(ending, base_offset, now_ms)

    def trim(self, start_offset: int) -> None:
        """The start of the log has moved. A transaction whose first records were trimmed stays open."""
        self._aborted.trim(start_offset)


def _first_offset(entry: ProducerEntry) -> int:
    return entry.open_from
