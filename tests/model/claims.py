"""A model of nodes that want to replay the log of node 0, decided by the program's own decisions.

Node 0 was killed with a stream open and is fenced. It may be started again, and two other nodes may want to fail it
over. Each of these *processes* locks the log (where it is a folder), claims the failover (but for node 0 itself),
registers under a higher epoch of node 0, and closes the stream, which stands for replay and commit. A process that is
refused for now tries again; one that is fenced starts over. Each may die at any step; a node that looks dead, or is, is
fenced, and resumes if it lives.

What must hold: nobody replays under an epoch that is not the newest; the log is replayed as long as anybody lives; and
the epoch rises only because somebody started, died or was fenced, so that no two processes fence each other for ever.

``Rules`` has what a test leaves out.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from siltstone.metadata.commands import (
    ClaimFailover,
    CloseStream,
    Command,
    CreateStream,
    FenceNode,
    OpenStream,
    RegisterNode,
    ResumeNode,
)
from siltstone.metadata.decisions.table import decide
from siltstone.metadata.entities import NO_NODE, NodeMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.records import FailoverClaimed, NodeResumed
from siltstone.metadata.refusals import ClaimLost, FencedNode, NodeEpochExpired, Refusal
from support.metadata.metadata_world import next_image
from tests.model.exploring import Model

DEAD = 0
OVER = (FencedNode, NodeEpochExpired, ClaimLost)
"""Refusals after which a process starts over, or stops."""


class Rules(NamedTuple):
    """``claims``: nobody registers for another node without the claim (``nodes._fail_over``).
    ``a_dead_claimer_is_followed``: a claim holds while its claimer lives unfenced only (``membership.claimer_of``).
    ``locks_first``: the folder is locked before the claim (``wal.opening``). ``waits_for_failover``: the node itself
    does not register while another one replays its log (``membership.check_no_failover``)."""

    claims: bool = True
    a_dead_claimer_is_followed: bool = True
    locks_first: bool = True
    waits_for_failover: bool = True


class Process(NamedTuple):
    """``doing``: locks → claims → registers → closes → done; dead. ``epoch``: of node 0, under which it replays."""

    node_id: int
    doing: str = "locks"
    epoch: int = 0


class State(NamedTuple):
    nodes: tuple[NodeMetadata, ...]
    is_open: bool
    processes: tuple[Process, ...]
    lock: int = NO_NODE
    deaths: int = 0
    fences: int = 0


class Claims:
    """``has_lock``: the log is a folder with a lock. ``deaths`` and ``fences``: how many there may be."""

    def __init__(self, rules: Rules, *, has_lock: bool, deaths: int, fences: int) -> None:
        self.rules = rules
        self.has_lock = has_lock
        self.deaths = deaths
        self.fences = fences
        self._images: dict[tuple[Any, ...], MetadataImage] = {}

    def model(self) -> Model[State]:
        image = MetadataImage()
        for node_id in (0, 1, 2):
            image = self._done(image, RegisterNode(node_id, f"life of {node_id}", "wal"))
        image = self._done(image, CreateStream(DEAD, 1))
        image = self._done(image, OpenStream(DEAD, 1, 0, 0))
        image = self._done(image, FenceNode(DEAD, 1))
        first = self._state(
            image, State((), True, tuple(Process(node_id, self._begins) for node_id in (0, 1, 2)))
        )
        return Model(first, self.steps_of, self.wrong_in, self.is_end)

    def _done(self, image: MetadataImage, command: Command[Any]) -> MetadataImage:
        decision = decide(image, command, 0)
        assert not isinstance(decision, Refusal), decision
        return next_image(image, decision.records) if decision.records else image

    def _state(self, image: MetadataImage, state: State) -> State:
        nodes = tuple(image.nodes[node_id] for node_id in sorted(image.nodes))
        is_open = image.streams[0].state is StreamState.OPENED
        self._images.setdefault((nodes, is_open), image)
        return state._replace(nodes=nodes, is_open=is_open)

    def wrong_in(self, state: State) -> str:
        causes = 2 + state.deaths + state.fences
        if state.nodes[DEAD].node_epoch > 1 + causes:
            return "processes fence each other without a cause"
        return ""

    def is_end(self, state: State) -> bool:
        return not state.is_open or all(process.doing == "dead" for process in state.processes)

    def steps_of(self, state: State) -> Iterator[tuple[str, State]]:
        if not state.is_open:
            return
        for number, process in enumerate(state.processes):
            if process.doing == "dead":
                continue
            name = f"node {process.node_id}"
            if state.deaths < self.deaths:
                dead = _with_process(state, number, Process(process.node_id, "dead"))
                lock = NO_NODE if state.lock == process.node_id else state.lock
                yield f"{name} dies", dead._replace(deaths=state.deaths + 1, lock=lock)
            yield from self._steps(state, number, process, name)
            yield from self._resumes(state, number, process)
        for node in state.nodes:
            is_dead = state.processes[node.node_id].doing == "dead"
            if node.is_live and (is_dead or state.fences < self.fences):
                image = self._image(state)
                fenced = self._state(self._done(image, FenceNode(node.node_id, node.node_epoch)), state)
                yield f"node {node.node_id} is fenced", fenced._replace(fences=state.fences + (not is_dead))

    def _resumes(self, state: State, number: int, process: Process) -> Iterator[tuple[str, State]]:
        own = state.nodes[process.node_id]
        if (
            own.is_fenced
            and not own.failover
            and (process.node_id != DEAD or process.epoch == own.node_epoch)
        ):
            image = self._image(state)
            decision = decide(image, ResumeNode(own.node_id, own.node_epoch, own.incarnation), 0)
            if isinstance(decision, Refusal):
                lock = NO_NODE if state.lock == process.node_id else state.lock
                over = _with_process(state, number, Process(process.node_id, self._begins))
                yield f"node {own.node_id} cannot resume and starts over", over._replace(lock=lock)
            else:
                yield f"node {own.node_id} resumes", self._state(next_image(image, decision.records), state)

    def _image(self, state: State) -> MetadataImage:
        return self._images[state.nodes, state.is_open]

    def _steps(self, state: State, number: int, process: Process, name: str) -> Iterator[tuple[str, State]]:
        """The next step of one process; none while it is refused for now."""
        has_claim_to_make = process.node_id != DEAD and self.rules.claims
        order = ["locks", "claims", "registers", "closes", "done"]
        if not self.rules.locks_first:
            order[:2] = ["claims", "locks"]
        following = order[(order.index(process.doing) + 1) % len(order)]
        moved = process._replace(doing=following)
        if process.doing == "locks":
            if not self.has_lock or state.lock in (NO_NODE, process.node_id):
                lock = process.node_id if self.has_lock else NO_NODE
                yield f"{name} locks", _with_process(state, number, moved)._replace(lock=lock)
        elif process.doing == "claims" and not has_claim_to_make:
            yield f"{name} needs no claim", _with_process(state, number, moved)
        elif process.doing != "done":
            yield from self._decided(state, number, process, moved, name)

    def _decided(
        self, state: State, number: int, process: Process, moved: Process, name: str
    ) -> Iterator[tuple[str, State]]:
        image, command = self._image(state), self._command(state, process)
        decision = decide(self._seen(image, process), command, 0)
        if isinstance(decision, OVER):
            lock = NO_NODE if state.lock == process.node_id else state.lock
            over = _with_process(state, number, Process(process.node_id, self._begins))._replace(lock=lock)
            yield f"{name} is fenced and starts over", over
        elif not isinstance(decision, Refusal):
            after = next_image(image, decision.records) if decision.records else image
            if process.doing == "registers":
                moved = moved._replace(epoch=decision.result.node_epoch)
            yield f"{name} {process.doing}", self._state(after, _with_process(state, number, moved))

    @property
    def _begins(self) -> str:
        return "locks" if self.rules.locks_first else "claims"

    def _command(self, state: State, process: Process) -> Command[Any]:
        own = state.nodes[process.node_id]
        if process.doing == "claims":
            return ClaimFailover(process.node_id, own.node_epoch, DEAD)
        if process.doing == "closes":
            return CloseStream(DEAD, process.epoch, 0, 0)
        token = f"{process.node_id} after {state.nodes[DEAD].node_epoch}"
        if process.node_id != DEAD and self.rules.claims:
            return RegisterNode(DEAD, own.incarnation, "wal", failover=True)
        return RegisterNode(DEAD, token, "wal")

    def _seen(self, image: MetadataImage, process: Process) -> MetadataImage:
        """The image that a decision sees which lacks a rule."""
        node = image.nodes[DEAD]
        if process.doing == "registers" and process.node_id == DEAD and not self.rules.waits_for_failover:
            return _with_claim(image, node, NO_NODE, -1)
        if not self.rules.a_dead_claimer_is_followed and node.claimed_by != NO_NODE:
            claimer = image.nodes[node.claimed_by]
            return _unfenced(image, claimer)
        return image


def _with_claim(image: MetadataImage, node: NodeMetadata, by: int, by_epoch: int) -> MetadataImage:

    return next_image(image, [FailoverClaimed(node.node_id, by, by_epoch)])


def _unfenced(image: MetadataImage, node: NodeMetadata) -> MetadataImage:

    return next_image(image, [NodeResumed(node.node_id, node.node_epoch)]) if node.is_fenced else image


def _with_process(state: State, number: int, process: Process) -> State:
    processes = (*state.processes[:number], process, *state.processes[number + 1 :])
    return state._replace(processes=processes)
