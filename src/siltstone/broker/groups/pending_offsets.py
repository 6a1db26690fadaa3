"""The offsets of a group that are committed with transactions which have not ended yet. Pure.

A *pending* offset is not visible. The end of its transaction drops it, or makes it the committed offset, unless an
offset of the same partition comes later in the log: then that one stays (KAFKA-14505). The deletion of an offset
deletes the pending ones with it."""

from collections.abc import Collection, Iterator

import msgspec

from siltstone.broker.groups.offsets_log.record import CommittedOffset, LogProducer
from siltstone.broker.groups.rules.requests import TopicPartition


class PendingOffset(msgspec.Struct, frozen=True):
    """``order``: that of the records in the log. ``committed`` None: a later offset has replaced it, and the end of the
    transaction changes nothing."""

    producer: LogProducer
    order: int
    committed: CommittedOffset | None


class PendingOffsets:
    """Changes come in the order of the records in the log."""

    __slots__ = ("_by_partition", "_order")

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, dict[int, PendingOffset]] = {}
        self._order = 0

    def __len__(self) -> int:
        return sum(map(len, self._by_partition.values()))

    @property
    def partitions(self) -> Collection[TopicPartition]:
        return self._by_partition.keys()

    def producer_ids(self) -> set[int]:
        return {producer_id for of_partition in self._by_partition.values() for producer_id in of_partition}

    def lowest(self, partition: TopicPartition) -> int | None:
        """Returns the lowest offset that may become the committed one; None if none may."""
        offsets = [
            pending.committed.offset
            for pending in self._by_partition.get(partition, {}).values()
            if pending.committed is not None
        ]
        return min(offsets, default=None)

    def in_order(self, partition: TopicPartition) -> Iterator[tuple[LogProducer, CommittedOffset]]:
        """Yields the offsets that may become the committed one, in the order of their records."""
        found = sorted(self._by_partition.get(partition, {}).values(), key=lambda pending: pending.order)
        for pending in found:
            if pending.committed is not None:
                yield pending.producer, pending.committed

    def add(self, producer: LogProducer, partition: TopicPartition, committed: CommittedOffset) -> None:
        self._order += 1
        of_partition = self._by_partition.setdefault(partition, {})
        of_partition[producer.producer_id] = PendingOffset(producer, self._order, committed)

    def replaced(self, partition: TopicPartition) -> None:
        """An offset was committed without a transaction."""
        self._replace_before(partition, self._order + 1)

    def removed(self, partition: TopicPartition) -> None:
        """The offset was deleted."""
        self._by_partition.pop(partition, None)

    def end(self, producer_id: int, *, commits: bool) -> list[tuple[TopicPartition, CommittedOffset]]:
        """Ends the producer's transaction. Returns the offsets that are committed now."""
        ended = []
        for partition in [each for each, found in self._by_partition.items() if producer_id in found]:
            of_partition = self._by_partition[partition]
            pending = of_partition.pop(producer_id)
            if not of_partition:
                del self._by_partition[partition]
            if commits and pending.committed is not None:
                ended.append((partition, pending.committed))
                self._replace_before(partition, pending.order)
        return ended

    def _replace_before(self, partition: TopicPartition, order: int) -> None:
        of_partition = self._by_partition.get(partition, {})
        for producer_id, pending in of_partition.items():
            if pending.order < order:
                of_partition[producer_id] = msgspec.structs.replace(pending, committed=None)
