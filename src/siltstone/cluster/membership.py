"""Runs the loop of a node: it beats, reads the beats of the others, fences silent nodes, and resumes when it was
fenced.

One round a second: a beat, then a poll. Both wait for the lease board only, in a thread of their own and with a
deadline, never for the metadata log: an append that hangs would otherwise end the leases of all nodes (N19). The
commands that follow from a round are executed by tasks of their own.

Every node looks, and the live node with the n-th lowest id acts after n times TURN_MS, so usually one does. FenceNode
is idempotent: if two nodes act at once, one record is written (N09).
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from siltstone.cluster.suspicion import BEAT_INTERVAL_MS, OwnLease, Suspicion, lives_to_watch, turn_of
from siltstone.metadata.commands import FenceNode, ResumeNode
from siltstone.metadata.decisions.membership import life_unregistered
from siltstone.metadata.entities import NodeLife, NodeMetadata
from siltstone.metadata.leases.board import (
    BOARD_DEADLINE_MS,
    ENDED,
    Beat,
    BoardUnavailable,
    LeaseBoard,
    NodeLoad,
    NodeSecret,
)
from siltstone.metadata.refusals import FencedNode, Refusal
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import Fenced, InvalidRequest, Unavailable
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup, ends_in_time

T = TypeVar("T")
log = logging.getLogger(__name__)

TURN_MS = 500
"""Each further node waits this much longer. By then it has usually read the record of the node that acted first (the
log is read ten times a second, or at a notice)."""

BOARD_WARNING_INTERVAL_MS = 30_000
"""How often a warning is logged while the lease board cannot be used."""


class NodeIdInUse(InvalidRequest):
    """Another process beats under this node's id."""


class MembershipStatistics(msgspec.Struct, frozen=True):
    beats: int
    rounds_failed: int
    nodes_fenced: int
    times_resumed: int
    is_lease_held: bool


class BoardCalls:
    """Makes the calls to the lease board, one at a time and each with a deadline. ``calls`` must have a thread that
    nothing else uses. A call that does not return costs one thread, and no more calls are queued behind it."""

    def __init__(self, board: LeaseBoard, calls: BlockingCalls, clock: Clock) -> None:
        self._board = board
        self._calls = calls
        self._clock = clock
        self._is_busy = False

    async def beat(self, beat: Beat) -> None:
        """Raises BoardUnavailable."""
        await self._ask(lambda: self._board.beat(beat))

    async def beats(self) -> tuple[Beat, ...]:
        """Raises BoardUnavailable."""
        return await self._ask(self._board.beats)

    async def loads(self) -> tuple[NodeLoad, ...]:
        """Raises BoardUnavailable."""
        return await self._ask(self._board.loads)

    async def put_load(self, load: NodeLoad) -> None:
        """Raises BoardUnavailable."""
        await self._ask(lambda: self._board.put_load(load))

    async def secrets(self) -> tuple[NodeSecret, ...]:
        """Raises BoardUnavailable."""
        return await self._ask(self._board.secrets)

    async def put_secret(self, secret: NodeSecret) -> None:
        """Raises BoardUnavailable."""
        await self._ask(lambda: self._board.put_secret(secret))

    async def _ask(self, call: Callable[[], T]) -> T:
        if self._is_busy:
            raise BoardUnavailable(
                "an earlier call to the lease board has not returned; check its disk or server"
            )
        answers: list[T] = []
        is_begun = False

        def in_thread() -> T:
            nonlocal is_begun
            is_begun = True
            try:
                return call()
            finally:
                self._is_busy = False

        async def asked() -> None:
            answers.append(await self._calls.run(in_thread))

        self._is_busy = True
        try:
            is_answered = await ends_in_time(asked(), self._clock, BOARD_DEADLINE_MS)
        finally:
            if not is_begun:
                self._is_busy = False  # it was cancelled before its thread took it
        if not is_answered:
            raise BoardUnavailable(
                f"the lease board did not answer in {BOARD_DEADLINE_MS} ms; check its disk or server"
            )
        return answers[0]


async def wait_until_silent(board: BoardCalls, node: NodeMetadata, clock: Clock) -> None:
    """Returns when no beat of the registered life of ``node`` has come for a session. A process that registers under
    the same id then fences no process that runs (N02). A process that holds the lock of the node's log need not wait,
    and neither need one that finds that the life has ended. Raises NodeIdInUse; while the board fails, it waits."""
    life = NodeLife(node.node_id, node.node_epoch, node.incarnation)
    has_ended = (life.node_id, life.node_epoch, ENDED)
    suspicion = Suspicion()
    first: Beat | None = None
    while not suspicion.suspects():
        sent_ms = clock.monotonic_ms()
        try:
            beats = await board.beats()
        except BoardUnavailable as trouble:
            log.warning("node %d waits for the lease board before it starts: %s", node.node_id, trouble)
            suspicion.poll_failed()
        else:
            if any((beat.node_id, beat.node_epoch, beat.incarnation) == has_ended for beat in beats):
                return
            found = [
                beat for beat in beats if (beat.node_id, beat.incarnation) == (life.node_id, life.incarnation)
            ]
            first = first or next(iter(found), None)
            if first is not None and found and found[0].number != first.number:
                raise NodeIdInUse(
                    f"another process runs as node {node.node_id}, with the log {node.wal_location}: give this node an "
                    "id of its own, or stop the other process"
                )
            suspicion.polled(sent_ms, clock.monotonic_ms(), (life,), beats)
        if not suspicion.suspects():
            await clock.sleep_ms(BEAT_INTERVAL_MS)


async def _exchange_nothing() -> None:
    """A node that no other one asks has no secret."""


class Membership:
    """``life`` is this process's own. ``on_lost`` is called when the node was fenced and may not resume, or when this
    loop has failed: the process has to stop, and a new start replays the log or waits for the node that does."""

    def __init__(
        self,
        board: BoardCalls,
        metadata: MetadataService,
        clock: Clock,
        lease: OwnLease,
        life: NodeLife,
        on_lost: Callable[[BaseException], None],
    ) -> None:
        self._board = board
        self._metadata = metadata
        self._clock = clock
        self._life = life
        self._on_lost = on_lost
        self.lease = lease
        self.acts_for_others = True
        """Whether this node fences nodes that are suspect."""
        self._suspicion = Suspicion()
        self._tasks = TaskGroup("membership", on_lost)
        self._fencing: set[NodeLife] = set()
        self._is_resuming = self._is_confirming = False
        self._is_lost = False
        self._warned_ms: float | None = None
        self._number = 0
        self.measure: Callable[[], NodeLoad | None] = lambda: None
        """Is called once a second; the load that it returns is put on the board, after the beat."""
        self.wants_loads: Callable[[], bool] = lambda: False
        self.loads: tuple[NodeLoad, ...] = ()
        """The loads of all nodes, which are read from the board when this node puts its own there, if
        ``wants_loads``."""
        self.exchange_secrets: Callable[[], Awaitable[None]] = _exchange_nothing
        """Is awaited in each round, after the beat."""
        self._beats = self._rounds_failed = self._nodes_fenced = self._times_resumed = 0

    async def start(self) -> None:
        self._tasks.start("rounds", self._rounds())

    async def close(self) -> None:
        """Ends the beats; the others fence the node after a session, unless it is unregistered or comes back."""
        await self._tasks.cancel()

    async def tell_end(self) -> None:
        """Puts on the board, after ``close``, that this life of the node has ended. The next life then need not wait
        for silence."""
        life = self._life
        with suppress(BoardUnavailable):
            await self._board.beat(Beat(life.node_id, life.node_epoch, self._number + 1, ENDED))

    def statistics(self) -> MembershipStatistics:
        return MembershipStatistics(
            beats=self._beats,
            rounds_failed=self._rounds_failed,
            nodes_fenced=self._nodes_fenced,
            times_resumed=self._times_resumed,
            is_lease_held=self.lease.is_held,
        )

    async def _rounds(self) -> None:
        while True:
            began_ms = self._clock.monotonic_ms()
            try:
                await self._beat()
                await self._poll()
            except BoardUnavailable as trouble:
                self._rounds_failed += 1
                self._suspicion.poll_failed()
                self._warn(trouble)
            else:
                self._note_recovery()
                self._act()
                await self._tell_load()
                await self.exchange_secrets()
            passed_ms = self._clock.monotonic_ms() - began_ms
            await self._clock.sleep_ms(max(0.0, BEAT_INTERVAL_MS - passed_ms))

    async def _beat(self) -> None:
        life, sent_ms = self._life, self.lease.now_ms()
        self._beats += 1
        self._number = max(self._number + 1, self._clock.now_ms() + self._metadata.clock_offset_ms)
        await self._board.beat(Beat(life.node_id, life.node_epoch, self._number, life.incarnation))
        self.lease.renewed(sent_ms)

    async def _tell_load(self) -> None:
        """Puts the load of this node on the board. A failure is ignored, because the next load is measured within
        seconds."""
        if (load := self.measure()) is not None:
            with suppress(BoardUnavailable):
                await self._board.put_load(load)
                self.loads = await self._board.loads() if self.wants_loads() else ()

    async def _poll(self) -> None:
        sent_ms = self._clock.monotonic_ms()
        beats = await self._board.beats()
        lives = lives_to_watch(self._metadata.image, self._life.node_id)
        self._suspicion.polled(sent_ms, self._clock.monotonic_ms(), lives, beats)

    def _act(self) -> None:
        """Fences the nodes that are suspect. If this node is fenced itself, it resumes first."""
        if self._is_lost:
            return
        own = self._metadata.image.nodes.get(self._life.node_id)
        if own is None:
            self._lose(life_unregistered(self._life.node_id, self._life.node_epoch))
            return
        if not self._is_of_this_life(own):
            self._lose(
                FencedNode(
                    f"node {own.node_id} was registered again with epoch {own.node_epoch}, so epoch "
                    f"{self._life.node_epoch} is fenced; stop this process"
                )
            )
            return
        if not self.lease.is_confirmed and not self._is_confirming:
            self._is_confirming = True
            self._tasks.start("confirm the lease", self._confirm())
        if own.is_fenced:
            if not self._is_resuming:
                self._is_resuming = True
                self._tasks.start("resume", self._resume())
            return
        suspects = self._suspicion.suspects() if self.acts_for_others else ()
        for life in suspects:
            if life not in self._fencing:
                self._fencing.add(life)
                turn = turn_of(self._life.node_id, self._metadata.image, suspects)
                self._tasks.start(f"fence {life.node_id}", self._fence(life, turn))

    def _is_of_this_life(self, own: NodeMetadata) -> bool:
        return (own.node_epoch, own.incarnation) == (self._life.node_epoch, self._life.incarnation)

    def _lose(self, loss: Fenced) -> None:
        if self._is_lost:  # a round and a refused resumption may both find it
            return
        self._is_lost = True
        log.error("node %d was fenced and cannot resume: %s", self._life.node_id, loss)
        self._on_lost(loss)

    async def _confirm(self) -> None:
        """Reads the log after a beat, because the lease was over before it."""
        times_over = self.lease.times_over
        try:
            own = (await self._metadata.refresh()).nodes.get(self._life.node_id)
            if own is not None and own.is_live and self._is_of_this_life(own):
                self.lease.confirmed(times_over)
        except Unavailable as trouble:
            log.info("node %d cannot tell yet whether it was fenced: %s", self._life.node_id, trouble)
        finally:
            self._is_confirming = False

    async def _fence(self, life: NodeLife, turn: int) -> None:
        try:
            await self._clock.sleep_ms(turn * TURN_MS)
            node = self._metadata.image.nodes.get(life.node_id)
            is_watched = node is not None and node.node_epoch == life.node_epoch and node.is_live
            is_suspect = is_watched and life in self._suspicion.suspects()
            if not is_suspect or not self.lease.is_held or not self.acts_for_others:
                return
            await self._metadata.execute(FenceNode(life.node_id, life.node_epoch))
            self._nodes_fenced += 1
            log.warning(
                "node %d was silent for a session and is fenced in its epoch %d; it resumes by itself if it lives",
                life.node_id,
                life.node_epoch,
            )
        except (Refusal, Unavailable) as trouble:
            log.info("node %d was not fenced: %s", life.node_id, trouble)
        finally:
            self._fencing.discard(life)

    async def _resume(self) -> None:
        life = self._life
        try:
            await self._metadata.execute(ResumeNode(life.node_id, life.node_epoch, life.incarnation))
            self._times_resumed += 1
            log.warning("node %d was fenced, as its beats had stopped, and has resumed", life.node_id)
            await self._confirm()
        except Fenced as refusal:
            self._lose(refusal)
        except (Refusal, Unavailable) as trouble:
            log.warning("node %d is fenced and could not resume yet: %s", life.node_id, trouble)
        finally:
            self._is_resuming = False

    def _warn(self, trouble: BoardUnavailable) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._warned_ms is None or now_ms - self._warned_ms >= BOARD_WARNING_INTERVAL_MS:
            self._warned_ms = now_ms
            log.warning(
                "node %d could not use the lease board for its beats: %s", self._life.node_id, trouble
            )

    def _note_recovery(self) -> None:
        if self._warned_ms is not None:
            self._warned_ms = None
            log.warning("node %d uses the lease board again", self._life.node_id)
