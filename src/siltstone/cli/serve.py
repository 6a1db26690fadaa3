"""``siltstone serve``: runs a broker until Ctrl-C or SIGTERM."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from siltstone.cli.logs import DEFAULT_LEVEL, LEVELS, level_for, log_to_stderr
from siltstone.cli.output import remark, result
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.metadata.store.opening import log_exists
from siltstone.server.kafka_node import KafkaNode, running_kafka_node
from siltstone.server.network.addresses import ListenerAddress, parse_addresses
from siltstone.server.python_process import run, tuned_garbage_collection
from siltstone.server.settings.store import DEFAULT_LISTENER, StoreSettings
from siltstone.stream_engine.engine import StreamEngine


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
@click.option("-v", "--verbose", count=True, help="Log more on stderr: -v for info, -vv for debug.")
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    help=f"Log records of this level and above on stderr [{DEFAULT_LEVEL}].",
)
@store_options
def serve(
    choice: StoreChoice,
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    verbose: int,
    log_level: str | None,
) -> None:
    """Run a Kafka broker on a store, which is created if missing.

    Ctrl-C or SIGTERM: the broker finishes open requests, uploads and commits all data, and exits. Press again to exit
    now; nothing acknowledged is lost, because the next start recovers it from the write-ahead log. The broker exits
    with status 1 when it cannot store data any more, for instance because the disk of the log is full.
    """
    settings = choice.settings(
        listeners=",".join(listeners) or None, advertised_listeners=",".join(advertised) or None
    )
    addresses = parse_addresses(
        [settings.listeners], [settings.advertised_listeners], settings.listener_security_protocol_map
    )
    log_to_stderr(level_for(log_level, verbose))
    for address in addresses:
        _warn_of_misleading(address)
    run(_serve(settings, addresses))


def _warn_of_misleading(address: ListenerAddress) -> None:
    if address.misleads_others:
        remark(
            f"warning: {address} accepts other machines but tells them to connect to {address.advertised_host}, which "
            f"is their own: add --advertised-listener {address.name}://HOST:PORT with an address they can reach",
            fg="yellow",
        )


async def _serve(settings: StoreSettings, addresses: Sequence[ListenerAddress]) -> None:
    stopping = asyncio.Event()
    serving = asyncio.current_task()
    assert serving is not None

    def stop() -> None:
        if stopping.is_set():
            serving.cancel()
            return
        remark("stopping: all data is uploaded and committed first; press again to exit now", dim=True)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    is_new = not log_exists(settings.metadata)
    with suppress(asyncio.CancelledError):
        async with running_kafka_node(settings, addresses) as node:
            if is_new:  # so that a misspelt --store is noticed
                remark(f"created a new store at {settings.folder}")
            _announce(settings, node)
            with tuned_garbage_collection():
                await _stopped_or_failed(stopping, node.node.engine)


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
