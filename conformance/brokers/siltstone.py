"""Siltstone itself: ``siltstone serve`` on a folder, as a process of its own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.brokers.broker import Broker, BrokerSettings
from conformance.brokers.broker_of_processes import broker_of_processes
from oracles.broker_process import HOST, free_ports, running_broker


@contextmanager
def open_siltstone(settings: BrokerSettings, folder: Path) -> Iterator[Broker]:
    """The port is always the same, so that clients find the broker again."""
    (port,) = free_ports(1)
    command = [str(Path(sys.executable).with_name("siltstone")), "serve", "--store", str(folder / "store")]
    command += ["--listener", f"{HOST}:{port}", *_options(settings)]
    with broker_of_processes(lambda: running_broker(command, port, folder / "broker.log")) as broker:
        yield broker


def _options(settings: BrokerSettings) -> list[str]:
    values = {
        "groups.group_initial_rebalance_delay_ms": settings.group_initial_rebalance_delay_ms,
        "groups.group_min_session_timeout_ms": settings.group_min_session_timeout_ms,
        "network.connections_max_idle_ms": settings.connections_max_idle_ms,
        **settings.more,
    }
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
