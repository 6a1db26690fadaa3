"""Offsets that the broker moves: forward, and for age only where nobody reads."""

import pytest

from siltstone.broker.groups.offsets_log.record import CommittedOffset, OffsetKey, OffsetRecord
from siltstone.broker.groups.rules.requests import ExpireOffsets, MoveOffsets, OffsetsMoved
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
