"""The port between groups and topics: which exist."""

from typing import Protocol


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
