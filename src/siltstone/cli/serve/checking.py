"""``siltstone serve --check``: looks at what a start needs, prints a line for each check, and starts nothing.

    ok       metadata: sqlite:///srv/store/metadata.sqlite is at version 812
    warning  certificate of listener SSL: broker.pem and its key are good for 9 days: renew the certificate
    refused  port 9092: listener SSL://0.0.0.0:9092 cannot be opened: another process listens there
    away     bucket 0: head siltstone-store.json failed 2 times in 8.1 s; the last failure: Read timeout

It ends with 0 when the node would start, warnings or not; with 1 when it has to wait for a place that does not answer;
and with 2 when something has to be changed first.
"""

from collections.abc import Iterable, Sequence

import click

from siltstone.cli.failures import FAILED, WRONG_REQUEST, Failure
from siltstone.cli.output import result
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.python_process import run
from siltstone.server.settings.node import NodeSettings
from siltstone.server.start_check import (
    StartFinding,
    StartOutcome,
    port_findings,
    start_findings,
)

_STYLES = {
    StartOutcome.OK: "green",
    StartOutcome.WARNING: "yellow",
    StartOutcome.REFUSED: "red",
    StartOutcome.AWAY: "red",
}
_WIDTH = max(map(len, StartOutcome)) + 1


def check_start(settings: NodeSettings, ports: Sequence[ListenerAddress]) -> None:
    """Prints the findings of a start that binds ``ports``. Raises Failure when it would not succeed now."""
    outcomes = _print(start_findings(settings, SystemClock(), system_randomness()))
    outcomes |= _print(run(port_findings(ports)))
    if StartOutcome.REFUSED in outcomes:
        raise Failure(WRONG_REQUEST)
    if StartOutcome.AWAY in outcomes:
        raise Failure(FAILED)


def _print(findings: Iterable[StartFinding]) -> set[StartOutcome]:
    """Returns the outcomes. A line is printed as soon as its check has ended."""
    outcomes = set()
    for each in findings:
        outcome = click.style(each.outcome.value.ljust(_WIDTH), fg=_STYLES[each.outcome])
        result(f"{outcome}{each.what}: {' '.join(each.text.split())}")
        outcomes.add(each.outcome)
    return outcomes
