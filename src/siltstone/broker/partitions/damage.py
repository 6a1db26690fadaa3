"""Reports reads of partitions that fail: one log line for each object in a while, and counts.

An object may hold blocks of many partitions, and every consumer of them asks for the damaged offsets twice a second. So
lines about one object, or about one kind of failure of the bucket, are written at most once in LOG_INTERVAL_MS
(``runtime.log_limit``). The counts include all reads. Next: ``fetching.damaged_reads``.
"""

import logging

import msgspec

from siltstone.model.errors import SiltstoneError
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit
from siltstone.stream_engine.errors import DamagedRange

DAMAGED_READ = "siltstone.damaged.read"

log = logging.getLogger(__name__)


class DamageStatistics(msgspec.Struct, frozen=True):
    """Counts since the start. ``reads_refused``: fetches and lookups by time that were answered with CORRUPT_MESSAGE.
    ``reads_continued``: fetches that returned records behind damage, and ``offsets_skipped``: the offsets that they
    skipped; each consumer that skips an offset counts."""

    reads_refused: int = 0
    reads_continued: int = 0
    offsets_skipped: int = 0


class DamageReport:
    """Reports the failed reads of one broker, on one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._limit = LogLimit(clock)
        self._refused = self._continued = self._skipped = 0

    def refused(self, partition: str, damage: DamagedRange) -> None:
        """Reports that a client was refused the damaged offsets of ``partition``, such as flights-0."""
        self._refused += 1
        if self._limit.is_due(damage.object_id):
            log.error(
                "partition %s: %s. Consumers get CORRUPT_MESSAGE at these offsets. Restore the object, or set %s=skip "
                "on the topic to let consumers read on behind the damage",
                partition, damage, DAMAGED_READ,
            )  # fmt: skip

    def skipping(self, partition: str, damage: DamagedRange) -> None:
        """Reports that a read of ``partition`` continues behind the damage, because the topic is configured so."""
        if self._limit.is_due(damage.object_id):
            log.error(
                "partition %s: %s. Consumers read on at offset %d without these records, because the topic has %s=skip."
                " Restore the object if the records are still needed",
                partition, damage, damage.end_offset, DAMAGED_READ,
            )  # fmt: skip

    def continued(self, offsets_skipped: int) -> None:
        """Counts a fetch that returns records from behind ``offsets_skipped`` damaged offsets."""
        self._continued += 1
        self._skipped += offsets_skipped

    def opened_without(self, partition: str, damage: DamagedRange) -> None:
        """Reports that ``partition`` is opened although batches that are newer than its snapshot cannot be read."""
        if self._limit.is_due(("opened without", damage.object_id)):
            log.error(
                "partition %s: %s. The partition is opened without them: an idempotent producer that wrote them may be "
                "refused with OUT_OF_ORDER_SEQUENCE_NUMBER, or store a batch twice. Restore the object",
                partition, damage,
            )  # fmt: skip

    def failed(self, partition: str, trouble: SiltstoneError) -> None:
        """Reports that a read of ``partition`` failed for a reason that may pass: the client tries again."""
        if self._limit.is_due(type(trouble).__name__):
            log.warning(
                "partition %s cannot be read at the moment, and clients try again: %s", partition, trouble
            )

    def statistics(self) -> DamageStatistics:
        return DamageStatistics(self._refused, self._continued, self._skipped)
