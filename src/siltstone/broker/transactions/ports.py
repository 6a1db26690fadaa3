"""Defines what transactions need from the rest of the broker: a log (``TransactionLogs``), partitions in which markers
are written (``MarkerSink``), and producer ids (``NewProducerIds``).

A log is one partition of ``__transaction_state``. A coordinator decides on what it has appended, before it is durable;
so all appends of a node, to logs and to partitions, become durable in the order of the calls, and a crash keeps a
prefix of them. With that, a prepared record, its markers and the complete record can be appended in one turn.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol

import msgspec

from siltstone.broker.partitions.transaction_state import TransactionEnding
from siltstone.broker.transactions.rules.decision import MarkersToWrite
from siltstone.broker.transactions.state_log.record import EncodedRecord, TopicPartition


class TransactionLog(Protocol):
    @property
    def coordinator_epoch(self) -> int:
        """The leader epoch of the partition: markers have it, and a newer coordinator has a higher one."""
        ...

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        ...

    async def trim_before(self, offset: int) -> None:
        """Deletes the records before ``offset``, at once or later."""
        ...

    def append(self, records: Sequence[EncodedRecord]) -> "asyncio.Future[int]":
        """The future is done when the records are durable. Raises SiltstoneError; then nothing was appended."""
        ...

    def read_all(self) -> AsyncIterator[EncodedRecord]:
        """Yields the records from the first to the last that was appended before the call, and lets other tasks run in
        between."""
        ...


class TransactionLogs(Protocol):
    """Methods raise errors of ``model.errors``; the coordinator retries."""

    async def partition_count(self) -> int:
        """The number of partitions of ``__transaction_state``, which never changes. The topic is created if it does not
        exist."""
        ...

    async def open(self, partition: int) -> TransactionLog:
        """Opens the log of a partition. After a failed append the coordinator calls it again."""
        ...


class MarkersAnswered(msgspec.Struct, frozen=True):
    """``written``: the partitions that have their marker, durably. ``knows_newer``: a leader has refused a marker,
    because it knows a newer coordinator, or a newer epoch of the producer."""

    written: frozenset[TopicPartition] = frozenset()
    knows_newer: bool = False


class MarkerSink(Protocol):
    async def open(self, partitions: Collection[TopicPartition]) -> None:
        """Opens the partitions that this node leads, so that markers can be written in one turn. Raises nothing: a
        partition that cannot be opened is found closed."""
        ...

    def write(self, partition: TopicPartition, markers: MarkersToWrite, coordinator_epoch: int) -> bool:
        """Appends the marker for one partition. Returns whether it is appended, was already there, or is not needed
        because the partition is deleted; False: the caller tries again later."""
        ...

    async def send(
        self, partitions: Collection[TopicPartition], markers: MarkersToWrite, coordinator_epoch: int
    ) -> MarkersAnswered:
        """Asks the other nodes to write the markers for the partitions that they lead. Raises nothing: the caller tries
        again later."""
        ...

    async def end(self, partition: TopicPartition, ending: TransactionEnding) -> None:
        """Writes the marker of a transaction that another node, or a tool, ends. Returns when it is durable. Raises
        PartitionGone, and what opening the partition and ``Partition.append_marker`` raise."""
        ...


class MarkedGroups(Protocol):
    """The groups of this node, which have offsets that are committed with a transaction. ``partition`` is one of
    ``__consumer_offsets``."""

    async def prepare_for_marker(self, partition: int) -> None:
        """Returns when the groups of the partition are loaded and no offset of a transaction waits to be written, or
        when that is not possible now. Raises nothing."""
        ...

    def takes_marker(self, partition: int, producer_id: int) -> bool:
        """Whether the groups are loaded, and everything that the producer has committed is appended."""
        ...

    def marked(
        self, partition: int, producer_id: int, durable: "asyncio.Future[int]", *, commits: bool
    ) -> None:
        """Called in the turn in which the marker is appended. What the groups answer from now on waits until it is
        durable."""
        ...


class NewProducerIds(Protocol):
    async def next_of(self, remainder: int, modulus: int) -> int:
        """Returns a producer id that no other producer has, with that remainder: so a batch alone says which partition
        of ``__transaction_state`` its transaction is in. Raises Unavailable."""
        ...
