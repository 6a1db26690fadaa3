"""Decisions in full: answers, timers and records of the steps that the table only names."""

import pytest

from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    OffsetKey,
    OffsetRecord,
)
from siltstone.broker.groups.rules.decision import JOIN_TIMER, SYNC_TIMER, metadata_of
from siltstone.broker.groups.rules.group import MEMBER_OVERHEAD_BYTES
from siltstone.broker.groups.rules.requests import (
    Assigned,
    Close,
    Commit,
    DeleteGroup,
    ExpireOffsets,
    GroupTimer,
    Joined,
    Leave,
    LeavingMember,
    Left,
    MemberIdGiven,
    OffsetErrors,
    OffsetToCommit,
    Sync,
    TimerKind,
)
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.group_world import REBALANCE_MS, SESSION_MS, START_MS, GroupWorld, join, stable

KAFKAS = GroupSettings()


def session(member_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.SESSION, member_id)


def test_only_stable_and_empty_groups_are_written_down() -> None:
    world = GroupWorld()
    world.all_join("L", "F")
    assert world.records == []
    world.all_sync()
    assert world.records == [GroupRecord(GroupKey("readers"), metadata_of(world.group))]
    assert world.group.is_saved
    world.leave("L", "F")
    assert world.group.state is GroupState.EMPTY and world.group.generation == 2
    (_, empty) = world.records
    assert empty == GroupRecord(GroupKey("readers"), metadata_of(world.group))
    assert world.group.protocol_type == "consumer" and world.group.protocol_name is None
    assert world.group.leader_id is None and world.group.subscribed_topics == frozenset()


def test_a_generation_that_was_not_finished_can_not_be_written_down() -> None:
    world = GroupWorld()
    world.all_join("L")
    with pytest.raises(AssertionError):
        metadata_of(world.group)


def test_leaving_during_the_initial_delay_does_not_end_it() -> None:
    world = GroupWorld(KAFKAS)
    first, second = world.ask(join(new="first")), world.ask(join(new="second"))
    assert world.leave("first") == Left((ErrorCode.NONE,))
    assert world.answers[first] is ErrorCode.UNKNOWN_MEMBER_ID
    assert second in world.waiting and world.group.state is GroupState.PREPARING
    world.pass_ms(6_000)
    assert world.joined(second).leader_id == "second"


def test_everybody_leaves_during_the_initial_delay() -> None:
    world = GroupWorld(KAFKAS)
    world.ask(join(new="first"))
    world.leave("first")
    world.pass_ms(3_000)
    assert world.group.state is GroupState.EMPTY and world.group.generation == 1
    assert not world.timers and world.group.initial is None


def test_the_delay_is_not_extended_without_newcomers_nor_beyond_the_rebalance_timeout() -> None:
    world = GroupWorld(KAFKAS)
    only = world.ask(join(new="only"))
    world.pass_ms(3_000)
    assert only in world.answers
    short = GroupWorld(KAFKAS)
    first = short.ask(join(new="first", rebalance_ms=1_000))
    second = short.ask(join(new="second"))
    short.pass_ms(3_000)
    assert first in short.answers and second in short.answers


def test_the_leader_that_stays_away_is_replaced_by_the_oldest_member() -> None:
    world = stable("L", "A", "B")
    world.ask(join(new="C"))
    waiting = [world.rejoin("B"), world.rejoin("A")]
    world.pass_ms(REBALANCE_MS)
    assert {world.joined(ticket).leader_id for ticket in waiting} == {"A"}
    assert [member.member_id for member in world.joined(waiting[1]).members] == ["A", "B", "C"]


def test_an_absent_leader_that_is_static_leads_no_more_and_stays() -> None:
    world = GroupWorld()
    for name in ("L", "A"):
        world.ask(join(new=name, instance="L" if name == "L" else None, session_ms=1_000_000))
    world.pass_ms(0)
    world.all_sync()
    newcomer = world.ask(join(new="B"))
    world.rejoin("A")
    world.pass_ms(REBALANCE_MS)
    assert world.joined(newcomer).leader_id == "A"
    assert world.group.members.keys() == {"L", "A", "B"} and not world.group.members["L"].must_sync


def test_deserted_it_waits_for_another_rebalance_timeout() -> None:
    world = GroupWorld()
    world.all_join("X", "T", static=("T",))
    world.all_sync()
    world.leave("X")
    world.ring(JOIN_TIMER)
    assert world.group.state is GroupState.PREPARING
    assert world.timers[JOIN_TIMER] == world.now_ms + REBALANCE_MS
    ticket = world.rejoin("T")
    assert world.joined(ticket).generation == 2


def test_a_new_assignment_reaches_those_who_sync_late() -> None:
    world = GroupWorld()
    world.all_join("L", "F")
    world.ask(world.sync("L", {"L": b"l", "F": b"f"}))
    assert world.group.state is GroupState.STABLE and SYNC_TIMER in world.timers
    assert world.answer(world.sync("F")) == Assigned("consumer", "range", b"f")
    assert SYNC_TIMER not in world.timers


def test_whoever_is_left_out_by_the_leader_is_assigned_nothing() -> None:
    world = GroupWorld()
    world.all_join("L", "F")
    world.ask(world.sync("L", {"L": b"l", "stranger": b"s"}))
    assert world.answer(world.sync("F")) == Assigned("consumer", "range", b"")


def test_the_session_begins_anew_with_each_sign_of_life() -> None:
    world = stable("L", "F")
    commit = Commit("F", None, 1, (OffsetToCommit("flights", 0, 1, -1, ""),))
    for sign in (lambda: world.beat("F"), lambda: world.ask(world.sync("F")), lambda: world.ask(commit)):
        world.now_ms += 1_000
        sign()
        assert world.timers[session("F")] == world.now_ms + SESSION_MS


def test_the_last_sync_request_is_the_one_that_is_answered() -> None:
    world = GroupWorld()
    world.all_join("L", "F")
    first, second = world.ask(world.sync("F")), world.ask(world.sync("F"))
    assert world.answers[first] is ErrorCode.REBALANCE_IN_PROGRESS and second in world.waiting
    world.ask(world.sync("L", {"F": b"f"}))
    assert world.answers[second] == Assigned("consumer", "range", b"f")


def test_a_member_that_waits_does_not_lose_its_session() -> None:
    world = stable("L", "F", "G")
    waiting = world.rejoin("L")
    for _ in range(3):
        world.pass_ms(SESSION_MS - 1)
        for name in ("F", "G"):
            assert world.beat(name) is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting in world.waiting and "L" in world.group.members


def test_leaving_twice_in_one_request_is_leaving_once() -> None:
    world = stable("L", "F")
    answer = world.answer(Leave((LeavingMember("F"), LeavingMember("F"), LeavingMember("Z"))))
    assert answer == Left((ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID))
    assert world.group.members.keys() == {"L"}


def test_members_that_leave_together_cause_one_rebalance() -> None:
    world = stable("L", "F", "G")
    world.leave("F", "G")
    ticket = world.rejoin("L")
    assert world.joined(ticket).generation == 2


def test_a_leave_of_strangers_changes_nothing() -> None:
    world = stable("L", "F")
    before = world.group
    assert world.leave("nobody") == Left((ErrorCode.UNKNOWN_MEMBER_ID,))
    assert world.answer(Leave(())) == Left(())
    assert world.group == before


def test_each_offset_by_itself() -> None:
    world = stable("L")
    offsets = (
        OffsetToCommit("flights", 0, 5, 3, "fine"),
        OffsetToCommit("flights", 1, 6, -1, "x" * 4_097),
        OffsetToCommit("planes", 0, 7, -1, ""),
    )
    before = len(world.records)
    answer = world.answer(Commit("L", None, 1, offsets))
    assert answer == OffsetErrors((ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE))
    assert world.records[before:] == [
        OffsetRecord(OffsetKey("readers", "flights", 0), CommittedOffset(5, 3, "fine", world.now_ms)),
        OffsetRecord(OffsetKey("readers", "planes", 0), CommittedOffset(7, -1, "", world.now_ms)),
    ]


def test_a_retention_time_of_its_own_counts_from_now() -> None:
    world = GroupWorld()
    world.ask(Commit("", None, -1, (OffsetToCommit("flights", 0, 5, -1, ""),), retention_ms=1_000))
    (record,) = world.records
    assert isinstance(record, OffsetRecord) and record.committed is not None
    assert record.committed.expires_ms == START_MS + 1_000


@pytest.mark.parametrize("was_saved", [False, True])
def test_a_deleted_group_leaves_a_tombstone_for_each_of_its_records(was_saved: bool) -> None:
    world = stable("L") if was_saved else GroupWorld()
    if was_saved:
        world.leave("L")
    world.ask(join(new="pending", takes_member_id=True))
    world.records.clear()
    assert world.answer(DeleteGroup((("flights", 0), ("flights", 1)))) is ErrorCode.NONE
    buried = [record.key for record in world.records]
    offsets = [OffsetKey("readers", "flights", 0), OffsetKey("readers", "flights", 1)]
    assert buried == [*offsets, GroupKey("readers")] if was_saved else offsets
    assert world.group.state is GroupState.DEAD and not world.timers


def test_expired_offsets_are_buried_and_the_rest_stays() -> None:
    world = GroupWorld()
    old, young = CommittedOffset(1, -1, "", START_MS), CommittedOffset(1, -1, "", START_MS + 10)
    world.now_ms += 7 * 24 * 3_600_000
    world.tell(ExpireOffsets({("flights", 0): old, ("flights", 1): young}))
    assert world.records == [OffsetRecord(OffsetKey("readers", "flights", 0), None)]
    assert world.group.state is GroupState.EMPTY


def test_closing_sends_everybody_elsewhere() -> None:
    world = stable("L", "F", "T", static=("T",))
    waiting = world.rejoin("L")
    world.ask(join(new="pending", takes_member_id=True))
    world.tell(Close())
    assert world.answers[waiting] is ErrorCode.NOT_COORDINATOR
    assert not world.waiting and not world.timers and world.group.state is GroupState.DEAD
    completing = GroupWorld()
    completing.all_join("L", "F")
    syncing = completing.ask(completing.sync("F"))
    completing.tell(Close())
    assert completing.answers[syncing] is ErrorCode.NOT_COORDINATOR and not completing.timers


def test_the_group_that_was_asked_is_not_changed() -> None:
    world = stable("L", "F")
    before, members = world.group, dict(world.group.members)
    world.rejoin("L")
    world.leave("F")
    assert before.members == members and before.state is GroupState.STABLE


def test_a_static_member_that_returns_to_a_join_phase_keeps_its_place() -> None:
    world = stable("L", "T", static=("T",))
    world.rejoin("L")
    returned = world.ask(join(new="T2", instance="T"))
    answer = world.joined(returned)
    assert isinstance(answer, Joined) and answer.generation == 2
    assert world.group.members.keys() == {"L", "T2"} and session("T") not in world.timers


def test_a_static_leader_that_returns_leads_on() -> None:
    world = stable("L", "F", static=("L",))
    answer = world.joined(world.ask(join(new="L2", instance="L")))
    assert answer.leader_id == answer.member_id == world.group.leader_id == "L2"
    assert answer.skip_assignment and world.group.members["L2"].assignment == b"L"


def test_an_assignment_is_of_its_generation() -> None:
    """While a generation is being assigned nobody has one of it; what a leader brings is not mixed with what was."""
    world = stable("L", "F")
    world.rejoin("L")
    world.rejoin("F")
    assert {member.assignment for member in world.group.members.values()} == {b""}
    world.ask(Sync("L", None, 2, assignments={"L": b"all"}))
    assert world.answer(world.sync("F")) == Assigned("consumer", "range", b"")


def test_only_a_dynamic_member_is_first_given_an_id_to_join_with() -> None:
    assert GroupWorld().answer(join(new="m", takes_member_id=True)) == MemberIdGiven("m")
    world = GroupWorld()
    world.ask(join(new="m", instance="one", takes_member_id=True))
    assert world.group.members.keys() == {"m"} and world.group.pending == frozenset()


def test_the_protocols_of_a_member_that_rejoins_are_not_counted_twice() -> None:
    charged_bytes = stable("A").group.charged_bytes
    limit = GroupSettings(
        group_initial_rebalance_delay_ms=0, group_bytes_max=charged_bytes + MEMBER_OVERHEAD_BYTES
    )
    world = stable("A", settings=limit)
    assert world.joined(world.rejoin("A")).member_id == "A"
    assert world.answer(join(new="B")) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_commit_without_a_member_but_with_a_generation_is_refused() -> None:
    world = stable("A")
    world.records.clear()
    commit = Commit("", None, 0, (OffsetToCommit("flights", 0, 7, -1, ""),))
    assert world.answer(commit) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.records == []
