"""The form of the records of groups whose partitions the coordinator assigns, byte for byte as Kafka writes them. Pure.

A key is its version (int16), then texts with an int16 length: the group and, in most keys, a member or a pattern. A
value is version 0 (int16), then fields in the notation of Kafka's flexible messages: compact lengths, and tagged fields
at the end of each structure. ``consumer_records`` and ``share_records`` have the kinds of records.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeAlias

import msgspec

from siltstone.broker.groups.offsets_log.fields import DamagedGroupRecord, FieldReader, int16, string
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.malformed import MalformedMessage
from siltstone.kafka_protocol.notation import NO_UUID, Int32, Message, Structure, Uuid

PartitionOfId: TypeAlias = tuple[bytes, int]
"""A partition by the id of its topic, 16 bytes, and its number."""

_VALUE_VERSION = 0


class KeyedValue(Message, frozen=True, kw_only=True):
    """A value as Kafka describes it."""

    versions: ClassVar[tuple[int, int]] = (_VALUE_VERSION, _VALUE_VERSION)
    flexible_since: ClassVar[int | None] = _VALUE_VERSION


class RecordKind(msgspec.Struct, frozen=True):
    """``key``: the type of the key. ``record`` makes a record from key and value. ``message`` is what Kafka calls the
    value, None if such records only ever delete; ``written`` makes one from a value, ``read`` a value from one."""

    version: int
    key: type[Any]
    record: Callable[[Any, Any], Any]
    message: type[KeyedValue] | None = None
    written: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda message: message

    def made(self, value: Any, *texts: str) -> Any:
        """Returns the record with this value. ``texts`` are the texts of its key."""
        return self.record(self.key(*texts), value)


class RecordKinds:
    """Encodes and decodes the records of these kinds."""

    def __init__(self, *kinds: RecordKind) -> None:
        self._by_version = {kind.version: kind for kind in kinds}
        self._by_key = {kind.key: kind for kind in kinds}

    def encode_key(self, key: Any) -> bytes:
        """Raises TextTooLong."""
        texts = (getattr(key, name) for name in key.__struct_fields__)
        return int16(self._by_key[type(key)].version) + b"".join(map(string, texts))

    def decode_key(self, version: int, reader: FieldReader) -> Any | None:
        """``reader`` stands behind the version. Returns None for another version. Raises DamagedGroupRecord."""
        kind = self._by_version.get(version)
        if kind is None:
            return None
        key = kind.key(*(reader.string() for _ in kind.key.__struct_fields__))
        reader.end()
        return key

    def encode_value(self, record: Any) -> bytes | None:
        """Raises UnencodableMessage for a text that is longer than Kafka's strings."""
        if record.value is None:
            return None
        written = self._by_key[type(record.key)].written(record.value)
        return int16(_VALUE_VERSION) + encode(written, _VALUE_VERSION)

    def decode_record(self, key: Any, value: bytes | None) -> Any:
        """Unknown tagged fields and bytes after the last field are skipped, as in Kafka. Raises DamagedGroupRecord."""
        kind = self._by_key[type(key)]
        if value is None or kind.message is None:
            return kind.record(key, None)
        version = FieldReader(value).int16()
        if version != _VALUE_VERSION:
            raise DamagedGroupRecord(
                f"a record of a group has version {version}; this program reads {_VALUE_VERSION}"
            )
        try:
            message = decode(kind.message, _VALUE_VERSION, value[2:])
        except MalformedMessage as malformed:
            raise DamagedGroupRecord(f"a record of a group cannot be read: {malformed}") from malformed
        return kind.record(key, kind.read(message))


# -- partitions ------------------------------------------------------------------------------------------


class PartitionsOfTopic(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


def by_topic(partitions: Iterable[PartitionOfId]) -> dict[bytes, list[int]]:
    """In the order of their ids and numbers: the same assignment has the same bytes."""
    numbers: defaultdict[bytes, list[int]] = defaultdict(list)
    for topic_id, number in sorted(partitions):
        numbers[topic_id].append(number)
    return numbers


def partition_rows(partitions: Iterable[PartitionOfId]) -> list[PartitionsOfTopic]:
    return [
        PartitionsOfTopic(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in by_topic(partitions).items()
    ]


def partitions_in(rows: Iterable[PartitionsOfTopic]) -> frozenset[PartitionOfId]:
    return frozenset((row.topic_id, number) for row in rows for number in row.partitions)
