"""What a request means to the group that it meets."""

from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    OffsetKey,
    OffsetRecord,
)
from siltstone.broker.groups.rules.group import MEMBER_OVERHEAD_BYTES, Protocol, protocols_bytes
from siltstone.broker.groups.rules.requests import (
    Assigned,
    Commit,
    ExpireOffsets,
    GroupTimer,
    Heartbeat,
    Left,
    MemberIdGiven,
    OffsetErrors,
    OffsetToCommit,
    Sync,
    TimerKind,
    TimerRang,
)
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.consumer_bytes import subscription
from support.groups.group_world import RANGE, REBALANCE_MS, SESSION_MS, START_MS, GroupWorld, join, stable


def session(member_id: str) -> GroupTimer:
    return GroupTimer(TimerKind.SESSION, member_id)


def limited(**limits: int) -> GroupSettings:
    return GroupSettings(group_initial_rebalance_delay_ms=0, **limits)


def test_a_full_group_takes_back_its_own_and_nobody_else() -> None:
    world = stable("A", "T", static=("T",), settings=limited(group_max_size=2))
    assert world.answer(join(new="C")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.answer(join(new="D", instance="another")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.joined(world.ask(join(new="T2", instance="T")))
    assert world.group.members.keys() == {"A", "T2"}
    world.rejoin("A")
    assert world.group.state is GroupState.PREPARING


def test_during_a_join_phase_only_members_that_are_sure_to_stay_count() -> None:
    """A newcomer may take the place of a member that has not rejoined; that one is then refused."""
    world = stable("A", "B", settings=limited(group_max_size=2))
    waiting = world.rejoin("A")
    newcomer = world.ask(join(new="C"))
    assert newcomer in world.waiting
    assert world.answers[world.rejoin("B")] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.answer(join(new="D")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    again = world.rejoin("A")
    assert world.answers[waiting] is not ErrorCode.GROUP_MAX_SIZE_REACHED
    world.pass_ms(REBALANCE_MS)
    assert {member.member_id for member in world.joined(again).members} == {"A", "C"}


def test_a_group_takes_members_up_to_its_bytes_and_not_one_more() -> None:
    for room in (-1, 0):
        world = stable("A")
        needed = world.group.charged_bytes + MEMBER_OVERHEAD_BYTES + protocols_bytes(RANGE)
        world.settings = limited(group_bytes_max=needed + room)
        asked = world.ask(join(new="B"))
        assert (world.answers.get(asked) is ErrorCode.GROUP_MAX_SIZE_REACHED) is (room < 0)


def test_an_assignment_fits_into_the_bytes_of_its_group_or_is_refused() -> None:
    for room, answer in ((-1, ErrorCode.MESSAGE_TOO_LARGE), (0, Assigned("consumer", "range", b"12345"))):
        world = GroupWorld()
        world.all_join("L")
        world.settings = limited(group_bytes_max=world.group.members_bytes + 5 + room)
        assert world.answer(world.sync("L", {"L": b"12345"})) == answer


def test_a_member_of_another_kind_of_group_cannot_join() -> None:
    world = stable("A")
    assert world.answer(join(new="B", protocol_type="connect")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = (Protocol("sticky", subscription("flights")),)
    assert world.answer(join(new="B", protocols=other)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.group.state is GroupState.STABLE


def test_who_rejoins_unchanged_is_told_and_who_changed_or_leads_begins_a_rebalance() -> None:
    changed = (Protocol("range", subscription("flights", "planes")),)
    for name, protocols, begins in (("F", RANGE, False), ("F", changed, True), ("L", RANGE, True)):
        world = stable("L", "F")
        asked = world.ask(join(name, protocols=protocols))
        assert (world.group.state is GroupState.PREPARING) is begins
        if not begins:
            assert (world.joined(asked).generation, world.joined(asked).leader_id) == (1, "L")


def test_a_member_id_that_was_given_is_taken_once_and_by_no_static_member() -> None:
    world = GroupWorld()
    assert world.answer(join(new="m", takes_member_id=True)) == MemberIdGiven("m")
    assert world.answer(join("m", instance="one")) is ErrorCode.UNKNOWN_MEMBER_ID
    world.ask(join("m"))
    assert world.group.members.keys() == {"m"} and not world.group.pending
    assert world.answer(join("stranger")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_returns_with_the_same_topics_causes_no_rebalance() -> None:
    same = (Protocol("range", subscription("flights", user_data=b"other")),)
    other = (Protocol("range", subscription("planes")),)
    more = (*RANGE, Protocol("sticky", subscription("flights")))
    for protocols, is_kept in ((RANGE, True), (same, True), (more, True), (other, False)):
        world = stable("L", "T", static=("T",))
        asked = world.ask(join(new="T2", instance="T", protocols=protocols))
        assert (world.group.state is GroupState.STABLE) is is_kept
        assert (asked in world.answers) is is_kept


def test_a_sync_with_another_protocol_is_refused_and_without_one_is_not() -> None:
    for protocol_type, protocol_name, is_refused in (
        (None, None, False), ("consumer", "range", False), ("consumer", None, False), (None, "range", False),
        ("connect", "range", True), ("consumer", "sticky", True), (None, "sticky", True), ("connect", None, True),
    ):  # fmt: skip
        world = stable("L")
        answer = world.answer(Sync("L", None, 1, protocol_type, protocol_name))
        assert answer == (
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_refused else Assigned("consumer", "range", b"L")
        )


def test_requests_of_another_generation_are_refused() -> None:
    world = stable("L")
    for generation in (0, 2):
        assert world.answer(Heartbeat("L", None, generation)) is ErrorCode.ILLEGAL_GENERATION
        assert world.answer(Sync("L", None, generation)) is ErrorCode.ILLEGAL_GENERATION
        commit = Commit("L", None, generation, (OffsetToCommit("flights", 0, 1, -1, ""),))
        assert world.answer(commit) is ErrorCode.ILLEGAL_GENERATION
    assert world.answer(Heartbeat("X", None, 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.answer(Heartbeat("L", None, 1)) is ErrorCode.NONE


def test_who_never_took_its_member_id_is_forgotten_and_may_leave() -> None:
    for ends in ("time", "leave"):
        world = GroupWorld()
        world.answer(join(new="m", takes_member_id=True))
        if ends == "time":
            world.pass_ms(SESSION_MS)
        else:
            assert world.leave("m") == Left((ErrorCode.NONE,))
        assert not world.group.pending and not world.timers
        assert world.answer(join("m")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_goes_unless_an_answer_is_owed_to_it() -> None:
    world = stable("L", "F")
    world.rejoin("L")
    world.tell(TimerRang(session("L")))
    assert "L" in world.group.members
    world.tell(TimerRang(session("F")))
    assert world.group.members.keys() == {"L"}
    syncing = stable("L", "F")
    syncing.rejoin("L")
    syncing.rejoin("F")
    syncing.ask(syncing.sync("F"))
    syncing.tell(TimerRang(session("F")))
    assert "F" in syncing.group.members, "it waits for its assignment"


def test_newcomers_prolong_the_initial_delay() -> None:
    world = GroupWorld(GroupSettings(group_initial_rebalance_delay_ms=1_000))
    first = world.ask(join(new="A"))
    world.pass_ms(999)
    second = world.ask(join(new="B"))
    world.pass_ms(1)
    assert {first, second} <= world.waiting, "somebody came during the delay"
    world.pass_ms(1_000)
    assert world.joined(first).generation == world.joined(second).generation == 1


def test_an_outsider_commits_to_a_group_without_members_or_without_naming_one() -> None:
    offsets = (OffsetToCommit("flights", 0, 1, -1, ""),)
    empty = stable("L")
    empty.leave("L")
    assert empty.answer(Commit("L", None, -1, offsets)) == OffsetErrors((ErrorCode.NONE,))
    world = stable("L")
    assert world.answer(Commit("L", None, -1, offsets)) is ErrorCode.ILLEGAL_GENERATION
    assert world.answer(Commit("", "static", -1, offsets)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.answer(Commit("L", None, 1, offsets)) == OffsetErrors((ErrorCode.NONE,))
    fresh = GroupWorld()
    assert fresh.answer(Commit("", None, -1, offsets)) == OffsetErrors((ErrorCode.NONE,))


def test_the_last_offset_that_expires_takes_the_group_along() -> None:
    world = GroupWorld()
    old = CommittedOffset(1, -1, "", START_MS)
    world.now_ms += 7 * 24 * 3_600_000
    world.tell(ExpireOffsets({("flights", 0): old}))
    assert world.group.state is GroupState.DEAD
    assert world.records == [OffsetRecord(OffsetKey("readers", "flights", 0), None)]


def test_the_session_of_a_member_that_waited_for_its_assignment_begins_with_the_answer() -> None:
    """It could not send heartbeats meanwhile."""
    world = GroupWorld()
    world.all_join("L", "F")
    waiting = world.ask(world.sync("F"))
    world.now_ms += SESSION_MS - 1
    world.ask(world.sync("L", {"L": b"l", "F": b"f"}))
    assert world.answers[waiting] == Assigned("consumer", "range", b"f")
    assert world.timers[session("F")] == world.now_ms + SESSION_MS


def test_the_leader_stays_while_others_join() -> None:
    world = GroupWorld()
    world.all_join("L")
    assert world.group.leader_id == "L"
    world.ask(join(new="F"))
    assert world.group.leader_id == "L"
    world.rejoin("L")
    assert (world.group.leader_id, world.group.generation) == ("L", 2)
