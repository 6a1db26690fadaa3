"""``python -m conformance.suites``: the suites that can be run on this machine, and the table of their outcomes."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from conformance.brokers.known import BROKERS
from conformance.suites.known import BY_ID, KNOWN
from conformance.suites.page import write_suites
from conformance.suites.running import run_suite


@click.command(context_settings={"show_default": True})
@click.option("--broker", type=click.Choice([*BROKERS]), default="siltstone", help="Which broker is started.")
@click.option(
    "--suite", "suites", multiple=True, type=click.Choice([*BY_ID]), help="Only these; may be repeated."
)
@click.option(
    "--page", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the table as Markdown."
)
def main(broker: str, suites: Sequence[str], page: Path | None) -> None:
    """Runs tests of transactions and groups of other people's clients against a broker. The exit status is 1 if a test
    fails that passes at Apache Kafka."""
    console = Console()
    outcomes = []
    for suite in (each for each in KNOWN if not suites or each.id in suites):
        outcomes.append(outcome := run_suite(suite, BROKERS[broker]))
        console.print(
            f"{suite.id:14} {outcome.passed} passed, {outcome.seconds:.0f} s",
            outcome.missing,
            *outcome.failures,
        )
    if page is not None:
        write_suites(outcomes, page)
    surprises = [
        name
        for outcome in outcomes
        for name in outcome.failures
        if name not in BY_ID[outcome.suite].as_expected
    ]
    sys.exit(1 if surprises else 0)


if __name__ == "__main__":
    main()
