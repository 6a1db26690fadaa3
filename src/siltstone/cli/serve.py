"""``siltstone serve``: a broker that runs until it is told to stop."""

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


@click.command()
@click.option(
    "--listener",
    "listeners",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help=f"Where to listen; repeatable; port 0 is any free one [{DEFAULT_LISTENER}].",
)
@click.option(
    "--advertised-listener",
    "advertised",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help="Where clients find that listener, if not where it listens; repeatable, by name.",
)
@click.option("-v", "--verbose", count=True, help="Log more on stderr: -v what happens, -vv everything.")
@click.option("--log-level", type=click.Choice(LEVELS), help=f"What is logged on stderr [{DEFAULT_LEVEL}].")
@store_options
def serve(
    choice: StoreChoice,
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    verbose: int,
    log_level: str | None,
) -> None:
    """Run a Kafka broker on the store, which is made if there is none.

    Every Kafka client can use it. Ctrl-C, or SIGTERM, ends it: what was begun is answered, everything is committed.
    A second one ends it at once; what was acknowledged is in the write-ahead log, and the next start recovers it.
    When nothing can be stored any more, as the log's disk is full, it ends with exit status 1.
    """
    settings = choice.settings(
        listeners=",".join(listeners) or None, advertised_listeners=",".join(advertised) or None
    )
    addresses = parse_addresses([settings.listeners], [settings.advertised_listeners])
    log_to_stderr(level_for(log_level, verbose))
    for address in addresses:
        _warn_of_misleading(address)
    run(_serve(settings, addresses))


def _warn_of_misleading(address: ListenerAddress) -> None:
    if address.misleads_others:
        remark(
            f"warning: {address} lets other machines in and sends them to {address.advertised_host}, which is "
            f"themselves: say where they find it with --advertised-listener {address.name}://HOST:PORT",
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
        remark("stopping: everything is committed first; once more to stop at once", dim=True)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    is_new = not log_exists(settings.metadata)
    with suppress(asyncio.CancelledError):
        async with running_kafka_node(settings, addresses) as node:
            if is_new:  # a name that was misspelt would go unnoticed
                remark(f"made a new store at {settings.folder}")
            _announce(settings, node)
            with tuned_garbage_collection():
                await _stopped_or_failed(stopping, node.node.engine)


async def _stopped_or_failed(stopping: asyncio.Event, engine: StreamEngine) -> None:
    """Raises EngineNotRunning when nothing can be stored any more: only a new start recovers, and whoever watches over
    this process starts it when it has ended."""
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
    """One line for each listener; who starts us waits for it."""
    for listener in node.listeners.listeners:
        result(
            f"Siltstone is ready at {listener.advertised_host}:{listener.advertised_port} "
            f"({listener.name}, store {settings.folder})"
        )
    _hint(node)


def _hint(node: KafkaNode) -> None:
    """For somebody who looks at a terminal and wonders what now."""
    if sys.stderr.isatty():
        first = node.listeners.listeners[0]
        address = f"{first.advertised_host}:{first.advertised_port}"
        option = "" if address == DEFAULT_LISTENER else f" --bootstrap {address}"
        remark(f"Ctrl-C ends it. Elsewhere: siltstone topics{option}; then produce, tail, groups", dim=True)
