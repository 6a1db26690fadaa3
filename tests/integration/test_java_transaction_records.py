"""Records of ``__transaction_state`` against the classes with which Kafka's coordinator writes and its tools read them.

Java decides. Partitions are compared in the order of their names, in which ours are written; Kafka's are in any order.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from oracles.java_messages import JavaMessages, running_java_messages
from siltstone.broker.transactions.state_log.record import (
    LoggedTransaction,
    TransactionRecord,
    TransactionState,
    decode_record,
    encode_record,
)
from support.kafka.kafka_oracles import or_skip

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]
WRITTEN = [state for state in TransactionState if state is not TransactionState.DEAD]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaMessages]:
    with or_skip(running_java_messages) as found:
        yield found


def some_transaction(state: TransactionState, seed: int) -> LoggedTransaction:
    rng = random.Random(f"{state}{seed}")
    names = ["flights", "__consumer_offsets", "fl\u00fcge"]
    empty = state in {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_ABORT,
        TransactionState.COMPLETE_COMMIT,
    }
    partitions = frozenset((rng.choice(names), rng.randrange(10**6)) for _ in range(0 if empty else 6))
    start_ms, previous, following = (-1 if seed == 0 else rng.randrange(2**63) for _ in range(3))
    return LoggedTransaction(
        rng.randrange(2**63),
        rng.choice([0, 5, 32_767]),
        rng.randrange(2**31),
        state,
        partitions,
        rng.randrange(2**63),
        start_ms,
        previous,
        following,
        seed,
    )


def as_java(logged: LoggedTransaction) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(logged.partitions):
        topics.setdefault(topic, []).append(index)
    rows = [{"topic": topic, "partitionIds": indexes} for topic, indexes in topics.items()]
    return {
        "producerId": logged.producer_id,
        "previousProducerId": logged.previous_producer_id,
        "nextProducerId": logged.next_producer_id,
        "producerEpoch": logged.producer_epoch,
        "transactionTimeoutMs": logged.timeout_ms,
        "transactionStatus": int(logged.state),
        "transactionPartitions": None if logged.state is TransactionState.EMPTY else rows,
        "transactionLastUpdateTimestampMs": logged.updated_ms,
        "transactionStartTimestampMs": logged.start_ms,
        "clientTransactionVersion": logged.client_version,
    }


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("state", WRITTEN)
def test_the_bytes_are_java_s(java: JavaMessages, state: TransactionState, seed: int) -> None:
    record = TransactionRecord(f"pay-{state.title}", some_transaction(state, seed))
    assert record.logged is not None
    key, value = encode_record(record)
    assert value is not None
    fields = as_java(record.logged)
    assert key[:2] + java.encode("TransactionLogKey", 0, {"transactionalId": record.transactional_id}) == key
    assert value[:2] + java.encode("TransactionLogValue", 1, fields) == value
    assert (key[:2], value[:2]) == (b"\0\0", b"\0\1")
    in_version_0 = java.encode("TransactionLogValue", 0, fields | OLD_DEFAULTS)
    read = decode_record((key, b"\0\0" + in_version_0)).logged
    assert read is not None and as_java(read) == fields | OLD_DEFAULTS


OLD_DEFAULTS = {"previousProducerId": -1, "nextProducerId": -1, "clientTransactionVersion": 0}
"""Version 0 has no tagged fields."""


@pytest.mark.parametrize("state", WRITTEN)
def test_java_reads_ours(java: JavaMessages, state: TransactionState) -> None:
    logged = some_transaction(state, 1)
    _, value = encode_record(TransactionRecord("pay", logged))
    assert value is not None
    assert java.decode("TransactionLogValue", 1, value[2:]) == as_java(logged)
