"""The producers of a partition: the epoch and the last batches of each (KIP-98, KIP-185), and what it has open. Pure.

A batch is new, or repeats one of the producer's last five (then it is answered as the first time and not appended
again), or is refused:

    epoch older than known               StaleProducerEpoch
    newer epoch                          has to begin with sequence 0
    same epoch                           has to continue the sequence, modulo 2^31; after a transaction marker that
                                         raised the epoch it begins with 0
    producer unknown                     may have any sequence: its state expired, or the log was trimmed (KIP-360);
                                         an epoch below -1 is refused, as in Kafka

A producer that has a transaction open here is never forgotten before its marker: readers of committed records would get
what is not decided. ``transaction_state`` says up to which offset all is decided.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from siltstone.kafka_protocol.batch_header import NO_PRODUCER_EPOCH, BatchHeader
from siltstone.model.errors import Fenced, InvalidRequest
from siltstone.model.limits import PRODUCER_BATCHES_KEPT
from siltstone.object_formats.partition_snapshot import ProducerEntry, SequencedBatch

SEQUENCES = 2**31


class StaleProducerEpoch(Fenced):
    """A newer instance of the producer has taken over."""


class OutOfOrderSequence(InvalidRequest):
    """A batch before this one is missing."""


class ProducerState:
    """The producers of one partition, ``producers_max`` at most: the one that was idle for longest is forgotten
    first."""

    def __init__(self, producers_max: int, entries: Iterable[ProducerEntry] = ()) -> None:
        self._producers_max = producers_max
        self._entries = {entry.producer_id: entry for entry in entries}
        """The entries are in the order of ``seen_ms``."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def find_repeated(self, header: BatchHeader) -> SequencedBatch | None:
        """Returns the batch that ``header`` repeats. None if the batch is new and may be appended. Raises
        StaleProducerEpoch, OutOfOrderSequence."""
        repeated = self.repetition_of(header)
        if repeated is None:
            self.require_next(header)
        return repeated

    def repetition_of(self, header: BatchHeader) -> SequencedBatch | None:
        """Does the same, but does not ask whether a new batch continues the sequence. Raises StaleProducerEpoch."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            if header.producer_epoch < NO_PRODUCER_EPOCH:
                raise StaleProducerEpoch(
                    f"producer {header.producer_id} has epoch {header.producer_epoch}; epochs start at 0"
                )
            return None
        if header.producer_epoch < entry.epoch:
            raise StaleProducerEpoch(
                f"producer {header.producer_id} is at epoch {entry.epoch}, the batch has {header.producer_epoch}"
            )
        if header.producer_epoch > entry.epoch:
            return None
        for batch in entry.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None

    def require_next(self, header: BatchHeader, begins_at_0: bool = False) -> None:
        """Checks that a batch that repeats none continues the sequence of its producer. ``begins_at_0``: the producer
        is of transaction version 2, and so begins each transaction with sequence 0 of another epoch; if it is unknown
        here, a batch before this one is missing. Raises OutOfOrderSequence."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            if begins_at_0:
                _require_sequence(header, 0)
        elif header.producer_epoch > entry.epoch or not entry.batches:
            _require_sequence(header, 0)
        else:
            _require_sequence(header, (entry.batches[-1].last_sequence + 1) % SEQUENCES)

    def appended(
        self, header: BatchHeader, base_offset: int, append_time_ms: int, now_ms: int, number: int = -1
    ) -> bool:
        """Records that the batch was appended at ``base_offset``. Returns whether it is the first one of a transaction,
        which has this ``number`` at its coordinator. A batch of the broker itself has no sequence, and is not kept:
        none can repeat it."""
        batch = SequencedBatch(header.base_sequence, header.last_sequence, base_offset, append_time_ms)
        has_sequence = header.base_sequence >= 0
        entry = self._entries.pop(header.producer_id, None)
        batches: tuple[SequencedBatch, ...] = (batch,) if has_sequence else ()
        coordinator_epoch, open_from, open_number = -1, -1, -1
        if entry is not None:
            coordinator_epoch, open_from, open_number = (
                entry.coordinator_epoch,
                entry.open_from,
                entry.open_number,
            )
            if entry.epoch == header.producer_epoch and has_sequence:
                batches = (*entry.batches[1 - PRODUCER_BATCHES_KEPT :], batch)
        begins = header.is_transactional and header.record_count > 0 and open_from < 0
        if begins:
            open_from, open_number = base_offset, number
        self._entries[header.producer_id] = ProducerEntry(
            header.producer_id,
            header.producer_epoch,
            now_ms,
            batches,
            coordinator_epoch,
            open_from,
            open_number,
        )
        if len(self._entries) > self._producers_max:
            self._forget_one()
        return begins

    def marked(
        self, producer_id: int, epoch: int, coordinator_epoch: int, now_ms: int, number: int = -1
    ) -> int:
        """Records a transaction marker, of the transaction of this ``number`` if it is known. Returns the first offset
        of the transaction that it ends, -1 if none was open:
        a marker is also written where the producer has sent nothing."""
        entry = self._entries.pop(producer_id, None)
        batches = entry.batches if entry is not None and entry.epoch == epoch else ()
        self._entries[producer_id] = ProducerEntry(
            producer_id, epoch, now_ms, batches, coordinator_epoch, open_number=number
        )
        if len(self._entries) > self._producers_max:
            self._forget_one()
        return -1 if entry is None else entry.open_from

    def coordinated(self, producer_id: int, coordinator_epoch: int) -> None:
        """A coordinator of this epoch has told of the producer's transaction: an older one is not believed any more."""
        entry = self._entries.get(producer_id)
        if entry is not None and coordinator_epoch > entry.coordinator_epoch:
            self._entries[producer_id] = replace(entry, coordinator_epoch=coordinator_epoch)

    def numbered(self, producer_id: int, number: int) -> None:
        """The transaction that the producer has open has this number at its coordinator."""
        entry = self._entries.get(producer_id)
        if entry is not None and entry.is_open:
            self._entries[producer_id] = replace(entry, open_number=number)

    def expire(self, before_ms: int) -> None:
        """Forgets the producers that were last seen before ``before_ms`` and have no transaction open."""
        gone = []
        for producer_id, entry in self._entries.items():
            if entry.seen_ms >= before_ms:
                break
            if not entry.is_open:
                gone.append(producer_id)
        for producer_id in gone:
            del self._entries[producer_id]

    def _forget_one(self) -> None:
        idle = (producer_id for producer_id, entry in self._entries.items() if not entry.is_open)
        oldest = next(idle, None)
        if oldest is not None:
            del self._entries[oldest]

    def entries(self) -> Iterator[ProducerEntry]:
        """Yields all entries, the one idle for longest first."""
        return iter(self._entries.values())


def _require_sequence(header: BatchHeader, expected: int) -> None:
    if header.base_sequence != expected:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} epoch {header.producer_epoch}: sequence {header.base_sequence}, expected "
            f"{expected}; batches before it did not arrive"
        )
