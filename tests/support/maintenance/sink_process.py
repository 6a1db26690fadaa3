"""Drivers of a sink in processes of their own, which tests kill or hold at a step of a commit."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.maintenance import sink_driver

TESTS = Path(__file__).parents[2]
ROWS = 40
"""The rows of a batch, unless a test gives a ``count``."""


class SinkProcess:
    """The batches of the sink ``out``, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        self._folder = folder
        self._log = folder / "driver.txt"
        self.reached, self.go = folder / "reached", folder / "go"

    def start(self, batch: int, first: int, mode: str | None, **more: Any) -> subprocess.Popen[bytes]:
        for path in (self.reached, self.go):
            path.unlink(missing_ok=True)
        job: dict[str, Any] = {
            "store": str(self.store), "topic": "t", "sink": "out", "batch": batch, "first": first, "count": ROWS,
            "mode": mode, "reached": str(self.reached), "go": str(self.go), **more,
        }  # fmt: skip
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, sink_driver.__file__, json.dumps(job)],
                env={**os.environ, "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"},
                stdout=log,
                stderr=log,
            )

    def wait_until_reached(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 300
        while not self.reached.exists():
            assert process.poll() is None and time.monotonic() < deadline, self.log
            time.sleep(0.02)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4_000:]


def numbers(expected: Iterable[int]) -> list[bytes]:
    """Returns the values of the rows with these numbers, sorted."""
    return sorted(b"value-%06d" % number for number in expected)
