"""``siltstone serve --check``: looks at what a start needs, prints a line for each check, and starts nothing.

    ok       metadata: sqlite:///srv/store/metadata.sqlite is at version 812
    warning  certificate of listener SSL: broker.pem and its key are good for 9 days: renew the certificate
    refused  port 9092: listener SSL://0.0.0.0:9092 cannot be opened: another process listens there

It ends with 0 when the node would start, warnings or not, and with 2 when it would not.
"""

from collections.abc import Iterable, Sequence

import click

from siltstone.cli.failures import WRONG_REQUEST, Failure
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

_STYLES = {StartOutcome.OK: "green", StartOutcome.WARNING: "yellow", StartOutcome.REFUSED: "red"}
_WIDTH = max(map(len, StartOutcome)) + 1


def check_start(settings: NodeSettings, ports: Sequence[ListenerAddress]) -> None:
    """Prints the findings of a start that binds ``ports``. Raises Failure when it would be refused."""
    are_refused = _print(start_findings(settings, SystemClock(), system_randomness()))
    are_refused |= _print(run(port_findings(ports)))
    if are_refused:
        raise Failure(WRONG_REQUEST)


def _print(findings: Iterable[StartFinding]) -> bool:
    """Returns whether any finding refuses the start. A line is printed as soon as its check has ended."""
    are_refused = False
    for each in findings:
        outcome = click.style(each.outcome.value.ljust(_WIDTH), fg=_STYLES[each.outcome])
        result(f"{outcome}{each.what}: {' '.join(each.text.split())}")
        are_refused |= each.outcome is StartOutcome.REFUSED
    return are_refused
