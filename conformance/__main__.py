"""``make conformance``, or ``python -m conformance`` for some clients, some features, another broker."""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from rich.console import Console

from conformance.brokers.broker import OpenBroker
from conformance.brokers.given import given_broker
from conformance.brokers.known import BROKERS
from conformance.clients import BY_ID, CLIENTS, Client
from conformance.column import try_client
from conformance.exchange import exchange
from conformance.features import FEATURES, Feature
from conformance.outcome import Outcome, Result, is_expected
from conformance.report import Matrix, show, write

PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"


@click.command(context_settings={"show_default": True})
@click.option("--broker", type=click.Choice([*BROKERS]), default="siltstone", help="Which broker is started.")
@click.option("--bootstrap", metavar="HOST:PORT", help="A broker that runs, instead of one that is started.")
@click.option(
    "--client", "clients", multiple=True, type=click.Choice([*BY_ID]), help="Only these; may be repeated."
)
@click.option("--feature", "features", multiple=True, metavar="ID", help="Only these; may be repeated.")
@click.option("--at-once", type=click.IntRange(1), default=2, help="How many clients at the same time.")
@click.option(
    "--page", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the table as Markdown."
)
def main(
    broker: str,
    bootstrap: str | None,
    clients: Sequence[str],
    features: Sequence[str],
    at_once: int,
    page: Path | None,
) -> None:
    """Tries what ordinary Kafka clients do with a broker. The exit status is 1 if a result is not the expected one."""
    console = Console()
    open_broker = given_broker(bootstrap) if bootstrap else BROKERS[broker]
    chosen = [client for client in CLIENTS if not clients or client.id in clients]
    matrix = run(chosen, set(features), open_broker, bool(bootstrap), at_once, console)
    show(matrix, console)
    if page is not None:
        write(matrix, page)
    sys.exit(_status((*matrix.results, *matrix.exchanges), bootstrap or broker, console))


def run(
    clients: Sequence[Client],
    wanted: set[str],
    open_broker: OpenBroker,
    is_given: bool,
    at_once: int,
    console: Console,
) -> Matrix:
    def column(client: Client) -> tuple[str, list[Result]]:
        return try_client(
            client, _chosen(client, wanted), open_broker, is_given, lambda each: _tell(console, each)
        )

    with ThreadPoolExecutor(at_once) as pool:
        columns = [*pool.map(column, clients)]
    exchanged = [client for client in clients if client.features is FEATURES and not client.missing()]
    exchanges = exchange(exchanged, open_broker) if len(exchanged) > 1 and not wanted else []
    versions = {client.id: version for client, (version, _) in zip(clients, columns, strict=True)}
    return Matrix(versions, tuple(result for _, results in columns for result in results), tuple(exchanges))


def _chosen(client: Client, wanted: set[str]) -> list[Feature]:
    return [feature for feature in client.features if not wanted or feature.id in wanted]


def _tell(console: Console, result: Result) -> None:
    colour = "green" if result.outcome is Outcome.WORKS else "yellow"
    console.print(
        f"[{colour}]{result.outcome:15}[/] {result.client:13} {result.feature:24} {result.seconds:5.1f} s ",
        end="",
    )
    console.print(result.detail, markup=False, highlight=False)


def _status(results: Sequence[Result], broker: str, console: Console) -> int:
    surprises = [result for result in results if not is_expected(result, broker)]
    for surprise in surprises:
        console.print(f"not as expected: {surprise}", markup=False)
    return 1 if surprises else 0


if __name__ == "__main__":
    main()
