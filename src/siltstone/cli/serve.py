"""``siltstone serve``: a broker that runs until it is told to stop."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress

import click

from siltstone.cli.output import remarks, results
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.server.event_loop import run
from siltstone.server.kafka_node import KafkaNode, running_kafka_node
from siltstone.server.network.addresses import ListenerAddress, parse_addresses
from siltstone.server.settings import StoreSettings

DEFAULT_LISTENER = "127.0.0.1:9092"


@click.command()
@click.option(
    "--listener",
    "listeners",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    default=(DEFAULT_LISTENER,),
    help=f"Where to listen; repeatable; port 0 is any free one [{DEFAULT_LISTENER}].",
)
@click.option(
    "--advertised-listener",
    "advertised",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help="Where clients find that listener, if not where it listens; repeatable, by name.",
)
@store_options
def serve(choice: StoreChoice, listeners: tuple[str, ...], advertised: tuple[str, ...]) -> None:
    """Run a Kafka broker on the store, which is made if there is none.

    Every Kafka client can use it. Ctrl-C, or SIGTERM, ends it: what was begun is answered, everything is committed.
    A second one ends it at once; what was acknowledged is in the write-ahead log, and the next start recovers it.
    """
    addresses = parse_addresses(listeners, advertised)
    run(_serve(choice.settings(), addresses))


async def _serve(settings: StoreSettings, addresses: Sequence[ListenerAddress]) -> None:
    stopping = asyncio.Event()
    serving = asyncio.current_task()
    assert serving is not None

    def stop() -> None:
        if stopping.is_set():
            serving.cancel()
            return
        remarks().print("stopping: everything is committed first; once more to stop at once", style="dim")
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    with suppress(asyncio.CancelledError):
        async with running_kafka_node(settings, addresses) as node:
            _announce(settings, node)
            await stopping.wait()


def _announce(settings: StoreSettings, node: KafkaNode) -> None:
    """One line for each listener; who starts us waits for it."""
    for listener in node.listeners.listeners:
        results().print(
            f"Siltstone is ready at {listener.advertised_host}:{listener.advertised_port} "
            f"({listener.name}, store {settings.folder})",
            markup=False, soft_wrap=True,
        )  # fmt: skip
