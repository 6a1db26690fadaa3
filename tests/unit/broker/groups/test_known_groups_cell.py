"""What a group is charged, and what the log would have to hold of it."""

from siltstone.broker.groups.known_groups import GROUP_OVERHEAD_BYTES, OFFSET_OVERHEAD_BYTES, KnownGroup
from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    GroupRecord,
    OffsetKey,
    OffsetRecord,
)
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.states import GroupState
from support.values.left_out import numbers_left_out

METADATA = GroupMetadata("consumer", 1, None, None, 1)


def offset(metadata: str | None, partition: int = 0) -> OffsetRecord:
    committed = None if metadata is None else CommittedOffset(1, -1, metadata, 1)
    return OffsetRecord(OffsetKey("g", "flights", partition), committed)


def test_offsets_are_charged_while_they_are_there() -> None:
    cell = KnownGroup(Group("g"))
    assert cell.charged_bytes == GROUP_OVERHEAD_BYTES and cell.is_nothing
    cell.apply(offset("abc"))
    cell.apply(offset("abcdef"))
    cell.apply(offset("", 1))
    assert cell.charged_bytes == GROUP_OVERHEAD_BYTES + 2 * OFFSET_OVERHEAD_BYTES + 6
    assert cell.live_records == 2 and not cell.is_nothing
    for partition in (0, 1, 2):
        cell.apply(offset(None, partition))
    assert cell.charged_bytes == GROUP_OVERHEAD_BYTES and cell.is_nothing


def test_records_of_what_holds_now() -> None:
    cell = KnownGroup(Group("g"))
    assert not list(cell.records_of_group()) and cell.record_of_offset(("flights", 0)) is None
    cell.apply(GroupRecord(GroupKey("g"), METADATA))
    cell.apply(offset("x"))
    assert list(cell.records_of_group()) == [GroupRecord(GroupKey("g"), METADATA)]
    assert cell.record_of_offset(("flights", 0)) == offset("x")
    assert cell.live_records == 2


def test_a_dead_group_is_nothing_and_one_that_waits_for_somebody_is_something() -> None:
    assert KnownGroup(Group("g", state=GroupState.DEAD), metadata=METADATA).is_nothing
    assert not KnownGroup(Group("g", pending=frozenset({"m"}))).is_nothing
    assert not KnownGroup(Group("g", state=GroupState.PREPARING)).is_nothing
    assert not KnownGroup(Group("g"), metadata=METADATA).is_nothing


def test_what_is_left_out() -> None:
    assert numbers_left_out(KnownGroup) == {"offsets_bytes": 0}
