"""Balances the partitions of the cluster by itself, where that is switched on: the live node with the lowest id plans
the moves.

A plan is made every BALANCER_INTERVAL_MS, and acted on when the plan was not empty LOOKS_MIN times in a row, because a
burst is not an imbalance. Then it moves a few partitions of each node at a time, and rests: the moves have to show in a
minute's mean before the next plan. A partition that was moved stays for a while, so that it never moves back and forth
between two nodes. While nodes start, as when they are restarted one after the other, nothing is moved: the next node to
be stopped would hand over the partitions that it has just received.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator

from siltstone.cluster.balancing.loads import plan_of
from siltstone.cluster.balancing.planning import PartitionKey, PlannedMove
from siltstone.cluster.membership import Membership
from siltstone.cluster.suspicion import turn_of
from siltstone.metadata.commands import MovePartitions
from siltstone.metadata.entities import NO_NODE, NodeLife
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import Unavailable
from siltstone.model.limits import MINUTE_MS, SECOND_MS
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

BALANCER_INTERVAL_MS = 30 * SECOND_MS
LOOKS_MIN = 3
REST_MS = 5 * MINUTE_MS
"""The pause after a plan was carried out."""

YOUNG_MS = MINUTE_MS
"""How long a node has to run before partitions are moved for balance: what it measures is a mean of a minute."""

STAY_MS = 30 * MINUTE_MS
"""How long a partition stays where balancing has put it."""

MOVES_AT_A_TIME = 2
"""The most moves at a time of one node, as source or target: each hand-over costs both nodes an upload."""

MOVE_MS_MAX = MINUTE_MS
"""How long moves are waited for. A move that hangs continues, and its partition is on its way in the next plan."""

WAIT_MS = 200

SWITCH_KEY = "balance"
ON = b"on"
"""The key SWITCH_KEY of the metadata has this value where balancing is switched on: ``siltstone balance on``."""

log = logging.getLogger(__name__)


def is_switched_on(image: MetadataImage) -> bool:
    return image.keys.get(SWITCH_KEY) == ON


def moves_in_turns(moves: Iterable[PlannedMove]) -> Iterator[tuple[PlannedMove, ...]]:
    """Splits the moves, in their order, into turns in which each node has at most MOVES_AT_A_TIME moves. Pure."""
    left = list(moves)
    while left:
        busy: Counter[int] = Counter()
        turn: list[PlannedMove] = []
        for move in list(left):
            if busy[move.source] < MOVES_AT_A_TIME and busy[move.target] < MOVES_AT_A_TIME:
                busy.update((move.source, move.target))
                turn.append(move)
                left.remove(move)
        yield tuple(turn)


class Balancer:
    """Runs the loop of one node in its life ``life``."""

    def __init__(
        self, membership: Membership, metadata: MetadataService, clock: Clock, life: NodeLife
    ) -> None:
        self._membership = membership
        self._metadata = metadata
        self._clock = clock
        self._life = life
        self._tasks = TaskGroup("balancer", lambda _: None)
        self._looks = 0
        self._moved_ms: dict[PartitionKey, float] = {}
        self._logged_reason: str | None = None
        self._lives_ms: dict[tuple[int, int], float] = {}

    def start(self) -> None:
        self._membership.wants_loads = self._is_to_balance
        self._tasks.start("looks", self._run())

    async def close(self) -> None:
        """Ends the loop. Moves under way continue, because the leaders carry them out."""
        await self._tasks.cancel()

    async def _run(self) -> None:
        while True:
            await self._clock.sleep_ms(BALANCER_INTERVAL_MS)
            try:
                if await self._look():
                    await self._clock.sleep_ms(REST_MS)
            except (Refusal, Unavailable) as trouble:
                log.info("partitions are not balanced now: %s", trouble)

    def _is_to_balance(self) -> bool:
        image = self._metadata.image
        own = image.nodes.get(self._life.node_id)
        is_first = own is not None and own.is_live and turn_of(self._life.node_id, image, ()) == 0
        return is_first and is_switched_on(image)

    async def _look(self) -> bool:
        """Returns whether partitions were moved. Raises Refusal, Unavailable."""
        if not self._is_to_balance():
            self._looks = 0
            return False
        image, loads = self._metadata.image, self._membership.loads
        now_ms = self._clock.monotonic_ms()
        self._moved_ms = {key: at for key, at in self._moved_ms.items() if now_ms - at < STAY_MS}
        log_now_ms = self._clock.now_ms() + self._metadata.clock_offset_ms
        plan = plan_of(image, loads, log_now_ms, frozenset(self._moved_ms))
        why_not = self._youngest(image, now_ms) or plan.why_empty
        if why_not != self._logged_reason:
            self._logged_reason = why_not
            if why_not is not None:
                log.info("no partition is moved for balance: %s", why_not)
        self._looks = self._looks + 1 if plan.moves and why_not is None else 0
        if self._looks < LOOKS_MIN:
            return False
        self._looks = 0
        for turn in moves_in_turns(plan.moves):
            await self._move(turn)
        return True

    def _youngest(self, image: MetadataImage, now_ms: float) -> str | None:
        """Says why nothing is moved while a node is new; None if no node is. A node that runs at the first look does
        not count as new, because LOOKS_MIN looks follow before anything is moved."""
        lives = [(node.node_id, node.node_epoch) for node in image.nodes.values() if node.is_live]
        first_ms = now_ms if self._lives_ms else now_ms - YOUNG_MS
        self._lives_ms = {life: self._lives_ms.get(life, first_ms) for life in lives}
        young = [node_id for (node_id, _), at in self._lives_ms.items() if now_ms - at < YOUNG_MS]
        return f"broker {young[0]} has run for less than a minute" if young else None

    async def _move(self, moves: tuple[PlannedMove, ...]) -> None:
        for move in moves:
            log.warning(
                "partition %s-%d moves from broker %d to broker %d for balance, %s",
                move.topic, move.partition, move.source, move.target, move.reason,
            )  # fmt: skip
            self._moved_ms[(move.topic_id, move.partition)] = self._clock.monotonic_ms()
        targets = tuple((move.topic_id, move.partition, move.target) for move in moves)
        await self._metadata.execute(MovePartitions(targets))
        began_ms = self._clock.monotonic_ms()
        while self._clock.monotonic_ms() - began_ms < MOVE_MS_MAX:
            image = self._metadata.image
            if not any(_is_moving(image, move) for move in moves):
                return
            await self._clock.sleep_ms(WAIT_MS)


def _is_moving(image: MetadataImage, move: PlannedMove) -> bool:
    topic = image.topics.get(move.topic_id)
    return topic is not None and topic.partitions[move.partition].target != NO_NODE
