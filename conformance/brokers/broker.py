"""The port of a broker under test."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from conformance.secured import Grounds

READY_SECONDS_MAX = 60


class BrokerSettings(msgspec.Struct, frozen=True):
    """Settings that differ from the defaults, so that scenarios need not wait for minutes. ``more``: settings of
    Siltstone by their names, which Apache Kafka gets by the last part, with dots. ``grounds``: of a broker that has
    listeners with TLS and logins beside the plain one, and rights."""

    group_initial_rebalance_delay_ms: int = 300
    group_min_session_timeout_ms: int = 1_000
    connections_max_idle_ms: int = 600_000
    more: Mapping[str, str] = {}
    grounds: Grounds | None = None


class BrokerFailed(Exception):
    """The broker did not start, or cannot be started."""


class Broker(Protocol):
    """A running broker, whose address stays the same when it is killed and started."""

    @property
    def bootstrap(self) -> str: ...

    def kill(self) -> None:
        """Kills the broker with SIGKILL: it closes nothing and answers nothing."""

    def start(self) -> None:
        """Starts the broker again on the same data and address; returns when it is ready."""


OpenBroker = Callable[[BrokerSettings, Path], AbstractContextManager[Broker]]
"""Starts a broker in an empty folder, and ends it."""
