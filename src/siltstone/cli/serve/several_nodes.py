"""Runs ``siltstone serve --nodes N``: this process starts a process for each node and serves no client.

Each node is a ``siltstone serve`` of its own, so the nodes share a store and nothing else, and N of them use N cores.
A node that dies is started again. One that ends before it was ever ready has refused to start, for instance because its
port is taken: then all are stopped, and its exit status is the one of the command. All are stopped together,
so none hands its partitions over, and each leads the same ones after the next start.
"""

import logging
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any

import msgspec

from siltstone.cli.deadline import counted_signals
from siltstone.cli.failures import FAILED, STOPPED_EARLY, Failure
from siltstone.cli.output import remark, result
from siltstone.cli.serve.kept_process import RESTART_MS_MIN, KeptProcess
from siltstone.cli.serve.one_node import Terminal, hint
from siltstone.cli.serve.own_certificate import ClientFile

READY = "Siltstone is ready at "
"""The beginning of the line that a node prints for each listener when clients can connect."""

LATE_SECONDS = 5.0
"""How much longer than it promised a node may take to end before it is killed. Nothing acknowledged is lost."""

log = logging.getLogger(__name__)


class NodeStarted(msgspec.Struct, frozen=True):
    """A node listens; its address is noted already."""


class NodeEnded(msgspec.Struct, frozen=True):
    """``status``: None if it could not be started, negative for a signal."""

    node_id: int
    status: int | None


class SignalSent(msgspec.Struct, frozen=True):
    is_first: bool


class NodeSignal(msgspec.Struct, frozen=True):
    """SIGHUP was sent, and not because a terminal was closed."""


Happening = NodeStarted | NodeEnded | SignalSent | NodeSignal


class NodeProcesses:
    """``commands``: node id → the command line of its process. ``promised_ms``: how long a node may take to end.
    ``maintenance``: a process beside them, started when all are ready. ``client_file``: what clients need, for the
    hint. SIGHUP is passed on to the nodes, which read their certificates again. ``restart_ms_min``: the
    wait before a node that died is started again. ``late_seconds``: how much longer than promised an end
    may take."""

    def __init__(
        self,
        commands: Mapping[int, Sequence[str]],
        promised_ms: float,
        maintenance: KeptProcess | None = None,
        client_file: ClientFile | None = None,
        *,
        restart_ms_min: int = RESTART_MS_MIN,
        late_seconds: float = LATE_SECONDS,
    ) -> None:
        self._restart_ms_min = restart_ms_min
        self._terminal = Terminal()
        self._client_file = client_file
        self._happenings: SimpleQueue[Happening] = SimpleQueue()
        self._promised_seconds = promised_ms / 1000 + late_seconds
        self._maintenance = maintenance
        self._stopping = Event()
        self._addresses: dict[int, str] = {}
        self._ended: dict[int, int | None] = {}
        self._is_complete = False
        self._nodes = {node_id: self._process(node_id, command) for node_id, command in commands.items()}
        self._waiting = list(self._nodes)

    def _process(self, node_id: int, command: Sequence[str]) -> KeptProcess:
        def ended(status: int | None) -> bool:
            is_wanted = node_id in self._addresses and not self._stopping.is_set()
            if not is_wanted:
                self._happenings.put(NodeEnded(node_id, status))
            return is_wanted

        def line(text: str) -> None:
            result(text)
            if text.startswith(READY):  # it is noted in the thread in which ``ended`` reads it
                self._addresses.setdefault(node_id, text.removeprefix(READY).split(" ")[0])
                self._happenings.put(NodeStarted())

        return KeptProcess(
            f"node {node_id}",
            command,
            on_started=lambda number: log.info("node %d runs in process %d", node_id, number),
            on_line=line,
            on_ended=ended,
            ends_by_pipe=True,
            restart_ms_min=self._restart_ms_min,
        )

    def run(self, *, first_alone: bool) -> None:
        """Runs the nodes until a signal, or until one refuses to start. ``first_alone``: the others are started when
        the first one is ready, because it creates the store. Raises Failure unless every node ended with status 0."""
        with self._signals():
            self._start(1 if first_alone else len(self._waiting))
            while len(self._ended) < len(self._nodes):
                self._handle(self._next())
        if self._maintenance is not None:
            self._maintenance.close()
        if status := self._status():
            raise Failure(status)

    def _start(self, count: int) -> None:
        starting, self._waiting = self._waiting[:count], self._waiting[count:]
        for node_id in starting:
            self._nodes[node_id].start()

    def _next(self) -> Happening:
        try:
            return self._happenings.get(timeout=self._promised_seconds if self._stopping.is_set() else None)
        except Empty:
            log.error("nodes that did not end in time were killed; the next start uploads the rest")
            self._signal(signal.SIGKILL)
            return self._happenings.get()

    def _handle(self, happening: Happening) -> None:
        match happening:
            case NodeStarted():
                self._start(len(self._waiting))
                if len(self._addresses) == len(self._nodes) and not self._is_complete:
                    self._is_complete = True
                    self._announce()
            case NodeEnded(node_id, status):
                self._ended[node_id] = status
                if not self._stopping.is_set():
                    log.error(
                        "node %d did not start, so none runs: all %d are stopped", node_id, len(self._nodes)
                    )
                    self._stop()
            case SignalSent(is_first=True):
                remark(
                    "stopping: all data is uploaded and committed first; press again to exit now", dim=True
                )
                self._stop()
            case SignalSent():
                self._signal(signal.SIGTERM)
            case NodeSignal():
                self._signal(signal.SIGHUP)
        if self._stopping.is_set():
            self._ended |= dict.fromkeys(self._waiting, 0)  # were never started

    def _announce(self) -> None:
        if self._stopping.is_set():
            return
        remark(f"{len(self._nodes)} nodes are ready; clients may name any of them, or all:", dim=True)
        addresses = [self._addresses[node_id] for node_id in self._nodes]
        for line in (f"bootstrap.servers={','.join(addresses)}", *getattr(self._client_file, "lines", ())):
            remark(f"  {line}")
        hint(addresses[0], self._client_file)
        if self._maintenance is not None:
            self._maintenance.start()
            remark("maintenance runs in a process beside the nodes", dim=True)

    def _stop(self) -> None:
        self._stopping.set()
        for process in (*self._nodes.values(), *([self._maintenance] if self._maintenance else [])):
            process.stop()

    def _signal(self, number: signal.Signals) -> None:
        for node_id, process in self._nodes.items():
            if node_id not in self._ended:
                process.signal(number)

    def _status(self) -> int:
        """Returns 0 only if every node has committed everything."""
        statuses = [FAILED if status is None else status for status in self._ended.values()]
        refused = [status for status in statuses if status > 0 and status != STOPPED_EARLY]
        if refused:
            return refused[0]
        return STOPPED_EARLY if any(statuses) else 0

    @contextmanager
    def _signals(self) -> Iterator[None]:
        count = counted_signals()

        def arrived(*_: object) -> None:
            if (number := count()) > 0:
                self._happenings.put(SignalSent(is_first=number == 1))

        def hung_up(*_: object) -> None:
            if self._terminal.is_gone:
                arrived()
            else:
                self._happenings.put(NodeSignal())

        before: dict[int, Any] = {
            number: signal.signal(number, arrived) for number in (signal.SIGINT, signal.SIGTERM)
        }
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, hung_up)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
