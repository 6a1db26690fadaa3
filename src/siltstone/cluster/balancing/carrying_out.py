"""Carries a plan of moves out from outside the brokers: one turn after the other, each when the one before has arrived.

``siltstone balance run`` and the console do it; the brokers' own balancing is ``balancer``.
"""

from collections.abc import Callable, Iterable, Sequence

from siltstone.cluster.balancing.balancer import MOVE_MS_MAX, moves_in_turns
from siltstone.cluster.balancing.planning import PlannedMove
from siltstone.metadata.entities import NO_NODE
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.runtime.clock import Clock

LOOK_INTERVAL_MS = 100


class MoveNotDone(Unavailable):
    """A partition did not reach its new leader in a minute; the move continues by itself."""


class PlanOutdated(InvalidRequest):
    """A partition of the plan has another leader by now, or moves already."""


Turn = tuple[PlannedMove, ...]


def carry_out(
    moves: Iterable[PlannedMove],
    order: Callable[[Turn], None],
    newest: Callable[[], MetadataImage],
    clock: Clock,
    on_turn: Callable[[Turn], None] = lambda _: None,
    move_ms_max: float = MOVE_MS_MAX,
) -> None:
    """``order`` has the moves of one turn recorded; ``on_turn`` hears of each turn that has arrived. Blocks. Raises
    MoveNotDone, and what ``order`` and ``newest`` raise."""
    for turn in moves_in_turns(moves):
        order(turn)
        _wait(turn, newest, clock, move_ms_max)
        on_turn(turn)


def _wait(turn: Turn, newest: Callable[[], MetadataImage], clock: Clock, move_ms_max: float) -> None:
    began_ms = clock.monotonic_ms()
    while left := _on_their_way(newest(), turn):
        if clock.monotonic_ms() - began_ms > move_ms_max:
            first = left[0]
            raise MoveNotDone(
                f"partition {first.topic}-{first.partition} has not reached broker {first.target} in a minute; the "
                "move continues by itself, and the log of its leader may say what it waits for"
            )
        clock.block_ms(LOOK_INTERVAL_MS)


def _on_their_way(image: MetadataImage, turn: Turn) -> list[PlannedMove]:
    left = []
    for move in turn:
        topic = image.topics.get(move.topic_id)
        if topic is not None and topic.partitions[move.partition].target != NO_NODE:
            left.append(move)
    return left


def refuse_outdated(image: MetadataImage, moves: Sequence[PlannedMove]) -> None:
    """Raises PlanOutdated unless each partition still is where the plan takes it from."""
    for move in moves:
        topic = image.topics.get(move.topic_id)
        found = topic.partitions[move.partition] if topic and move.partition < len(topic.partitions) else None
        if found is None or found.leader != move.source or found.target != NO_NODE:
            raise PlanOutdated(
                f"partition {move.topic}-{move.partition} has moved since the plan was shown, or moves now: look at "
                "the plan again"
            )
