"""The broker under test, whichever it is."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

READY_SECONDS_MAX = 60


class BrokerSettings(msgspec.Struct, frozen=True):
    """What scenarios need to be otherwise than by default, lest they wait for minutes."""

    group_initial_rebalance_delay_ms: int = 300
    group_min_session_timeout_ms: int = 1_000
    connections_max_idle_ms: int = 600_000


class BrokerFailed(Exception):
    """The broker did not start, or cannot be started."""


class Broker(Protocol):
    """One that runs; its address stays the same when it is killed and started."""

    @property
    def bootstrap(self) -> str: ...

    def kill(self) -> None:
        """SIGKILL: nothing is closed, nothing said."""

    def start(self) -> None:
        """Again, on the same data and address; returns when it is ready."""


OpenBroker = Callable[[BrokerSettings, Path], AbstractContextManager[Broker]]
"""Starts one in an empty folder; ends it."""
