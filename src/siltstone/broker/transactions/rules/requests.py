"""Defines the requests to the transactions of a transactional id, and the answers to them, as values without a protocol
version.

``client_version`` is 2 if the client speaks transaction version 2, which the version of its request says, and 0 in all
other requests. An answer is an error code, since every request may be refused, or the value that the request asks for.
"""

from typing import TypeAlias

import msgspec

from siltstone.broker.transactions.rules.transaction import NO_EPOCH
from siltstone.broker.transactions.state_log.record import NONE, TopicPartition
from siltstone.kafka_protocol.error_code import ErrorCode

BUMPING_VERSION = 2
"""The transaction version in which every end of a transaction raises the epoch (KIP-890)."""


class StartProducer(msgspec.Struct, frozen=True):
    """InitProducerId. A client that has a producer id and an epoch sends them, to continue after an error (KIP-360)."""

    timeout_ms: int
    producer_id: int = NONE
    producer_epoch: int = NO_EPOCH


class AddToTransaction(msgspec.Struct, frozen=True):
    """AddPartitionsToTxn; AddOffsetsToTxn with the partition of ``__consumer_offsets``; or the first batch of a client
    of transaction version 2 in a partition. ``coordinator_epoch``: the highest one that the leader of the partition has
    heard of; one that is replaced and does not know it learns it so. ``connection_id``: a later connection of this node
    has a higher one; -1 if the request came over none."""

    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    coordinator_epoch: int = NONE
    connection_id: int = NONE


class End(msgspec.Struct, frozen=True):
    """EndTxn. ``connection_id``: see AddToTransaction."""

    producer_id: int
    producer_epoch: int
    commits: bool
    client_version: int = 0
    connection_id: int = NONE


class MarkersWritten(msgspec.Struct, frozen=True):
    """Every partition of the transaction has its marker, or is deleted."""


class TimeOut(msgspec.Struct, frozen=True):
    """The time of the transaction that began at ``start_ms`` is over."""

    start_ms: int


class Expire(msgspec.Struct, frozen=True):
    """The transactional id is forgotten if nothing happened to it for so long."""

    expiration_ms: int


Request: TypeAlias = StartProducer | AddToTransaction | End | MarkersWritten | TimeOut | Expire


class ProducerEpoch(msgspec.Struct, frozen=True):
    """The answer to InitProducerId and to EndTxn: what the client uses next."""

    producer_id: int
    epoch: int


Answer: TypeAlias = ErrorCode | ProducerEpoch


class JoinedTransaction(msgspec.Struct, frozen=True):
    """A producer may append to these partitions, in its transaction of this ``number``: the coordinator has appended
    that they are in it."""

    number: int
    partitions: frozenset[TopicPartition]
    coordinator_epoch: int = NONE


def malformed(transactional_id: str, request: StartProducer) -> bool:
    """Whether a client must not send this InitProducerId: without a transactional id, or with only one of producer id
    and epoch."""
    return transactional_id == "" or (request.producer_id == NONE) is not (request.producer_epoch == NO_EPOCH)


def refusal_of(transactional_id: str, request: StartProducer, timeout_ms_max: int) -> ErrorCode | None:
    """Returns the error of an InitProducerId that is refused whatever the coordinator knows of the id."""
    if malformed(transactional_id, request):
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.timeout_ms <= timeout_ms_max:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return None
