"""The records of ``__transaction_state``, byte for byte as Kafka writes them. Pure.

A record without a value is a tombstone: the transactional id is forgotten. The newest record of a key counts.

Key (TransactionLogKey):

====== ================== ==================
order  field              type
====== ================== ==================
1      version            int16, 0
2      transactional id   string
====== ================== ==================

Value (TransactionLogValue):

====== ================== =============================================== ========
order  field              type                                            versions
====== ================== =============================================== ========
1      version            int16                                           all
2      producer id        int64                                           0–1
3      producer epoch     int16                                           0–1
4      timeout            int32, ms                                       0–1
5      state              int8, a number of ``TransactionState``          0–1
6      partitions         nullable array of topic string, array of int32  0–1
7      last update        int64, ms                                       0–1
8      start              int64, ms, -1 none                              0–1
tag 0  previous producer  int64, -1 none                                  1
tag 1  next producer      int64, -1 none                                  1
tag 2  client's version   int16, 0 unknown                                1
====== ================== =============================================== ========

Integers are big endian. Version 1 is written: its lengths are compact (KIP-482), and tagged fields follow.
Unknown ones are skipped. The partitions are null in state *Empty*, and no partitions are an empty array in the others.
The partitions of ``__consumer_offsets`` stand among those of the data.
"""

from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import Annotated, ClassVar, TypeAlias, TypeVar

import msgspec

from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.malformed import MalformedMessage
from siltstone.kafka_protocol.notation import Int8, Int16, Int32, Int64, Message, Structure, Tag, Versions
from siltstone.model.errors import CorruptData

KEY_VERSION = 0
VALUE_VERSION = 1
NONE = -1
"""Stands for no producer id and for no time."""

_VERSION = Struct(">h")

TopicPartition: TypeAlias = tuple[str, int]
EncodedRecord: TypeAlias = tuple[bytes, bytes | None]
_M = TypeVar("_M", bound=Message)


class DamagedTransactionRecord(CorruptData):
    """A record of __transaction_state has bytes that no broker writes."""


class TransactionState(IntEnum):
    """The values are the numbers in records. *Dead* is never written: it is a transactional id that is forgotten."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def title(self) -> str:
        """The name that clients see in DescribeTransactions and ListTransactions."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class LoggedTransaction(msgspec.Struct, frozen=True):
    """``client_version`` is the transaction version that the client spoke, 0 if it is not known."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    updated_ms: int
    start_ms: int = NONE
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    client_version: int = 0


class TransactionRecord(msgspec.Struct, frozen=True):
    transactional_id: str
    logged: LoggedTransaction | None


# -- what Kafka calls them -------------------------------------------------------------------------------


class _Key(Message, frozen=True, kw_only=True):
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = None

    transactional_id: str = ""


class _Partitions(Structure, frozen=True, kw_only=True):
    topic: str = ""
    partition_ids: list[Int32] = []


class _Value(Message, frozen=True, kw_only=True):
    versions: ClassVar[tuple[int, int]] = (0, VALUE_VERSION)
    flexible_since: ClassVar[int | None] = 1

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[_Partitions] | None = []
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    previous_producer_id: Annotated[Int64, Versions(1), Tag(0)] = NONE
    next_producer_id: Annotated[Int64, Versions(1), Tag(1)] = NONE
    client_transaction_version: Annotated[Int16, Versions(1), Tag(2)] = 0


# -- records ---------------------------------------------------------------------------------------------


def encode_record(record: TransactionRecord) -> EncodedRecord:
    """Raises UnencodableMessage for a transactional id that is longer than Kafka's strings."""
    key = _VERSION.pack(KEY_VERSION) + encode(_Key(transactional_id=record.transactional_id), KEY_VERSION)
    if record.logged is None:
        return key, None
    return key, _VERSION.pack(VALUE_VERSION) + encode(_value_of(record.logged), VALUE_VERSION)


def decode_record(encoded: EncodedRecord) -> TransactionRecord:
    """Bytes after the last field are ignored, as in Kafka. Raises DamagedTransactionRecord."""
    key, value = encoded
    version, body = _apart(key, "key")
    if version != KEY_VERSION:
        raise DamagedTransactionRecord(f"a key has version {version}; this program reads {KEY_VERSION}")
    transactional_id = _decoded(_Key, version, body).transactional_id
    return TransactionRecord(transactional_id, None if value is None else _decode_value(value))


def _decode_value(encoded: bytes) -> LoggedTransaction:
    version, body = _apart(encoded, "value")
    if not 0 <= version <= VALUE_VERSION:
        raise DamagedTransactionRecord(
            f"a value has version {version}; this program reads 0 to {VALUE_VERSION}"
        )
    value = _decoded(_Value, version, body)
    if not 0 <= value.transaction_status < TransactionState.DEAD:
        raise DamagedTransactionRecord(
            f"a transaction has state {value.transaction_status}, which is never written"
        )
    return LoggedTransaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(_each(value.transaction_partitions or ())),
        updated_ms=value.transaction_last_update_timestamp_ms,
        start_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def _value_of(logged: LoggedTransaction) -> _Value:
    partitions = None if logged.state is TransactionState.EMPTY else _by_topic(logged.partitions)
    return _Value(
        producer_id=logged.producer_id,
        producer_epoch=logged.producer_epoch,
        transaction_timeout_ms=logged.timeout_ms,
        transaction_status=logged.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=logged.updated_ms,
        transaction_start_timestamp_ms=logged.start_ms,
        previous_producer_id=logged.previous_producer_id,
        next_producer_id=logged.next_producer_id,
        client_transaction_version=logged.client_version,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Returns the partitions of each topic in the order of their names: the same transaction has the same bytes."""
    indexes: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(partitions):
        indexes[topic].append(index)
    return indexes


def _by_topic(partitions: Iterable[TopicPartition]) -> list[_Partitions]:
    return [_Partitions(topic=name, partition_ids=each) for name, each in by_topic(partitions).items()]


def _each(topics: Iterable[_Partitions]) -> Iterable[TopicPartition]:
    return ((topic.topic, index) for topic in topics for index in topic.partition_ids)


def _apart(encoded: bytes, what: str) -> tuple[int, bytes]:
    """Splits a key or value into its version and the rest."""
    if len(encoded) < _VERSION.size:
        raise DamagedTransactionRecord(f"a {what} of {len(encoded)} bytes is too short for its version")
    return _VERSION.unpack_from(encoded)[0], encoded[_VERSION.size :]


def _decoded(kind: type[_M], version: int, body: bytes) -> _M:
    try:
        return decode(kind, version, body)
    except MalformedMessage as failure:
        raise DamagedTransactionRecord(
            f"a record of __transaction_state cannot be read: {failure}"
        ) from failure
