"""The idempotent producers of a partition: the epoch and the last batches of each (KIP-98, KIP-185). Pure.

A batch is new, or repeats one of the producer's last five (then it is answered as the first time and not appended
again), or is refused:

    epoch older than known               StaleProducerEpoch
    newer epoch                          has to begin with sequence 0
    same epoch                           has to continue the sequence, modulo 2^31
    producer unknown                     may have any sequence: its state expired, or the log was trimmed (KIP-360);
                                         an epoch below -1 is refused, as in Kafka
"""

from collections.abc import Iterable, Iterator

import msgspec

from siltstone.kafka_protocol.batch_header import NO_PRODUCER_EPOCH, BatchHeader
from siltstone.model.errors import Fenced, InvalidRequest
from siltstone.model.limits import PRODUCER_BATCHES_KEPT

SEQUENCES = 2**31


class StaleProducerEpoch(Fenced):
    """A newer instance of the producer has taken over."""


class OutOfOrderSequence(InvalidRequest):
    """A batch before this one is missing."""


class SequencedBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``append_time_ms`` is -1 unless the topic has LogAppendTime."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    append_time_ms: int


class ProducerEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``batches`` are the last ones of ``epoch``, oldest first. ``seen_ms`` is when the last of them was appended."""

    producer_id: int
    epoch: int
    seen_ms: int
    batches: tuple[SequencedBatch, ...]


class ProducerState:
    """The producers of one partition, ``producers_max`` at most: the one that was idle for longest is forgotten
    first."""

    def __init__(self, producers_max: int, entries: Iterable[ProducerEntry] = ()) -> None:
        self._producers_max = producers_max
        self._entries = {entry.producer_id: entry for entry in entries}
        """The entries are in the order of ``seen_ms``."""

    def __len__(self) -> int:
        return len(self._entries)

    def find_repeated(self, header: BatchHeader) -> SequencedBatch | None:
        """Returns the batch that ``header`` repeats. None if the batch is new and may be appended. Raises
        StaleProducerEpoch, OutOfOrderSequence."""
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
            _require_sequence(header, 0)
            return None
        for batch in entry.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        if entry.batches:
            _require_sequence(header, (entry.batches[-1].last_sequence + 1) % SEQUENCES)
        return None

    def appended(self, header: BatchHeader, base_offset: int, append_time_ms: int, now_ms: int) -> None:
        """Records that the batch was appended at ``base_offset``."""
        batch = SequencedBatch(header.base_sequence, header.last_sequence, base_offset, append_time_ms)
        entry = self._entries.pop(header.producer_id, None)
        batches: tuple[SequencedBatch, ...] = (batch,)
        if entry is not None and entry.epoch == header.producer_epoch:
            batches = (*entry.batches[1 - PRODUCER_BATCHES_KEPT :], batch)
        self._entries[header.producer_id] = ProducerEntry(
            header.producer_id, header.producer_epoch, now_ms, batches
        )
        if len(self._entries) > self._producers_max:
            del self._entries[next(iter(self._entries))]

    def expire(self, before_ms: int) -> None:
        """Forgets the producers that were last seen before ``before_ms``."""
        gone = []
        for producer_id, entry in self._entries.items():
            if entry.seen_ms >= before_ms:
                break
            gone.append(producer_id)
        for producer_id in gone:
            del self._entries[producer_id]

    def entries(self) -> Iterator[ProducerEntry]:
        """Yields all entries, the one idle for longest first."""
        return iter(self._entries.values())


def _require_sequence(header: BatchHeader, expected: int) -> None:
    if header.base_sequence != expected:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} epoch {header.producer_epoch}: sequence {header.base_sequence}, expected "
            f"{expected}; batches before it did not arrive"
        )
