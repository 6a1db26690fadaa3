"""Which partitions move for balance, and why none does: values in, values out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from siltstone.cluster.balancing.goals import GAIN_MIN, GOALS, Load, is_in_band, mean_of
from siltstone.cluster.balancing.planning import MOVES_MAX, BalancePlan, plan_balance
from siltstone.metadata.commands import ClaimFailover, CreateTopic, DrainNode, FenceNode, MovePartitions
from siltstone.model.limits import MIB
from support.metadata.metadata_world import MetadataWorld

ID = "ab" * 16


def world_of(leaders: list[int], nodes: int = 3) -> MetadataWorld:
    """One topic; ``leaders``: of its partitions."""
    world = MetadataWorld()
    for node_id in range(nodes):
        world.register_reachable(node_id)
    if leaders:
        world.do(CreateTopic(0, 1, "t", ID, len(leaders), leaders=tuple(leaders)))
    return world


def loads_of(*mib_in: float) -> dict[tuple[str, int], Load]:
    return {(ID, index): Load(bytes_in=mib * MIB) for index, mib in enumerate(mib_in)}


def moves_of(plan: BalancePlan) -> list[tuple[int, int, int]]:
    return [(move.partition, move.source, move.target) for move in plan.moves]


def test_a_heavy_broker_gives_the_partition_that_closes_the_gap_best() -> None:
    plan = plan_balance(world_of([0, 0, 1, 2, 0, 1, 2]).image, loads_of(10, 4, 3, 3, 1, 2, 1))
    assert moves_of(plan)[0] == (1, 0, 2), "15 and 4: of 10, 4 and 1 the 4 leaves the smallest gap"
    assert (
        plan.moves[0].reason == "bytes in: broker 0 has 15.0 MiB/s, broker 2 4.0 MiB/s, the mean is 8.0 MiB/s"
    )
    assert plan.after[0].bytes_in < plan.before[0].bytes_in
    assert plan.why_empty is None


def test_an_idle_cluster_is_evened_out_by_number() -> None:
    plan = plan_balance(world_of([0] * 6 + [1]).image, {})
    assert sorted(load.partitions for load in plan.after.values()) == [2, 2, 3]
    assert {move.source for move in plan.moves} == {0}
    assert plan.moves[0].reason == "partitions: broker 0 has 6, broker 2 0, the mean is 2.33"


def test_small_traffic_is_nothing_to_balance() -> None:
    plan = plan_balance(world_of([0, 1, 2]).image, loads_of(2.9, 0, 0))
    assert (plan.moves, plan.why_empty) == (
        (),
        "every broker is within a fifth, or one partition, of the mean",
    )


@pytest.mark.parametrize("count", [1, 2])
def test_partitions_that_cannot_be_halved_stay(count: int) -> None:
    """One partition with all the traffic, alone at its broker or beside an idle one."""
    plan = plan_balance(world_of([0] * count + [1, 2]).image, loads_of(30))
    assert plan.moves == ()
    assert plan.why_empty == (
        "broker 0 has 30.0 MiB/s of bytes in, the mean is 10.0 MiB/s, and there is no partition whose move would bring "
        "the brokers closer and put nothing else out of balance"
    )


def test_a_move_for_one_goal_takes_no_other_out_of_its_band() -> None:
    loads = {
        (ID, 0): Load(8 * MIB, 40 * MIB),
        (ID, 1): Load(8 * MIB, 0),
        (ID, 2): Load(0, 20 * MIB),
        (ID, 3): Load(0, 20 * MIB),
    }
    plan = plan_balance(world_of([0, 0, 1, 1], nodes=2).image, loads)
    assert moves_of(plan) == [(1, 0, 1)], "partition 0 would take 40 MiB/s of bytes out along"


def test_a_plan_is_short_and_each_partition_moves_once() -> None:
    plan = plan_balance(world_of([0] * 90).image, {})
    assert len(plan.moves) == MOVES_MAX == len({move.partition for move in plan.moves})


def test_moves_beyond_the_plan_are_counted_as_far_as_is_asked() -> None:
    image = world_of([0] * 90).image
    whole = plan_balance(image, {}, more_max=100)
    assert whole.more_wanted == 44, "until broker 0 is within a fifth of the mean, with 36: 54 moves"
    assert [plan_balance(image, {}, more_max=n).more_wanted for n in (0, 7)] == [0, 7]
    assert whole.after == plan_balance(image, {}).after, "counting changes no plan"
    assert plan_balance(world_of([0] * 9).image, {}, more_max=100).more_wanted == 0


def test_what_moved_lately_stays() -> None:
    image = world_of([0, 0, 0, 0, 1, 2]).image
    first = plan_balance(image, {})
    resting = frozenset({(ID, move.partition) for move in first.moves})
    assert resting.isdisjoint(
        {(ID, move.partition) for move in plan_balance(image, {}, resting=resting).moves}
    )
    assert plan_balance(image, {}, resting=frozenset((ID, index) for index in range(4))).moves == ()


def test_what_is_not_listed_by_partition_counts_for_its_broker() -> None:
    plan = plan_balance(
        world_of([0, 0, 1, 2]).image, loads_of(2, 2), {1: Load(bytes_in=2 * MIB), 2: Load(bytes_in=2 * MIB)}
    )
    assert plan.before[1].bytes_in == 2 * MIB
    assert plan.moves == ()


def drained(world: MetadataWorld) -> None:
    world.do(DrainNode(2))


def moving(world: MetadataWorld) -> None:
    world.do(MovePartitions(((ID, 0, 1),)))


def failing_over(world: MetadataWorld) -> None:
    world.fence(2)
    world.do(ClaimFailover(0, 1, 2))


def alone(world: MetadataWorld) -> None:
    world.fence(1)
    world.fence(2)


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (drained, "broker 2 is being drained"),
        (moving, "1 partition is on its way already"),
        (failing_over, "broker 2 is being failed over"),
        (alone, "fewer than two live brokers can take partitions"),
    ],
)
def test_meanwhile_nothing_is_moved_and_the_reason_is_said(happens, why: str) -> None:
    world = world_of([0] * 9)
    assert plan_balance(world.image, {}).moves
    happens(world)
    plan = plan_balance(world.image, {})
    assert (plan.moves, plan.why_empty) == ((), why)


def test_without_a_fresh_measurement_of_every_broker_nothing_is_moved() -> None:
    world = world_of([0] * 9)
    plan = plan_balance(world.image, {}, unmeasured=(2,))
    assert plan.why_empty == "the load of broker 2 was not measured in the last half minute"
    world.fence(2)
    assert plan_balance(world.image, {}, unmeasured=(2,)).moves, "it takes no part"


def test_a_dead_broker_gets_nothing() -> None:
    world = world_of([0] * 9)
    world.do(FenceNode(1, 1))
    assert {move.target for move in plan_balance(world.image, {}).moves} == {2}


RATES = st.floats(0, 50 * MIB)
LOADS = st.builds(Load, bytes_in=RATES, bytes_out=RATES, requests=st.floats(0, 5_000))


@given(st.lists(st.tuples(st.integers(0, 2), LOADS), min_size=1, max_size=20))
def test_any_plan_keeps_its_promises(partitions: list[tuple[int, Load]]) -> None:
    image = world_of([leader for leader, _ in partitions]).image
    loads = {(ID, index): load for index, (_, load) in enumerate(partitions)}
    plan = plan_balance(image, loads)
    assert (plan.why_empty is None) == bool(plan.moves)
    now = dict(plan.before)
    for move in plan.moves:
        assert partitions[move.partition][0] == move.source != move.target
        goal = next(each for each in GOALS if move.reason.startswith(f"{each.words}:"))
        mean = mean_of(goal, now)
        gap = goal.of(now[move.source]) - goal.of(now[move.target])
        moved = {
            **now, move.source: now[move.source].minus(move.load), move.target: now[move.target].plus(move.load)
        }  # fmt: skip
        left = abs(goal.of(moved[move.source]) - goal.of(moved[move.target]))
        assert gap - left >= GAIN_MIN * mean * 0.999
        for other in GOALS:
            if other != goal:
                for node_id in (move.source, move.target):
                    was = is_in_band(other, now[node_id], mean_of(other, now))
                    assert not was or is_in_band(other, moved[node_id], mean_of(other, now))
        now = moved
    assert all(
        abs(one - other) < 1e-3
        for node_id in now
        for one, other in zip(now[node_id], plan.after[node_id], strict=True)
    )


def test_the_same_image_and_loads_give_the_same_plan() -> None:
    image = world_of([0, 0, 0, 1, 2, 2]).image
    loads = loads_of(3, 3, 3, 1, 1, 1)
    assert plan_balance(image, loads) == plan_balance(replace(image), dict(reversed(loads.items())))
