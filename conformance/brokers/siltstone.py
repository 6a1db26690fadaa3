"""Siltstone itself: ``siltstone serve`` on a folder, as a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.brokers.broker import Broker, BrokerSettings
from conformance.brokers.broker_of_processes import broker_of_processes
from conformance.secured import SUPER_USERS, settings_of_siltstone
from oracles.broker_process import HOST, free_ports, running_broker


@contextmanager
def open_siltstone(settings: BrokerSettings, folder: Path) -> Iterator[Broker]:
    """The port is always the same, so that clients find the broker again."""
    (port,) = free_ports(1)
    program, store = str(Path(sys.executable).with_name("siltstone")), str(folder / "store")
    command = [program, "serve", "--store", store, "--listener", f"{HOST}:{port}", *_options(settings)]
    with broker_of_processes(lambda: running_broker(command, port, folder / "broker.log")) as broker:
        if settings.grounds is not None:
            named = [word for name in SUPER_USERS for word in ("--super-user", name)]
            rights = [program, "authorization", "on", *named, "--store", store]
            subprocess.run(rights, check=True, capture_output=True)
        yield broker


def _options(settings: BrokerSettings) -> list[str]:
    values = {
        "groups.group_initial_rebalance_delay_ms": settings.group_initial_rebalance_delay_ms,
        "groups.group_min_session_timeout_ms": settings.group_min_session_timeout_ms,
        "network.connections_max_idle_ms": settings.connections_max_idle_ms,
        **settings.more,
    }
    words = []
    if settings.grounds is not None:
        values |= settings_of_siltstone(settings.grounds)
        for name, port in settings.grounds.ports.items():
            words += ["--listener", f"{name}://{HOST}:{port}"]
    return [*words, *(word for key, value in values.items() for word in ("--set", f"{key}={value}"))]
