"""Records of consumer groups of KIP-848 against the classes with which Kafka's coordinator writes and reads them."""

import base64
import random
from collections.abc import Iterator
from typing import Any

import pytest

from oracles.java_messages import JavaMessages, running_java_messages
from siltstone.broker.groups.offsets_log.consumer_records import (
    ClassicMember,
    ConsumerRecord,
    EpochKey,
    EpochRecord,
    FoundTopics,
    GroupEpoch,
    MemberAssignment,
    MemberAssignmentKey,
    MemberAssignmentRecord,
    MemberSubscription,
    PatternKey,
    PatternRecord,
    SubscriptionKey,
    SubscriptionRecord,
    TargetEpoch,
    TargetEpochKey,
    TargetEpochRecord,
    TargetKey,
    TargetRecord,
)
from siltstone.broker.groups.offsets_log.record import decode_record, encode_record
from siltstone.broker.groups.offsets_log.share_records import (
    ShareAssignment,
    ShareAssignmentKey,
    SharedTopic,
    SharedTopicsKey,
    ShareEpoch,
    ShareEpochKey,
    ShareRecord,
    ShareSubscription,
    ShareSubscriptionKey,
    ShareTargetEpochKey,
    ShareTargetKey,
)
from support.kafka.kafka_oracles import or_skip

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]
NAMES_OF_SHARES = {
    ShareEpochKey: "ShareGroupMetadata",
    ShareSubscriptionKey: "ShareGroupMemberMetadata",
    ShareTargetEpochKey: "ShareGroupTargetAssignmentMetadata",
    ShareTargetKey: "ShareGroupTargetAssignmentMember",
    ShareAssignmentKey: "ShareGroupCurrentMemberAssignment",
    SharedTopicsKey: "ShareGroupStatePartitionMetadata",
}
NAMES = {
    EpochRecord: "ConsumerGroupMetadata",
    SubscriptionRecord: "ConsumerGroupMemberMetadata",
    TargetEpochRecord: "ConsumerGroupTargetAssignmentMetadata",
    TargetRecord: "ConsumerGroupTargetAssignmentMember",
    MemberAssignmentRecord: "ConsumerGroupCurrentMemberAssignment",
    PatternRecord: "ConsumerGroupRegularExpression",
}


@pytest.fixture(scope="module")
def java() -> Iterator[JavaMessages]:
    with or_skip(running_java_messages) as found:
        yield found


def some_records(seed: int) -> Iterator[ConsumerRecord]:
    rng = random.Random(seed)
    name = rng.choice(["g", "größe", "x" * 300])
    topics = sorted(rng.randbytes(16) for _ in range(2))
    partitions = {
        (topic, number): rng.randrange(9) for topic in topics for number in range(rng.randrange(1, 4))
    }
    classic = ClassicMember(rng.randrange(2**31), (("range", rng.randbytes(9)), ("", b"")))
    yield EpochRecord(EpochKey(name), GroupEpoch(rng.randrange(2**31), rng.choice([0, -(2**63), 2**63 - 1])))
    yield SubscriptionRecord(
        SubscriptionKey(name, "m"),
        MemberSubscription(
            *rng.choice([("i", "rack"), (None, None), ("", "")]), "client", "/host", ("a", "b"),
            rng.choice([None, "t.*"]), rng.choice([-1, 300_000]), rng.choice([None, "uniform"]),
            rng.choice([None, classic]),
        ),
    )  # fmt: skip
    yield TargetEpochRecord(TargetEpochKey(name), TargetEpoch(rng.randrange(2**31), rng.choice([0, 2**62])))
    yield TargetRecord(TargetKey(name, "m"), frozenset(partitions))
    yield MemberAssignmentRecord(
        MemberAssignmentKey(name, "m"),
        MemberAssignment(rng.choice([-2, 7]), -1, rng.randrange(3), partitions, rng.choice([{}, partitions])),
    )
    yield PatternRecord(PatternKey(name, "t.*"), FoundTopics(("t1", "t2"), 5, rng.randrange(2**62)))


def version_and_body(encoded: bytes) -> tuple[int, bytes]:
    return int.from_bytes(encoded[:2], "big"), encoded[2:]


@pytest.mark.parametrize("seed", range(4))
def test_java_reads_what_we_write_and_writes_the_same_bytes(java: JavaMessages, seed: int) -> None:
    for record in some_records(seed):
        key, value = encode_record(record)
        assert value is not None
        name = NAMES[type(record)]
        for part, title, version in ((key, f"{name}Key", 0), (value, f"{name}Value", 0)):
            _, body = version_and_body(part)
            fields: dict[str, Any] = java.decode(title, version, body)
            assert java.encode(title, version, fields) == body, (title, fields)
        assert decode_record((key, value)) == record


def some_records_of_shares(seed: int) -> Iterator[ShareRecord]:
    rng = random.Random(seed)
    name = rng.choice(["g", "größe", "x" * 300])
    topics = sorted(rng.randbytes(16) for _ in range(2))
    partitions = frozenset((topic, number) for topic in topics for number in range(rng.randrange(1, 4)))
    shared = {topic: SharedTopic(f"t{rng.randrange(9)}", (0, 1)) for topic in topics}
    yield ShareRecord(ShareEpochKey(name), ShareEpoch(rng.randrange(2**31), rng.choice([0, -(2**63)])))
    subscription = ShareSubscription(rng.choice([None, "rack"]), "client", "/host", ("a", "b"))
    yield ShareRecord(ShareSubscriptionKey(name, "m"), subscription)
    yield ShareRecord(ShareTargetEpochKey(name), TargetEpoch(rng.randrange(2**31), rng.choice([0, 2**62])))
    yield ShareRecord(ShareTargetKey(name, "m"), partitions)
    yield ShareRecord(ShareAssignmentKey(name, "m"), ShareAssignment(7, rng.choice([-1, 6]), partitions))
    yield ShareRecord(SharedTopicsKey(name), shared)


@pytest.mark.parametrize("seed", range(4))
def test_java_reads_records_of_share_groups(java: JavaMessages, seed: int) -> None:
    for record in some_records_of_shares(seed):
        key, value = encode_record(record)
        assert value is not None
        name = NAMES_OF_SHARES[type(record.key)]
        for part, title in ((key, f"{name}Key"), (value, f"{name}Value")):
            _, body = version_and_body(part)
            fields: dict[str, Any] = java.decode(title, 0, body)
            assert java.encode(title, 0, fields) == body, (title, fields)
        assert decode_record((key, value)) == record


def test_java_names_what_we_mean(java: JavaMessages) -> None:
    topic = bytes(range(16))
    record = MemberAssignmentRecord(
        MemberAssignmentKey("g", "m"), MemberAssignment(7, 6, 2, {(topic, 3): 5}, {(topic, 4): 1})
    )
    value = encode_record(record)[1]
    assert value is not None
    fields = java.decode("ConsumerGroupCurrentMemberAssignmentValue", 0, value[2:])
    topic_id = base64.urlsafe_b64encode(topic).decode().rstrip("=")
    assert fields == {
        "memberEpoch": 7,
        "previousMemberEpoch": 6,
        "state": 2,
        "assignedPartitions": [{"topicId": topic_id, "partitions": [3], "assignmentEpochs": [5]}],
        "partitionsPendingRevocation": [{"topicId": topic_id, "partitions": [4], "assignmentEpochs": [1]}],
    }
