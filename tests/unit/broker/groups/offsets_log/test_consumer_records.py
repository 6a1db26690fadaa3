"""Records of consumer groups of KIP-848, byte for byte."""

import pytest

from siltstone.broker.groups.offsets_log.consumer_records import (
    ClassicMember,
    EpochKey,
    EpochRecord,
    FoundTopics,
    GroupEpoch,
    MemberAssignment,
    MemberAssignmentKey,
    MemberAssignmentRecord,
    MemberSubscription,
    PartitionMetadataKey,
    PartitionMetadataRecord,
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
from siltstone.broker.groups.offsets_log.fields import DamagedGroupRecord
from siltstone.broker.groups.offsets_log.record import Record, decode_record, encode_record

TOPIC = bytes(range(16))
ID = TOPIC.hex()
SUBSCRIPTION = MemberSubscription("i", None, "c", "/h", ("a", "b"), None, 300_000, "range")
GOLDEN: dict[str, tuple[Record, str, str]] = {
    "epoch": (
        EpochRecord(EpochKey("g"), GroupEpoch(5, -7)),
        "0003 0001 67",
        "0000 00000005 01 00 08 fffffffffffffff9",
    ),
    "subscription": (
        SubscriptionRecord(SubscriptionKey("g", "m"), SUBSCRIPTION),
        "0005 0001 67 0001 6d",
        "0000 0269 00 0263 032f68 03 0261 0262 00 000493e0 06 72616e6765 00",
    ),
    "subscription of a classic member": (
        SubscriptionRecord(
            SubscriptionKey("g", "m"),
            MemberSubscription(
                None, "r", "", "", (), "t.*", -1, None, ClassicMember(45_000, (("x", b"yz"),))
            ),
        ),
        "0005 0001 67 0001 6d",
        "0000 00 0272 01 01 01 04 742e2a ffffffff 00 01 00 0d 01 0000afc8 02 0278 03 797a 00 00",
    ),
    "target epoch": (
        TargetEpochRecord(TargetEpochKey("g"), TargetEpoch(5, 1_234)),
        "0006 0001 67",
        "0000 00000005 01 00 08 00000000000004d2",
    ),
    "target": (
        TargetRecord(TargetKey("g", "m"), frozenset({(TOPIC, 1), (TOPIC, 0)})),
        "0007 0001 67 0001 6d",
        f"0000 02 {ID} 03 00000000 00000001 00 00",
    ),
    "assignment": (
        MemberAssignmentRecord(
            MemberAssignmentKey("g", "m"), MemberAssignment(5, 4, 1, {(TOPIC, 0): 3}, {(TOPIC, 2): 1})
        ),
        "0008 0001 67 0001 6d",
        f"0000 00000005 00000004 01 02 {ID} 02 00000000 01 00 05 02 00000003"
        f" 02 {ID} 02 00000002 01 00 05 02 00000001 00",
    ),
    "pattern": (
        PatternRecord(PatternKey("g", "t.*"), FoundTopics(("t1",), 7, 99)),
        "0010 0001 67 0003 742e2a",
        "0000 02 03 7431 0000000000000007 0000000000000063 00",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes(name: str) -> None:
    record, key, value = GOLDEN[name]
    encoded = (bytes.fromhex(key), bytes.fromhex(value))
    assert encode_record(record) == encoded
    assert decode_record(encoded) == record
    assert decode_record((encoded[0], None)) == type(record)(record.key, None)  # type: ignore[call-arg,arg-type]


def test_partitions_of_topics_are_only_ever_deleted() -> None:
    record = PartitionMetadataRecord(PartitionMetadataKey("g"))
    assert encode_record(record) == (b"\0\x04\0\x01g", None)
    assert decode_record((b"\0\x04\0\x01g", b"\0\0whatever")) == record


def test_a_member_of_kafka_before_43_has_its_own_epoch_for_all_partitions() -> None:
    value = f"0000 00000005 00000004 00 02 {ID} 02 00000000 00 01 00"
    record = decode_record((bytes.fromhex("0008 0001 67 0001 6d"), bytes.fromhex(value)))
    assert isinstance(record, MemberAssignmentRecord) and record.value is not None
    assert record.value.assigned == {(TOPIC, 0): 5}


@pytest.mark.parametrize("name", GOLDEN)
def test_damage_has_a_named_error(name: str) -> None:
    _, key, value = GOLDEN[name]
    whole = bytes.fromhex(value)
    for length in range(1, len(whole)):
        with pytest.raises(DamagedGroupRecord):
            decode_record((bytes.fromhex(key), whole[:length]))
    with pytest.raises(DamagedGroupRecord):
        decode_record((bytes.fromhex(key), b"\0\x01" + whole[2:]))
    with pytest.raises(DamagedGroupRecord):
        decode_record((bytes.fromhex(key) + b"x", whole))


@pytest.mark.parametrize(
    "value",
    [
        "0000 00000005 00000004 03 01 01 00",
        f"0000 00000005 00000004 00 02 {ID} 02 00000000 01 00 01 01 01 00",
    ],
)
def test_a_state_and_epochs_that_cannot_be_are_damage(value: str) -> None:
    with pytest.raises(DamagedGroupRecord):
        decode_record((bytes.fromhex("0008 0001 67 0001 6d"), bytes.fromhex(value)))
