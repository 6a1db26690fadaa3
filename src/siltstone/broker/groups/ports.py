"""Defines what groups need from the rest of the broker: a log (``GroupLogs``), the node that may write it
(``GroupLeaders``), the existing topics (``KnownTopics``), and the registered progress that retention reads
(``GroupProgressPort``).

A log is one partition of ``__consumer_offsets``. The coordinator awaits each ``append`` before it makes the next one,
and relies on this: records are in the log in the order of the appends, and every record whose append returned is read
again after a crash. An append that raises may have happened or not.

The registered progress must never be ahead of the committed offsets: retention deletes records up to it.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol, TypeAlias

import msgspec

from siltstone.broker.groups.offsets_log.record import EncodedRecord, LogProducer
from siltstone.broker.groups.rules.requests import TopicPartition
from siltstone.broker.partitions.transaction_state import PermissionQuestion


class RecordInTransaction(msgspec.Struct, frozen=True):
    """Counts when the transaction is committed."""

    encoded: EncodedRecord
    producer: LogProducer


class TransactionEnd(msgspec.Struct, frozen=True):
    """The marker of a transaction."""

    producer_id: int
    commits: bool


LogEntry: TypeAlias = EncodedRecord | RecordInTransaction | TransactionEnd


class GroupLog(Protocol):
    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        ...

    def question(self, producer_id: int) -> AbstractContextManager[PermissionQuestion]:
        """See PartitionTransactions.question."""
        ...

    async def take_transactions(self) -> None:
        """Called before records of a transaction are appended. Raises Unavailable."""
        ...

    async def append(self, records: Sequence[EncodedRecord], producer: LogProducer | None = None) -> None:
        """Returns when the records are durable. They are one record, or have at most
        ``serving_limits.GROUP_APPEND_BYTES_MAX`` of keys and values. They leave in the turn of the call: a marker that
        is appended later comes after them. ``producer``: they are in its transaction."""
        ...

    def read_all(self) -> AsyncIterator[LogEntry]:
        """Yields the records and markers from the first to the last that was appended before the call, and lets other
        tasks run in between."""
        ...

    async def trim_before(self, offset: int) -> None:
        """Deletes the records before ``offset``, at once or later."""
        ...


class GroupLogs(Protocol):
    """Methods raise errors of ``model.errors``; the coordinator retries, except after CorruptData."""

    async def partition_count(self) -> int:
        """The number of partitions of ``__consumer_offsets``, which never changes. The topic is created if it does not
        exist."""
        ...

    async def open(self, partition: int) -> GroupLog:
        """Opens the log of a partition. After a failed append the coordinator calls it again, and no longer uses the
        old log."""
        ...


class GroupLeaders(Protocol):
    """Finds the node that coordinates the groups of a partition of ``__consumer_offsets``: the leader of the
    partition."""

    @property
    def node_id(self) -> int: ...

    @property
    def has_others(self) -> bool:
        """Whether another node could lead a partition."""
        ...

    @property
    def serves(self) -> bool:
        """Whether this node may answer for the groups of the partition now."""
        ...

    def leader_of(self, partition: int) -> int | None:
        """Returns the node that leads the partition; None when there is no such partition yet."""
        ...

    async def refreshed(self) -> object:
        """Reads the leaders again; returns when they are current, or cannot be read."""
        ...


class NodeLeader:
    """A node that alone uses a store, and so leads all partitions."""

    node_id = 0
    has_others = False
    serves = True

    def leader_of(self, partition: int) -> int | None:
        return self.node_id

    async def refreshed(self) -> None:
        return None


NO_OFFSET = -1
"""Stands in place of an offset that is deleted."""


class GroupProgressPort(Protocol):
    def holding_back(
        self, group: str, offsets: Mapping[TopicPartition, int]
    ) -> AbstractAsyncContextManager[None]:
        """Returns the context in which the group's offsets become ``offsets``: entering it waits until the registered
        progress is not ahead of them. Raises SiltstoneError when that is not possible now."""
        ...

    def has_counted(self, group: str) -> bool:
        """Returns whether retention waits for the group because of an offset that the group has committed."""
        ...

    async def let_go(self, group: str) -> None:
        """Retention stops waiting for the group, which was deleted."""
        ...


class KnownTopic(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> bytes:
        """The id of the topic, 16 bytes."""
        ...

    @property
    def partition_count(self) -> int: ...

    @property
    def created_ms(self) -> int: ...


class KnownTopics(Protocol):
    def by_name(self, name: str) -> KnownTopic | None: ...

    def by_id(self, topic_id: bytes) -> KnownTopic | None: ...

    def all(self) -> Sequence[KnownTopic]:
        """Returns the same object while no topic changes."""
        ...
