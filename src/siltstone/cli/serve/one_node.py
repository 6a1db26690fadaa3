"""The process of one broker: from its start until a signal, or until it cannot store data any more."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from siltstone.carrying.pipeline.set_aside import MAINTENANCE_LOOKED_AT_MS, why_late
from siltstone.cli.deadline import ProcessDeadline, counted_signals
from siltstone.cli.failures import STOPPED_EARLY, Failure
from siltstone.cli.output import remark, result
from siltstone.cli.serve.kept_process import KeptProcess, parent_is_gone
from siltstone.cli.serve.own_certificate import ClientFile
from siltstone.metadata.store.opening import log_exists
from siltstone.metadata.store.port import LogOutOfReach
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.kafka_node import KafkaNode, running_kafka_node
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.python_process import tuned_garbage_collection
from siltstone.server.settings.node import DEFAULT_LISTENER, NodeSettings
from siltstone.server.settings.rereading import reread_words
from siltstone.stream_engine.engine import StreamEngine

log = logging.getLogger(__name__)

STARTING_MS_MAX = 1_000
"""How long a process that has nothing to commit may take to end after a signal."""


async def serve_one_node(
    settings: NodeSettings,
    addresses: Sequence[ListenerAddress],
    maintenance: KeptProcess | None = None,
    client_file: ClientFile | None = None,
    *,
    has_parent: bool = False,
    together: Collection[int] = (),
    recover: Collection[Path] = (),
    reread: Callable[[], NodeSettings] | None = None,
) -> None:
    """Runs the broker until a signal, or until it cannot store data. ``reread`` reads the settings again, at SIGHUP.
    ``maintenance`` runs beside it, if given. The attached logs in the folders ``recover`` are recovered.
    ``client_file``: what clients need, for the hint.
    ``has_parent``: the process that keeps this one prints what concerns all nodes; when that process is gone, the nodes
    end ``together``. Raises Failure when the broker was stopped before everything was committed."""
    say = remark if not has_parent else _nothing
    is_new = is_missing(settings.metadata) is True  # before the signals are handled: the disk may hang
    stopping = BrokerDeadline(settings, say, reread)
    try:
        async with (
            running_kafka_node(
                settings,
                addresses,
                ends_with=lambda: together if has_parent and parent_is_gone() else (),
                recover=recover,
            ) as node,
            AsyncExitStack() as opened,
        ):
            stopping.is_ready(node)
            if is_new:  # so that a misspelt --store is noticed
                say(f"created a new store at {settings.folder}")
            _announce(settings, node)
            if not has_parent:
                tell_clients(_address_of(node), client_file)
                hint(_address_of(node), client_file)
            _begin_maintenance(maintenance, node, stopping, opened)
            with tuned_garbage_collection():
                await _stopped_or_failed(stopping.event, node.node.engine)
    except asyncio.CancelledError:
        stopping.refuse_unless_stopped()
    finally:
        if stopping.maintenance is not None:
            stopping.maintenance.close()
        stopping.ended()
    if stopping.status() != 0:
        raise Failure(stopping.status())


def is_missing(metadata_url: str) -> bool | None:
    """Returns whether there is no metadata log yet, so that the start creates the store; None when nobody can tell,
    since no server can be reached: the start waits for it."""
    try:
        return not log_exists(metadata_url)
    except LogOutOfReach:
        return None


def _nothing(line: str, **style: Any) -> None:
    pass


def _begin_maintenance(
    maintenance: KeptProcess | None, node: KafkaNode, stopping: "BrokerDeadline", opened: AsyncExitStack
) -> None:
    """Starts the process that maintains the store or, if there is none, a task that logs when no maintenance has run
    for days."""
    if maintenance is None:
        looking = TaskGroup("maintenance", lambda _: None)
        opened.push_async_callback(looking.cancel)
        looking.start("look", _say_when_late(node, SystemClock()))
        return
    stopping.maintenance = maintenance
    maintenance.start()
    remark("maintenance runs in a process beside the broker", dim=True)


async def _say_when_late(node: KafkaNode, clock: Clock) -> None:
    """Logs when no maintenance has run for days. Of several live nodes on a store, only the one with the lowest number
    logs it."""
    own = node.node.engine.node_id
    while True:
        image = node.node.metadata.image
        live = [each.node_id for each in image.nodes.values() if each.is_live]
        if own == min(live, default=own) and (words := why_late(image, clock.now_ms())) is not None:
            log.warning("%s", words)
        await clock.sleep_ms(MAINTENANCE_LOOKED_AT_MS)


class Terminal:
    """The terminal of this process, if it has one. When it is closed, its processes get SIGHUP."""

    def __init__(self) -> None:
        self._was_there = self._is_there

    @property
    def _is_there(self) -> bool:
        return os.isatty(2)

    @property
    def is_gone(self) -> bool:
        return self._was_there and not self._is_there


class BrokerDeadline:
    """Handles SIGINT and SIGTERM, and SIGHUP once the broker is ready. The first signal stops the broker within the
    time limits of network and engine together; a broker that is still starting ends at once. The second
    signal ends the process at once, unless it is the first signal sent twice (``counted_signals``)."""

    def __init__(
        self,
        settings: NodeSettings,
        say: Callable[..., None] = remark,
        reread: Callable[[], NodeSettings] | None = None,
    ) -> None:
        self.event = asyncio.Event()
        self._say = say
        self._settings = settings
        self._reread = reread
        # One thread: of two SIGHUPs the first one is answered first. The file may be on a disk that hangs.
        self._reading = ThreadedCalls("settings", 1)
        self._tasks = TaskGroup("settings", lambda _: None)
        self._limit_ms = settings.network.close_time_limit_ms + settings.engine.close_time_limit_ms
        self._deadline = ProcessDeadline(self.status)
        self._count = counted_signals()
        self._loop = asyncio.get_running_loop()
        self._serving = asyncio.current_task()
        self._node: KafkaNode | None = None
        self.maintenance: KeptProcess | None = None
        # Not ``add_signal_handler``: a loop that hangs would never call it.
        self._before: dict[int, Any] = {
            number: signal.signal(number, lambda *_: self._arrived())
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        self._terminal = Terminal()

    def _arrived(self) -> None:
        """Handles a signal. It takes no lock and prints nothing, because it may interrupt anything."""
        arrived = self._count()
        if arrived == 0:
            return
        if arrived > 1:
            self._deadline.set(
                0, "a second signal ended the process at once; the next start uploads the rest"
            )
            return
        limit_ms = STARTING_MS_MAX if self._node is None else self._limit_ms
        self._deadline.set(
            limit_ms,
            f"the process did not end within {limit_ms} ms and was ended; the next start uploads the rest",
        )
        self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self.event.set()
        if self.maintenance is not None:
            self.maintenance.stop()
        if self._node is not None:
            self._say("stopping: all data is uploaded and committed first; press again to exit now", dim=True)
            return
        self._say(
            "stopped before the broker was ready: the next start recovers what the write-ahead log holds",
            dim=True,
        )
        assert self._serving is not None
        self._serving.cancel()

    def is_ready(self, node: KafkaNode) -> None:
        """From now on SIGHUP reads certificates and keys of issuers again, and says which settings have changed. When a
        terminal is closed, its processes get the signal, too; then it stops the broker."""
        self._node = node
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: self._hung_up(node))

    def _hung_up(self, node: KafkaNode) -> None:
        if self._terminal.is_gone:
            self._arrived()
        else:
            self._loop.call_soon_threadsafe(self._reload, node)

    def _reload(self, node: KafkaNode) -> None:
        node.reload_soon()
        if self._reread is not None:
            self._tasks.start("reread", self._say_changed(self._reread))

    async def _say_changed(self, reread: Callable[[], NodeSettings]) -> None:
        words, is_to_be_done = await self._reading.run(reread_words, self._settings, reread)
        log.log(logging.WARNING if is_to_be_done else logging.INFO, "%s", words)

    def status(self) -> int:
        """Returns 0 only if everything is committed."""
        return 0 if self._node is not None and self._node.node.engine.is_clean else STOPPED_EARLY

    def refuse_unless_stopped(self) -> None:
        """Raises CancelledError unless a signal was the cause."""
        if not self.event.is_set():
            raise asyncio.CancelledError

    def ended(self) -> None:
        """Is called when the broker has ended. After a signal, threads that hang have one more second, because Python
        would wait for them."""
        self._reading.abandon()
        if self._deadline.is_set:
            self._deadline.set(STARTING_MS_MAX, "threads that did not end were abandoned with the process")
            return
        self._deadline.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)


async def _stopped_or_failed(stopping: asyncio.Event, engine: StreamEngine) -> None:
    """Returns when ``stopping`` is set. Raises EngineNotRunning when the engine cannot store data any more: only a new
    start recovers it, so the process must end for its supervisor to restart it."""
    stopped = asyncio.ensure_future(stopping.wait())
    failed = asyncio.ensure_future(engine.raise_when_failed())
    try:
        done, _ = await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
        if stopped not in done:
            await failed
    finally:
        stopped.cancel()
        failed.cancel()


def _announce(settings: NodeSettings, node: KafkaNode) -> None:
    """Prints one line for each listener; scripts and supervisors wait for these lines."""
    for listener in node.listeners.listeners:
        name = listener.name
        if listener.protocol.is_encrypted and name != listener.protocol:
            name = f"{name}, {listener.protocol}"
        result(
            f"Siltstone is ready at {listener.advertised_host}:{listener.advertised_port} "
            f"({name}, store {settings.folder})"
        )
    has_login = any(each.protocol.wants_login for each in node.listeners.listeners)
    if has_login and not node.node.metadata.image.users:
        remark(f"nobody can log in yet: siltstone users add NAME --store {settings.folder}")
    if node.admin is not None and node.admin.urls:
        remark(f"metrics and health: {', '.join(node.admin.urls)} (/metrics, /livez, /readyz)")
        if settings.admin.console:
            remark(f"console: {node.admin.urls[0]}/")


def _address_of(node: KafkaNode) -> str:
    first = node.listeners.listeners[0]
    return f"{first.advertised_host}:{first.advertised_port}"


def tell_clients(addresses: str, client_file: ClientFile | None) -> None:
    """Prints the settings that clients of a certificate of our own need."""
    if client_file is not None:
        remark("clients need these settings:", dim=True)
        for line in (f"bootstrap.servers={addresses}", *client_file.lines):
            remark(f"  {line}")


def hint(address: str, client_file: ClientFile | None = None) -> None:
    """Suggests the next commands for a broker at this address, at a terminal only."""
    if sys.stderr.isatty():
        option = "" if address == DEFAULT_LISTENER else f" --bootstrap {address}"
        option += "" if client_file is None else f" --client-config {client_file.path}"
        remark(
            f"Ctrl-C stops it. In another terminal: siltstone topics{option}",
            dim=True,
        )
