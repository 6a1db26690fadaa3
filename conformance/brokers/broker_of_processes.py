"""A broker that is a process of ours, which is killed and started again under the same address."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from oracles.broker_process import BrokerProcess

Start = Callable[[], AbstractContextManager[BrokerProcess]]


class BrokerOfProcesses:
    """Runs one process after the other; ``start`` starts each on the same port and data."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._running = ExitStack()
        self._process = self._running.enter_context(start())

    @property
    def bootstrap(self) -> str:
        return self._process.bootstrap_servers

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._running.close()

    def start(self) -> None:
        self._running.close()
        self._process = self._running.enter_context(self._start())

    def close(self) -> None:
        self._running.close()


@contextmanager
def broker_of_processes(start: Start) -> Iterator[BrokerOfProcesses]:
    broker = BrokerOfProcesses(start)
    try:
        yield broker
    finally:
        broker.close()
