"""The port between coordinators and ``__consumer_offsets``: one log per partition of it, in Kafka's own record formats.

What a coordinator relies on: records stand in the log in the order of the ``append`` calls, one call is awaited
before the next is made, and what was appended is read again after any crash. An append that fails may have happened
or not.

The port between groups and what maintenance is told of them: it must never believe a group further than it is.

The port between groups and topics: which exist.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from siltstone.broker.groups.offsets_log.record import EncodedRecord
from siltstone.broker.groups.rules.requests import TopicPartition


class GroupLog(Protocol):
    @property
    def next_offset(self) -> int:
        """Of the record that is appended next."""
        ...

    async def append(self, records: Sequence[EncodedRecord]) -> None:
        """Returns when they are durable. At most ``limits.GROUP_APPEND_BYTES_MAX`` of keys and values, or one
        record."""
        ...

    def read_all(self) -> AsyncIterator[EncodedRecord]:
        """From the first to the last that was appended before the call. Lets the event loop turn now and then."""
        ...

    async def trim_before(self, offset: int) -> None:
        """Records before it are not needed any more."""
        ...


class GroupLogs(Protocol):
    """Methods raise errors of ``model.errors``: after Unavailable, Stale and Fenced they are tried again."""

    async def partition_count(self) -> int:
        """Of ``__consumer_offsets``, which is made if there is none. Never changes."""
        ...

    async def open(self, partition: int) -> GroupLog:
        """Again after an append failed: what was open before is not used any more."""
        ...


NO_OFFSET = -1
"""Where an offset is to be no more."""


class GroupProgressPort(Protocol):
    def holding_back(
        self, group: str, offsets: Mapping[TopicPartition, int]
    ) -> AbstractAsyncContextManager[None]:
        """Around what makes these a group's offsets. Raises SiltstoneError when it may not be done now."""
        ...

    def has_counted(self, group: str) -> bool:
        """Whether somebody waits for it because of what it has committed."""
        ...

    async def let_go(self, group: str) -> None:
        """It was deleted."""
        ...


class KnownTopic(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> bytes:
        """16 bytes."""
        ...

    @property
    def partition_count(self) -> int: ...

    @property
    def created_ms(self) -> int: ...


class KnownTopics(Protocol):
    def by_name(self, name: str) -> KnownTopic | None: ...

    def by_id(self, topic_id: bytes) -> KnownTopic | None: ...
