"""Groups of KIP-848, decided one heartbeat after the other (scenarios NG)."""

import pytest

from siltstone.broker.groups.consumer_protocol.group import ConsumerGroupState, MemberState
from siltstone.broker.groups.offsets_log.consumer_records import (
    EpochRecord,
    MemberAssignmentRecord,
    SubscriptionRecord,
    TargetEpochRecord,
    TargetRecord,
)
from siltstone.broker.groups.rules.requests import BeatAnswer
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.consumer_world import REBALANCE_MS, ConsumerWorld

TOMBSTONES = [
    (MemberAssignmentRecord, True),
    (TargetRecord, True),
    (SubscriptionRecord, True),
    (EpochRecord, False),
]


def settled_pair() -> tuple[ConsumerWorld, frozenset[tuple[bytes, int]]]:
    """A has two partitions of four, which are returned, and B the others."""
    world = ConsumerWorld(t=4)
    world.join("A")
    world.join("B")
    told = world.beat("A", 1)
    assert isinstance(told, BeatAnswer) and told.assigned is not None
    world.beat("A", 1, owned=told.assigned)
    world.beat("B", 2)
    return world, told.assigned


def test_ng01_the_first_member_gets_all_in_one_decision() -> None:
    world = ConsumerWorld(t=4)
    answer = world.join("A")
    assert answer == BeatAnswer("A", 1, frozenset(world.topics.partitions("t")))
    assert [type(record) for record in world.last] == [
        SubscriptionRecord, EpochRecord, TargetRecord, TargetEpochRecord, MemberAssignmentRecord,
    ]  # fmt: skip
    assert world.group.state is ConsumerGroupState.STABLE


def test_ng02_a_partition_is_given_only_when_it_was_given_back() -> None:
    world = ConsumerWorld(t=4)
    everything = frozenset(world.topics.partitions("t"))
    world.join("A")
    assert world.join("B") == BeatAnswer("B", 2, frozenset())
    assert world.member("B").state is MemberState.UNRELEASED
    asked_back = world.beat("A", 1)
    assert isinstance(asked_back, BeatAnswer) and asked_back.epoch == 1 and asked_back.assigned is not None
    assert len(asked_back.assigned) == 2 and world.group.state is ConsumerGroupState.RECONCILING
    assert world.beat("B", 2) == BeatAnswer("B", 2, None)
    assert world.beat("A", 1) == BeatAnswer("A", 1, None), (
        "it says nothing of what it owns: it still has them"
    )
    assert world.beat("A", 1, owned=asked_back.assigned) == BeatAnswer("A", 2, None)
    assert world.beat("B", 2) == BeatAnswer("B", 2, everything - asked_back.assigned)
    assert world.group.state is ConsumerGroupState.STABLE


def test_ng03_a_member_that_gives_nothing_back_is_removed() -> None:
    world = ConsumerWorld(GroupSettings(group_consumer_session_timeout_ms=10 * REBALANCE_MS), t=4)
    world.join("A")
    world.let_pass(1_000)
    world.join("B")
    world.beat("A", 1)
    world.let_pass(REBALANCE_MS - 1)
    assert set(world.group.members) == {"A", "B"}
    world.let_pass(1)
    assert set(world.group.members) == {"B"}
    assert world.beat("B", 2) == BeatAnswer("B", 3, frozenset(world.topics.partitions("t")))
    assert world.beat("A", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_ng03_a_second_revocation_has_its_time_in_full() -> None:
    world = ConsumerWorld(GroupSettings(
        group_consumer_session_timeout_ms=10 * REBALANCE_MS, group_consumer_assignment_interval_ms=0
    ), t=6)  # fmt: skip
    world.join("A")
    world.join("B")
    first = world.beat("A", 1)
    assert isinstance(first, BeatAnswer)
    world.let_pass(REBALANCE_MS // 2)
    world.join("C")
    second = world.beat("A", 1, owned=first.assigned)
    assert isinstance(second, BeatAnswer) and second.assigned is not None and len(second.assigned) == 2
    world.let_pass(REBALANCE_MS - 1)
    assert "A" in world.group.members
    world.let_pass(1)
    assert "A" not in world.group.members


@pytest.mark.parametrize(
    ("epoch", "error"), [(3, ErrorCode.FENCED_MEMBER_EPOCH), (2, None), (1, ErrorCode.FENCED_MEMBER_EPOCH)]
)
def test_ng05_an_epoch_is_the_present_one(epoch: int, error: ErrorCode | None) -> None:
    """A's epoch is 2, and was 1 before: without its partitions it cannot be told from a zombie."""
    world, _ = settled_pair()
    answer = world.beat("A", epoch)
    assert answer is error if error else answer == BeatAnswer("A", 2, None)


def test_ng05_the_epoch_before_will_do_with_no_more_than_what_was_given() -> None:
    world, of_a = settled_pair()
    assert isinstance(world.beat("A", 1, owned=of_a), BeatAnswer)
    assert world.beat("A", 1, owned=frozenset(world.topics.partitions("t"))) is ErrorCode.FENCED_MEMBER_EPOCH


def test_ng06_a_silent_member_is_removed() -> None:
    world, _ = settled_pair()
    world.let_pass(44_999)
    world.beat("B", 2)
    world.let_pass(1)
    assert set(world.group.members) == {"B"} and world.group.epoch == 3
    assert world.beat("B", 2) == BeatAnswer("B", 3, frozenset(world.topics.partitions("t")))


def test_ng07_the_others_get_the_partitions_of_a_member_that_leaves() -> None:
    world, _ = settled_pair()
    assert world.beat("A", -1) == BeatAnswer("A", -1, None)
    assert [(type(record), record.value is None) for record in world.last] == TOMBSTONES  # type: ignore[attr-defined]
    assert world.beat("B", 2) == BeatAnswer("B", 3, frozenset(world.topics.partitions("t")))
    world.beat("B", -1)
    assert world.group.state is ConsumerGroupState.EMPTY and world.timers == {}


def test_ng08_a_static_member_that_is_back_in_time_has_what_it_had() -> None:
    world = ConsumerWorld(t=4)
    world.join("A", instance_id="one")
    world.join("B")
    told = world.beat("A", 1, instance_id="one")
    assert isinstance(told, BeatAnswer) and told.assigned is not None
    world.beat("A", 1, instance_id="one", owned=told.assigned)
    world.beat("B", 2)
    assert world.beat("A", -2, instance_id="one") == BeatAnswer("A", -2, None)
    assert world.beat("B", 2) == BeatAnswer("B", 2, None), "nobody else notices"
    assert world.join("A2", instance_id="one") == BeatAnswer("A2", 2, told.assigned)
    assert world.group.epoch == 2 and set(world.group.members) == {"A2", "B"}
    assert world.beat("A", 2, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID


def test_ng08_one_that_stays_away_loses_it() -> None:
    world = ConsumerWorld(t=4)
    world.join("A", instance_id="one")
    world.join("B")
    world.beat("A", -2, instance_id="one")
    for _ in range(10):
        world.let_pass(5_000)
        world.beat("B", world.member("B").epoch)
    assert set(world.group.members) == {"B"}
    assert set(world.member("B").assigned) == world.topics.partitions("t")


def test_ng09_an_instance_that_is_there_is_not_taken_over() -> None:
    world = ConsumerWorld(t=4)
    world.join("A", instance_id="one")
    assert world.join("B", instance_id="one") is ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.beat("B", 1, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert world.beat("B", 1, instance_id="two") is ErrorCode.UNKNOWN_MEMBER_ID
    assert isinstance(world.join("A", instance_id="one"), BeatAnswer), "the same client has lost its state"


def test_ng10_a_topic_that_matches_later_is_read_within_ten_seconds() -> None:
    world = ConsumerWorld(**{"t-1": 1, "u": 1})
    assert world.join("A", topics=(), regex="^t-.*") == BeatAnswer(
        "A", 1, frozenset(world.topics.partitions("t-1"))
    )
    world.let_pass(5_000)
    world.topics.create("t-9", 1)
    assert world.beat("A", 1) == BeatAnswer("A", 1, None), "topics may come every second"
    world.let_pass(5_000)
    both = frozenset(world.topics.partitions("t-1") | world.topics.partitions("t-9"))
    assert world.beat("A", 1) == BeatAnswer("A", 2, both)
    world.topics.delete("t-1")
    world.let_pass(10_000)
    assert world.beat("A", 2) == BeatAnswer("A", 2, frozenset(world.topics.partitions("t-9")))
    assert world.beat("A", 2, owned=frozenset(world.topics.partitions("t-9"))) == BeatAnswer("A", 3, None)


def test_ng10_names_and_patterns_of_several_members() -> None:
    world = ConsumerWorld(t1=2, t2=2, u=2)
    world.join("A", topics=("u",), regex="t.")
    world.join("B", topics=(), regex="t1|u")
    assert set(world.group.patterns) == {"t.", "t1|u"}
    assert sum(len(target) for target in world.group.targets.values()) == 6
    world.beat("B", 2, topics=("t1",), regex="")
    assert set(world.group.patterns) == {"t."} and world.member("B").regex is None
    world.beat("A", -1)
    world.beat("B", world.member("B").epoch)
    assert world.group.patterns == {}


def test_ng10_a_client_gets_no_topic_that_it_may_not_see() -> None:
    world = ConsumerWorld(open=1, secret=1)
    world.join("A", topics=(), regex=".*", sees=lambda name: name != "secret")
    assert set(world.member("A").assigned) == world.topics.partitions("open")


def test_ng10_matches_are_looked_for_again_from_time_to_time() -> None:
    """Rights may have changed meanwhile."""
    world = ConsumerWorld(GroupSettings(group_consumer_session_timeout_ms=10**9), open=1, secret=1)
    world.join("A", topics=(), regex=".*", sees=lambda name: name != "secret")
    world.let_pass(599_999)
    assert world.beat("A", 1) == BeatAnswer("A", 1, None)
    world.let_pass(1)
    answer = world.beat("A", 1)
    assert isinstance(answer, BeatAnswer) and answer.epoch == 2 and len(answer.assigned or ()) == 2


def test_ng11_partitions_that_are_added_are_given_at_the_next_heartbeat() -> None:
    world = ConsumerWorld(t=4)
    world.join("A")
    world.topics.extend("t", 6)
    assert world.beat("A", 1) == BeatAnswer("A", 2, frozenset(world.topics.partitions("t")))
    world.topics.delete("t")
    assert world.beat("A", 2) == BeatAnswer("A", 2, frozenset())
    assert world.beat("A", 2, owned=frozenset()) == BeatAnswer("A", 3, None)


def test_ng11_a_topic_that_comes_later_is_given_too() -> None:
    world = ConsumerWorld()
    assert world.join("A", "later") == BeatAnswer("A", 1, frozenset())
    world.topics.create("other", 1)
    assert world.beat("A", 1) == BeatAnswer("A", 1, None)
    world.topics.create("later", 2)
    assert world.beat("A", 1) == BeatAnswer("A", 2, frozenset(world.topics.partitions("later")))


def test_ng13_the_assignor_of_most_members() -> None:
    world = ConsumerWorld(t=5, u=5)
    for member_id, assignor in (("A", "range"), ("B", "uniform"), ("C", "range")):
        world.join(member_id, "t", "u", assignor=assignor)
    sizes = {member_id: len(target) for member_id, target in world.group.targets.items()}
    assert sizes == {"A": 4, "B": 4, "C": 2}, "each topic by itself in ranges"


def test_ng14_members_that_join_at_a_time_share_an_assignment() -> None:
    world = ConsumerWorld(GroupSettings(), t=4)
    assigned: set[int] = set()
    for number in range(5):
        world.join(f"m{number}")
        assigned.add(world.group.assignment_epoch)
        world.let_pass(100)
    assert assigned == {1} and world.group.state is ConsumerGroupState.ASSIGNING
    world.let_pass(500)
    world.beat("m0", 1)
    assert world.group.assignment_epoch == 5


def test_ng23_members_over_the_limit_are_refused() -> None:
    world = ConsumerWorld(GroupSettings(group_consumer_max_size=1), t=4)
    world.join("A")
    assert world.join("B") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert isinstance(world.join("A"), BeatAnswer)


def test_a_group_of_many_bytes_takes_no_new_member() -> None:
    world = ConsumerWorld(GroupSettings(group_bytes_max=5_000), t=1)
    world.join("A")
    assert world.join("B", *(f"{number:0100}" for number in range(100))) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_answer_that_was_lost_is_given_again() -> None:
    world = ConsumerWorld(t=4)
    first = world.join("A")
    assert world.beat("A", 1, rebalance_timeout_ms=1, topics=("t",), owned=frozenset()) == first


def test_a_member_that_joins_again_owns_nothing() -> None:
    """It was told to give two partitions back, and restarts instead."""
    world = ConsumerWorld(t=4)
    world.join("A")
    world.join("B")
    told = world.beat("A", 1)
    assert isinstance(told, BeatAnswer)
    assert world.join("A") == BeatAnswer("A", 2, told.assigned)
    assert world.beat("B", 2) == BeatAnswer(
        "B", 2, frozenset(world.topics.partitions("t")) - (told.assigned or frozenset())
    )


def test_a_topic_that_is_given_up_is_taken_away_before_there_is_a_new_target() -> None:
    world = ConsumerWorld(GroupSettings(), t=1, u=1)
    world.join("A", "t", "u")
    left = world.beat("A", 1, topics=("u",))
    assert left == BeatAnswer("A", 1, frozenset(world.topics.partitions("u")))
    assert world.group.state is ConsumerGroupState.ASSIGNING


def test_ng10_a_topic_that_is_created_in_the_millisecond_of_a_search_is_found_by_the_next() -> None:
    world = ConsumerWorld(t=1)
    world.join("A", topics=(), regex="t.*")
    world.topics.create("t2", 1)
    world.beat("A", 1)
    world.let_pass(10_000)
    answer = world.beat("A", 1)
    assert isinstance(answer, BeatAnswer) and answer.assigned is not None and len(answer.assigned) == 2
