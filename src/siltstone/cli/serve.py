"""``siltstone serve``: runs a broker until Ctrl-C or SIGTERM."""

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

import click

from siltstone.cli.deadline import ProcessDeadline, counted_signals
from siltstone.cli.failures import STOPPED_EARLY, Failure
from siltstone.cli.logs import DEFAULT_LEVEL, LEVELS, level_for, log_format_option, log_to_stderr
from siltstone.cli.maintenance_process import MaintenanceProcess, command_of
from siltstone.cli.output import remark, result
from siltstone.cli.runner_options import RunnerChoice, runner_options
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.maintenance.pipeline.set_aside import MAINTENANCE_LOOKED_AT_MS, why_late
from siltstone.metadata.store.opening import log_exists
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.kafka_node import KafkaNode, running_kafka_node
from siltstone.server.network.addresses import ListenerAddress, parse_addresses
from siltstone.server.python_process import run, tuned_garbage_collection
from siltstone.server.settings.store import DEFAULT_LISTENER, StoreSettings
from siltstone.stream_engine.engine import StreamEngine

log = logging.getLogger(__name__)

STARTING_MS_MAX = 1_000
"""How long a process that has nothing to commit may take to end after a signal."""


class BrokerCommand(click.Command):
    """Says how a port is given: the nearest of the options, by its letters, is --store."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as unknown:
            if unknown.option_name != "--port":
                raise
            raise click.UsageError("No such option '--port'. Write --listener HOST:PORT.", ctx) from unknown


@click.command(cls=BrokerCommand)
@click.option(
    "--listener",
    "listeners",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help=f"Address to listen on; repeatable; port 0 picks a free port [{DEFAULT_LISTENER}].",
)
@click.option(
    "--advertised-listener",
    "advertised",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help="Address under which clients reach the listener of that name, if it differs; repeatable.",
)
@click.option(
    "--node-id",
    type=click.IntRange(0, 2**31 - 1),
    help="Number of this node; several nodes with different numbers on one store are a cluster [engine.node_id].",
)
@click.option("-v", "--verbose", count=True, help="Log more on stderr: -v for info, -vv for debug.")
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    help=f"Log records of this level and above on stderr [{DEFAULT_LEVEL}].",
)
@log_format_option
@click.option(
    "--with-maintenance",
    is_flag=True,
    help="Run siltstone maintain serve, too, in a process beside the broker.",
)
@runner_options
@store_options
@click.pass_context
def serve(
    context: click.Context,
    *,
    choice: StoreChoice,
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    node_id: int | None,
    verbose: int,
    log_level: str | None,
    log_format: str,
    with_maintenance: bool,
    runner: RunnerChoice,
) -> None:
    """Run a Kafka broker on a store, which is created if missing.

    A broker only adds: siltstone maintain serve, on this machine or another, compacts and deletes. With
    --with-maintenance it runs in a process beside the broker, is started again when it dies, and ends with the broker;
    --runner, --master and --conf are for it. Without it the log says when no maintenance has run for two days.

    Ctrl-C or SIGTERM: the broker finishes open requests, uploads and commits all data, and exits with status 0. After
    network.close_time_limit_ms and engine.close_time_limit_ms together it exits all the same, with status 3 if not
    everything is committed. Press again to exit now; nothing acknowledged is lost, because the next start recovers it
    from the write-ahead log. The broker exits with status 1 when it cannot store data any more, for instance because
    the disk of the log is full. While the bucket refuses or does not answer it serves on, as long as the log has room.
    """
    level = level_for(log_level, verbose)
    log_to_stderr(level, log_format)
    _check_runner(context, runner, with_maintenance=with_maintenance)
    settings = choice.settings(
        listeners=",".join(listeners) or None,
        advertised_listeners=",".join(advertised) or None,
        engine__node_id=None if node_id is None else str(node_id),
    )
    addresses = parse_addresses(
        [settings.listeners], [settings.advertised_listeners], settings.listener_security_protocol_map
    )
    for address in addresses:
        _warn_of_misleading(address)
    command = command_of(choice, runner, level, log_format) if with_maintenance else None
    run(_serve(settings, addresses, command))


def _check_runner(context: click.Context, runner: RunnerChoice, *, with_maintenance: bool) -> None:
    """Refuses a runner that cannot be started, before the broker begins, and one that nothing would use."""
    if with_maintenance:
        runner.check()
        return
    for name in ("runner", "master", "conf"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is for maintenance: add --with-maintenance.", context)


def _warn_of_misleading(address: ListenerAddress) -> None:
    if address.misleads_others:
        remark(
            f"warning: {address} accepts other machines but tells them to connect to {address.advertised_host}, which "
            f"is their own: add --advertised-listener {address.name}://HOST:PORT with an address they can reach",
            fg="yellow",
        )


async def _serve(
    settings: StoreSettings,
    addresses: Sequence[ListenerAddress],
    maintenance_command: Sequence[str] | None = None,
) -> None:
    """Runs the broker until a signal, or until it cannot store data. Raises Failure when it was stopped before
    everything was committed."""
    is_new = not log_exists(settings.metadata)  # before the signals are handled: the disk may hang
    stopping = BrokerDeadline(settings)
    try:
        async with running_kafka_node(settings, addresses) as node, AsyncExitStack() as opened:
            stopping.is_ready(node)
            if is_new:  # so that a misspelt --store is noticed
                remark(f"created a new store at {settings.folder}")
            _announce(settings, node)
            _begin_maintenance(maintenance_command, node, stopping, opened)
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


def _begin_maintenance(
    command: Sequence[str] | None, node: KafkaNode, stopping: "BrokerDeadline", opened: AsyncExitStack
) -> None:
    """Starts the process that maintains the store; or, without a command, a task that says when nobody does."""
    if command is None:
        looking = TaskGroup("maintenance", lambda _: None)
        opened.push_async_callback(looking.cancel)
        looking.start("look", _say_when_late(node, SystemClock()))
        return
    stopping.maintenance = MaintenanceProcess(
        command, on_started=lambda number: log.info("maintenance runs in process %d", number)
    )
    stopping.maintenance.start()
    remark("maintenance runs in a process beside the broker", dim=True)


async def _say_when_late(node: KafkaNode, clock: Clock) -> None:
    while True:
        if (words := why_late(node.node.metadata.image, clock.now_ms())) is not None:
            log.warning("%s", words)
        await clock.sleep_ms(MAINTENANCE_LOOKED_AT_MS)


class BrokerDeadline:
    """What the signals SIGINT and SIGTERM do to this process. The first one stops the broker, which then has the time
    limits of network and engine together; while it starts, nothing is worth waiting for, and it ends at once. The
    second one ends the process, unless it is the first one sent twice (``counted_signals``)."""

    def __init__(self, settings: StoreSettings) -> None:
        self.event = asyncio.Event()
        self._limit_ms = settings.network.close_time_limit_ms + settings.engine.close_time_limit_ms
        self._deadline = ProcessDeadline(self.status)
        self._count = counted_signals()
        self._loop = asyncio.get_running_loop()
        self._serving = asyncio.current_task()
        self._node: KafkaNode | None = None
        self.maintenance: MaintenanceProcess | None = None
        # Not ``add_signal_handler``: a loop that hangs would never call it.
        self._before = {
            number: signal.signal(number, lambda *_: self._arrived())
            for number in (signal.SIGINT, signal.SIGTERM)
        }

    def _arrived(self) -> None:
        """The signal handler. It takes no lock and prints nothing, because it may interrupt anything."""
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
            remark("stopping: all data is uploaded and committed first; press again to exit now", dim=True)
            return
        remark(
            "stopped before the broker was ready: the next start recovers what the write-ahead log holds",
            dim=True,
        )
        assert self._serving is not None
        self._serving.cancel()

    def is_ready(self, node: KafkaNode) -> None:
        self._node = node

    def status(self) -> int:
        """0 only if everything is committed."""
        return 0 if self._node is not None and self._node.node.engine.is_clean else STOPPED_EARLY

    def refuse_unless_stopped(self) -> None:
        """Raises CancelledError unless a signal was the cause."""
        if not self.event.is_set():
            raise asyncio.CancelledError

    def ended(self) -> None:
        """The broker has ended. After a signal, threads that hang have a second more: Python waits for them."""
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


def _announce(settings: StoreSettings, node: KafkaNode) -> None:
    """Prints one line for each listener; scripts and supervisors wait for these lines."""
    for listener in node.listeners.listeners:
        result(
            f"Siltstone is ready at {listener.advertised_host}:{listener.advertised_port} "
            f"({listener.name}, store {settings.folder})"
        )
    if node.admin is not None:
        remark(f"metrics and health: {', '.join(node.admin.urls)} (/metrics, /livez, /readyz)")
    _hint(node)


def _hint(node: KafkaNode) -> None:
    """Suggests the next commands, at a terminal only."""
    if sys.stderr.isatty():
        first = node.listeners.listeners[0]
        address = f"{first.advertised_host}:{first.advertised_port}"
        option = "" if address == DEFAULT_LISTENER else f" --bootstrap {address}"
        remark(
            f"Ctrl-C stops it. In another terminal: siltstone topics{option}; then produce, tail, groups",
            dim=True,
        )
