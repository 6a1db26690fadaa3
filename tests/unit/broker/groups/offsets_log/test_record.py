"""Records of ``__consumer_offsets``: golden bytes, round trips, and bytes that are not what was written."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.groups.offsets_log.fields import DamagedGroupRecord, TextTooLong
from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    EncodedRecord,
    GroupKey,
    GroupMetadata,
    GroupRecord,
    MemberMetadata,
    OffsetKey,
    OffsetRecord,
    Record,
    UnknownKey,
    decode_record,
    encode_record,
)
from support.values.examples import examples

OFFSET_KEY = "0001 0007 72656164657273 0007 666c6967687473 00000003"
OFFSET = OffsetRecord(OffsetKey("readers", "flights", 3), CommittedOffset(258, 7, "née", 1_700_000_000_000))
OFFSET_VALUE = "0003 0000000000000102 00000007 0004 6ec3a965 0000018bcfe56800"
KEPT = OffsetRecord(OffsetKey("readers", "flights", 3), CommittedOffset(258, -1, "", 1, 2))
KEPT_VALUE = "0001 0000000000000102 0000 0000000000000001 0000000000000002"
GROUP_KEY = "0002 0007 72656164657273"
EMPTY = GroupRecord(GroupKey("readers"), GroupMetadata("consumer", 4, None, None, 5))
EMPTY_VALUE = "0003 0008 636f6e73756d6572 00000004 ffff ffff 0000000000000005 00000000"
MEMBER = MemberMetadata("m-1", "desk", "client", "/10.0.0.1", 60_000, 10_000, b"\x01\x02", b"\x03")
STABLE = GroupRecord(GroupKey("readers"), GroupMetadata("consumer", 4, "range", "m-1", 5, (MEMBER,)))
STABLE_VALUE = (
    "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0003 6d2d31 0000000000000005 00000001"
    "0003 6d2d31 0004 6465736b 0006 636c69656e74 0009 2f31302e302e302e31"
    "0000ea60 00002710 00000002 0102 00000001 03"
)
GOLDEN = {
    "offset": (OFFSET, OFFSET_KEY, OFFSET_VALUE),
    "offset with expiry": (KEPT, OFFSET_KEY, KEPT_VALUE),
    "offset tombstone": (OffsetRecord(OFFSET.key, None), OFFSET_KEY, None),
    "empty group": (EMPTY, GROUP_KEY, EMPTY_VALUE),
    "stable group": (STABLE, GROUP_KEY, STABLE_VALUE),
    "group tombstone": (GroupRecord(STABLE.key, None), GROUP_KEY, None),
}


def as_bytes(key: str, value: str | None) -> EncodedRecord:
    return bytes.fromhex(key), None if value is None else bytes.fromhex(value)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes(name: str) -> None:
    record, key, value = GOLDEN[name]
    assert encode_record(record) == as_bytes(key, value)
    assert decode_record(as_bytes(key, value)) == record


OLDER = {
    "offset 0": (
        as_bytes("0000 0001 67 0001 74 00000000", "0000 0000000000000009 0001 6d 0000000000000008"),
        OffsetRecord(OffsetKey("g", "t", 0), CommittedOffset(9, -1, "m", 8)),
    ),
    "offset 1 without expiry": (
        as_bytes(
            "0001 0001 67 0001 74 00000000", "0001 0000000000000009 0000 0000000000000008 ffffffffffffffff"
        ),
        OffsetRecord(OffsetKey("g", "t", 0), CommittedOffset(9, -1, "", 8)),
    ),
    "offset 2": (
        as_bytes("0001 0001 67 0001 74 00000000", "0002 0000000000000009 0000 0000000000000008"),
        OffsetRecord(OffsetKey("g", "t", 0), CommittedOffset(9, -1, "", 8)),
    ),
    "group 0": (
        as_bytes(
            "0002 0001 67",
            "0000 0001 63 00000001 0001 70 0001 6c 00000001 0001 6c 0001 63 0001 68 00000005 00000000 00000000",
        ),
        GroupRecord(
            GroupKey("g"),
            GroupMetadata("c", 1, "p", "l", -1, (MemberMetadata("l", None, "c", "h", 5, 5, b"", b""),)),
        ),
    ),
    "group 1": (
        as_bytes(
            "0002 0001 67",
            "0001 0001 63 00000001 0001 70 0001 6c 00000001"
            "0001 6c 0001 63 0001 68 00000006 00000005 00000000 00000000",
        ),
        GroupRecord(
            GroupKey("g"),
            GroupMetadata("c", 1, "p", "l", -1, (MemberMetadata("l", None, "c", "h", 6, 5, b"", b""),)),
        ),
    ),
    "group 2": (
        as_bytes("0002 0001 67", "0002 0000 00000001 ffff ffff 0000000000000007 00000000"),
        GroupRecord(GroupKey("g"), GroupMetadata("", 1, None, None, 7)),
    ),
}


@pytest.mark.parametrize("name", OLDER)
def test_older_versions_are_read(name: str) -> None:
    encoded, record = OLDER[name]
    assert decode_record(encoded) == record


@pytest.mark.parametrize("version", [9, 17, 21, 0x7FFF])
def test_keys_of_other_kinds_are_told_apart(version: int) -> None:
    assert decode_record((version.to_bytes(2, "big") + b"whatever", b"\xff")) == UnknownKey(version)


@pytest.mark.parametrize("name", ["offset", "offset with expiry", "empty group", "stable group"])
@pytest.mark.parametrize("part", [0, 1], ids=["key", "value"])
def test_truncated_and_over_long_bytes_have_a_named_error(name: str, part: int) -> None:
    _, key, value = GOLDEN[name]
    whole = as_bytes(key, value)
    for changed in [whole[part][:end] for end in range(len(whole[part]))] + [whole[part] + b"\0"]:
        damaged = (changed, whole[1]) if part == 0 else (whole[0], changed)
        with pytest.raises(DamagedGroupRecord):
            decode_record(damaged)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ffff 0001 67", None),  # a negative version
        ("0002 ffff", None),  # null where it must not be
        ("0002 fffe", None),  # a negative length
        ("0002 0001 ff", None),  # not UTF-8
        (OFFSET_KEY, "0004" + OFFSET_VALUE[4:]),  # a version to come
        (OFFSET_KEY, "ffff" + OFFSET_VALUE[4:]),
        (GROUP_KEY, "0004" + EMPTY_VALUE[4:]),
        (GROUP_KEY, EMPTY_VALUE[:-8] + "7fffffff"),  # more members than bytes
        (GROUP_KEY, EMPTY_VALUE[:-8] + "ffffffff"),
    ],
)
def test_bytes_nobody_wrote_have_a_named_error(key: str, value: str | None) -> None:
    with pytest.raises(DamagedGroupRecord):
        decode_record(as_bytes(key, value))


@settings(max_examples=examples(200))
@given(
    st.sampled_from(["offset", "offset with expiry", "empty group", "stable group"]),
    st.integers(0),
    st.integers(1, 255),
)
def test_flipped_bytes_give_another_value_or_a_named_error(name: str, place: int, flip: int) -> None:
    _, key, value = GOLDEN[name]
    whole = as_bytes(key, value)
    flipped = bytearray(whole[1] or b"")
    flipped[2 + place % (len(flipped) - 2)] ^= flip  # behind the version: some look the same in several
    with suppress(DamagedGroupRecord):
        assert decode_record((whole[0], bytes(flipped))) != GOLDEN[name][0]


texts = st.text(st.characters(codec="utf-8"), max_size=20)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
blobs = st.binary(max_size=30)
offsets = st.builds(
    OffsetRecord,
    st.builds(OffsetKey, texts, texts, ints),
    st.none() | st.builds(CommittedOffset, longs, ints, texts, longs),
)
members = st.builds(
    MemberMetadata, texts, st.none() | texts, texts, texts, st.integers(0, 2**31 - 1), ints, blobs, blobs
)
groups = st.builds(
    GroupRecord,
    st.builds(GroupKey, texts),
    st.none()
    | st.builds(
        GroupMetadata,
        texts,
        ints,
        st.none() | texts,
        st.none() | texts,
        longs,
        st.tuples() | st.tuples(members, members),
    ),
)


@settings(max_examples=examples(200))
@given(offsets | groups)
def test_round_trip(record: Record) -> None:
    assert decode_record(encode_record(record)) == record


def test_a_text_that_does_not_fit_is_refused() -> None:
    assert encode_record(GroupRecord(GroupKey("x" * 32_767), None))
    with pytest.raises(TextTooLong, match="32768 bytes"):
        encode_record(GroupRecord(GroupKey("x" * 32_768), None))
    with pytest.raises(TextTooLong):
        encode_record(OffsetRecord(OFFSET.key, CommittedOffset(1, 1, "ü" * 16_384, 1)))
