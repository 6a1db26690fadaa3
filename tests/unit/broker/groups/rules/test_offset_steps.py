"""Offsets that are committed and deleted, and those that the broker moves: forward, and for age only where nobody
reads."""

import pytest

from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    OffsetKey,
    OffsetRecord,
)
from siltstone.broker.groups.rules.requests import (
    Commit,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ForgetOffsets,
    MoveOffsets,
    OffsetErrors,
    OffsetsMoved,
    OffsetToCommit,
)
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.group_world import GroupWorld, stable

TARGETS = {("flights", 0): 10, ("flights", 1): 10, ("flights", 2): 10, ("planes", 0): 10}
COMMITTED = {("flights", 0): 9, ("flights", 1): 10, ("flights", 2): 11}
MOVED = {("flights", 0): 10, ("planes", 0): 10}


@pytest.mark.parametrize(
    ("world", "spares_members"),
    [
        pytest.param(GroupWorld, True, id="nobody-by-age"),
        pytest.param(GroupWorld, False, id="nobody-by-quota"),
        pytest.param(lambda: stable("A"), False, id="members-by-quota"),
    ],
)
def test_forward_and_never_back(world, spares_members):
    world = world()
    world.records.clear()
    assert world.answer(MoveOffsets(TARGETS, COMMITTED, spares_members)) == OffsetsMoved(MOVED)
    moved = CommittedOffset(10, -1, "", world.now_ms)
    assert world.records == [OffsetRecord(OffsetKey("readers", *key), moved) for key in MOVED]


def test_members_are_spared():
    world = stable("A")
    world.records.clear()
    before = world.group
    answer = world.answer(MoveOffsets(TARGETS, {}, spares_members=True))
    assert (answer, world.records, world.group) == (ErrorCode.NON_EMPTY_GROUP, [], before)


def test_offsets_in_topics_that_are_kept_for_the_group_do_not_expire():
    world = GroupWorld()
    committed = CommittedOffset(5, -1, "", 0, expires_ms=1)
    offsets = {("flights", 0): committed, ("planes", 0): committed}
    world.tell(ExpireOffsets(offsets, kept_topics={"flights"}))
    assert world.records == [OffsetRecord(OffsetKey("readers", "planes", 0), None)]


def gone(topic: str, partition: int = 0) -> OffsetRecord:
    return OffsetRecord(OffsetKey("readers", topic, partition), None)


def test_a_group_without_an_offset_is_moved_from_the_first_record():
    """There, 0 would be no move."""
    targets = {("flights", 0): 0, ("flights", 1): 1}
    assert GroupWorld().answer(MoveOffsets(targets, {}, True)) == OffsetsMoved({("flights", 1): 1})


def test_each_offset_is_committed_by_itself_and_too_much_metadata_is_refused():
    """Metadata counts in bytes of UTF-8."""
    world = GroupWorld(GroupSettings(offset_metadata_max_bytes=4))
    metadata = ["1234", "12345", "ää", "äää"]
    offsets = tuple(OffsetToCommit("flights", i, 7, 2, text) for i, text in enumerate(metadata))
    fine, large = ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE
    answer = world.answer(Commit("", None, -1, offsets))
    assert answer == OffsetErrors((fine, large, fine, large))
    assert world.records == [
        OffsetRecord(
            OffsetKey("readers", "flights", i), CommittedOffset(7, 2, metadata[i], world.now_ms, None)
        )
        for i in (0, 2)
    ]


def test_an_offset_with_its_own_retention_time_expires_that_long_after_the_commit():
    world = GroupWorld()
    offset = OffsetToCommit("flights", 0, 7, -1, "")
    world.answer(Commit("", None, -1, (offset,), retention_ms=500))
    (record,) = world.records
    assert record.committed == CommittedOffset(7, -1, "", world.now_ms, world.now_ms + 500)


def test_offsets_are_deleted_where_there_are_any_and_no_member_would_commit_them_again():
    world = stable("A")
    world.records.clear()
    partitions = [("flights", 0), ("planes", 0), ("planes", 1)]
    answer = world.answer(DeleteOffsets(partitions, frozenset({("flights", 0), ("planes", 0)})))
    fine = ErrorCode.NONE
    assert answer == OffsetErrors((ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, fine, fine))
    assert world.records == [gone("planes")]


def test_what_is_to_be_forgotten_is_even_where_members_are_subscribed():
    world = stable("A")
    world.records.clear()
    world.tell(ForgetOffsets([("flights", 0)]))
    assert world.records == [gone("flights")]


def test_a_deleted_group_leaves_a_tombstone_for_each_of_its_records():
    world = stable("A")
    world.leave("A")
    world.records.clear()
    assert world.answer(DeleteGroup([("flights", 0)])) == ErrorCode.NONE
    assert world.records == [gone("flights"), GroupRecord(GroupKey("readers"), None)]
