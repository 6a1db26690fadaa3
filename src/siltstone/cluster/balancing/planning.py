"""The plan of balancing: which partitions move where, and why; or why nothing moves. Pure.

The planner is greedy: for the first goal with a node out of its band it looks for the one move between the heaviest and
the lightest node that brings them closest, and repeats that with the loads as they would be. A move gains at least
GAIN_MIN of the mean, is no heavier than the gap, and takes no other goal of the two nodes out of its band. Cruise
Control's users have to guess why it does nothing; here an empty plan says why.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from siltstone.cluster.balancing.goals import GAIN_MIN, GOALS, Goal, Load, is_in_band, mean_of
from siltstone.foundation.quantity_words import size_words
from siltstone.metadata.entities import NO_NODE
from siltstone.metadata.image import MetadataImage

MOVES_MAX = 10
"""The most moves of one plan; the next plan sees what they did."""

PartitionKey = tuple[str, int]


Found = tuple[tuple[str, int], Load]
"""A partition by its topic's name and its leader, with its load."""


class PlannedMove(msgspec.Struct, frozen=True):
    """``reason``: a sentence for people."""

    topic_id: str
    topic: str
    partition: int
    source: int
    target: int
    load: Load
    reason: str


class BalancePlan(msgspec.Struct, frozen=True):
    """``why_empty``: a sentence, if there are no moves. ``before`` and ``after``: node → its load. ``more_wanted``: how
    many further moves are wanted as far as they were counted, and left to the next plan, which knows how the load is
    spread then."""

    moves: tuple[PlannedMove, ...]
    why_empty: str | None
    before: Mapping[int, Load]
    after: Mapping[int, Load]
    more_wanted: int = 0


def plan_balance(
    image: MetadataImage,
    loads: Mapping[PartitionKey, Load],
    others: Mapping[int, Load] | None = None,
    unmeasured: Iterable[int] = (),
    resting: frozenset[PartitionKey] = frozenset(),
    more_max: int = 0,
) -> BalancePlan:
    """``loads``: what each partition had in the last minute, by topic id and index; a partition without an entry had
    nothing. ``others``: by node, the sums of the partitions that are not listed one by one. ``unmeasured``: live nodes
    whose measurement is missing or old. ``resting``: partitions that moved lately, which stay. ``more_max``: up to how
    many moves beyond the plan are counted; each costs a look at all partitions."""
    fit = sorted(
        node.node_id
        for node in image.nodes.values()
        if node.is_live and not node.is_draining and node.listeners
    )
    partitions = _partitions(image, loads)
    before = {node_id: (others or {}).get(node_id, Load()) for node_id in fit}
    for (_, leader), load in partitions.values():
        if leader in before:
            before[leader] = before[leader].plus(load)
    if obstacle := _obstacle(image, fit, unmeasured):
        return BalancePlan((), obstacle, before, before)
    movable = {
        key: found for key, found in partitions.items() if found[0][1] in before and key not in resting
    }
    after = dict(before)
    wanted = _wanted_moves(after, movable)
    moves = tuple(islice(wanted, MOVES_MAX))
    planned = dict(after)
    more = sum(1 for _ in islice(wanted, more_max))
    return BalancePlan(moves, None if moves else _why_not(planned), before, planned, more)


def _wanted_moves(loads: dict[int, Load], movable: dict[PartitionKey, Found]) -> Iterator[PlannedMove]:
    """Yields the best move again and again, and changes both arguments as if it had been made."""
    while (move := _best_move(loads, movable)) is not None:
        loads[move.source] = loads[move.source].minus(move.load)
        loads[move.target] = loads[move.target].plus(move.load)
        del movable[(move.topic_id, move.partition)]
        yield move


def _partitions(image: MetadataImage, loads: Mapping[PartitionKey, Load]) -> dict[PartitionKey, Found]:
    found: dict[PartitionKey, Found] = {}
    for topic_id, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            load = loads.get((topic_id, index), Load())._replace(partitions=1.0)
            found[(topic_id, index)] = (topic.name, partition.leader), load
    return found


def _obstacle(image: MetadataImage, fit: Sequence[int], unmeasured: Iterable[int]) -> str | None:
    """What has to end before anything is moved for balance."""
    if len(fit) < 2:
        return "fewer than two live brokers can take partitions"
    for node in image.nodes.values():
        if node.claimed_by != NO_NODE:
            return f"broker {node.node_id} is being failed over"
        if node.is_live and node.is_draining:
            return f"broker {node.node_id} is being drained"
    moving = sum(
        partition.target != NO_NODE for topic in image.topics.values() for partition in topic.partitions
    )
    if moving:
        words = "1 partition is on its way" if moving == 1 else f"{moving} partitions are on their way"
        return f"{words} already"
    missing = sorted(set(unmeasured) & set(fit))
    if missing:
        return f"the load of broker {missing[0]} was not measured in the last half minute"
    return None


def _best_move(loads: Mapping[int, Load], movable: Mapping[PartitionKey, Found]) -> PlannedMove | None:
    for goal in GOALS:
        mean = mean_of(goal, loads)
        if all(is_in_band(goal, load, mean) for load in loads.values()):
            continue
        ranked = sorted(loads, key=lambda node_id: (goal.of(loads[node_id]), node_id))
        source, target = ranked[-1], ranked[0]
        move = _move_between(goal, mean, loads, movable, source, target)
        if move is not None:
            return move
    return None


def _move_between(
    goal: Goal,
    mean: float,
    loads: Mapping[int, Load],
    movable: Mapping[PartitionKey, Found],
    source: int,
    target: int,
) -> PlannedMove | None:
    """Returns the partition whose move leaves the smallest gap; of equal ones the lightest, then the first by id."""
    gap = goal.of(loads[source]) - goal.of(loads[target])
    best: tuple[tuple[float, float, PartitionKey], str, Load] | None = None
    for key, ((topic, leader), load) in movable.items():
        weight = goal.of(load)
        if leader != source or weight <= 0 or weight >= gap:
            continue
        left = abs(gap - 2 * weight)
        if gap - left < GAIN_MIN * mean or not _keeps_bands(goal, loads, load, source, target):
            continue
        rank = (left, sum(load), key)
        if best is None or rank < best[0]:
            best = rank, topic, load
    if best is None:
        return None
    (_, _, (topic_id, index)), topic, load = best
    reason = (
        f"{goal.words}: broker {source} has {amount_words(goal, goal.of(loads[source]))}, broker {target} "
        f"{amount_words(goal, goal.of(loads[target]))}, the mean is {amount_words(goal, mean)}"
    )
    return PlannedMove(topic_id, topic, index, source, target, load, reason)


def _keeps_bands(moved_for: Goal, loads: Mapping[int, Load], load: Load, source: int, target: int) -> bool:
    for goal in GOALS:
        if goal == moved_for:
            continue
        mean = mean_of(goal, loads)
        for node_id, changed in ((source, loads[source].minus(load)), (target, loads[target].plus(load))):
            if is_in_band(goal, loads[node_id], mean) and not is_in_band(goal, changed, mean):
                return False
    return True


def _why_not(loads: Mapping[int, Load]) -> str:
    for goal in GOALS:
        mean = mean_of(goal, loads)
        outside = [node_id for node_id, load in loads.items() if not is_in_band(goal, load, mean)]
        if outside:
            heaviest = max(loads, key=lambda node_id: goal.of(loads[node_id]))
            return (
                f"broker {heaviest} has {amount_words(goal, goal.of(loads[heaviest]))} of {goal.words}, the mean is "
                f"{amount_words(goal, mean)}, and there is no partition whose move would bring the brokers closer and "
                "put nothing else out of balance"
            )
    return "every broker is within a fifth, or one partition, of the mean"


def amount_words(goal: Goal, value: float) -> str:
    """Such as "12.5 MiB/s", "340/s" or "7"."""
    if goal.field == "partitions":
        return f"{value:,.3g}"
    return f"{size_words(round(value))}/s" if goal.field.startswith("bytes") else f"{value:,.0f}/s"
