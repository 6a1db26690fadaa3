"""Starts the brokers of the demo of a cluster: each is a ``siltstone serve`` in a process of its own, which can be
killed."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

from siltstone.cli.serve.kept_process import KeptProcess, own_command
from siltstone.cli.serve.several_nodes import READY
from siltstone.cli.store_options import StoreChoice
from siltstone.model.errors import Unavailable

START_SECONDS_MAX = 60.0
"""The longest time for a start. A start takes half a second; a busy machine may pause for some."""

LOG_NAME = "nodes.log"
SETTINGS = {
    "engine.wal.location": "bucket:0",
    "engine.upload.cache_block_age_ms_max": "500ms",
    "groups.group_initial_rebalance_delay_ms": "0",
}
"""With its log in the bucket, a broker that is killed is failed over by the others. Objects are put often, so that the
brokers soon notice a bucket that is away."""


class NodeNotStarted(Unavailable):
    """The process of a broker ended before clients could connect, or was not ready in time."""


class NodeProcess:
    """One broker. ``address``: HOST:PORT at which the broker listens, also after it was started again."""

    def __init__(self, folder: Path, node_id: int, log_path: Path) -> None:
        self._folder = folder
        self._node_id = node_id
        self._log_path = log_path
        self._process: KeptProcess | None = None
        self.address = "127.0.0.1:0"

    def start(self) -> None:
        """Returns when clients can connect. Raises NodeNotStarted."""
        lines: SimpleQueue[str | None] = SimpleQueue()

        def ended(_: int | None) -> bool:
            lines.put(None)
            return False

        flags = {**SETTINGS, "engine.node_id": str(self._node_id), "listeners": self.address}
        command = own_command(("serve",), StoreChoice(self._folder), flags)
        with self._log_path.open("ab") as log:
            self._process = KeptProcess(
                f"node {self._node_id}", command, on_line=lines.put, on_ended=ended, stderr=log
            )
            self._process.start()
            self.address = self._ready_at(lines)

    def _ready_at(self, lines: "SimpleQueue[str | None]") -> str:
        try:
            while (line := lines.get(timeout=START_SECONDS_MAX)) is not None:
                if line.startswith(READY):
                    return line.removeprefix(READY).split(" ")[0]
        except Empty:
            pass
        raise NodeNotStarted(f"broker {self._node_id} did not start: {self._log_path} says why")

    def kill(self) -> None:
        """Sends SIGKILL: nothing is uploaded or closed. Returns when the process is gone."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)
            self._process.close()

    def stop(self) -> None:
        """Asks the process to end; ``close`` waits for the end."""
        if self._process is not None:
            self._process.stop()

    def close(self) -> None:
        if self._process is not None:
            self._process.close()


@contextmanager
def running_nodes(folder: Path, count: int) -> Iterator[list[NodeProcess]]:
    """Runs the brokers of a new store, and yields them by node id when all are ready. They are stopped at the end of
    the block. Raises NodeNotStarted."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes = [NodeProcess(folder, node_id, folder / LOG_NAME) for node_id in range(count)]
    try:
        for node in nodes:  # the first one creates the store
            node.start()
        yield nodes
    finally:
        for node in nodes:
            node.stop()
        for node in nodes:
            node.close()
