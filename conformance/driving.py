"""The driver of a client: a process that reads the features one by one and writes their results, one JSON line each.

    to the driver      {"feature": ID, "bootstrap": HOST:PORT, "name": NAME}      {"answer": ...} or {"error": TEXT}
    from the driver    {"ask": NAME, ...}      {"outcome": works|refused|lacks|failed, "detail": TEXT}

The process is kept from one feature to the next. If it does not answer in time, or ends, it is killed with its
children, and the next feature gets a new one.
"""

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from conformance.stage import Stage

_ROOT = Path(__file__).parents[1]
_END_SECONDS_MAX = 3
_STDERR_CHARACTERS = 300


class DriverHangs(Exception):
    """The driver did not answer in time, and was killed."""


class DriverCrashed(Exception):
    """The driver ended without an answer."""


class Driver:
    """``environment`` is added to ours; its stderr is written to ``log_path``."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log_path: Path) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}
        self._log_path = log_path
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reading: threading.Thread | None = None

    def tell(self, request: Mapping[str, object], stage: Stage, seconds_max: float) -> dict[str, Any]:
        """Returns the result of the feature. Raises DriverHangs, DriverCrashed."""
        deadline = time.monotonic() + seconds_max
        self._send(request)
        while True:
            said = self._next_line(deadline, seconds_max)
            if "ask" not in said:
                return said
            self._send(_answered(stage, said))

    def close(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS_MAX)
        self._end(process)

    def _send(self, message: Mapping[str, object]) -> None:
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._crashed() from None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            with self._log_path.open("a") as log:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                    env=self._environment, cwd=_ROOT, start_new_session=True,
                )  # fmt: skip
            self._lines = queue.Queue()
            assert self._process.stdout is not None
            self._reading = threading.Thread(
                target=_read, args=(self._process.stdout, self._lines), daemon=True
            )
            self._reading.start()
        return self._process

    def _next_line(self, deadline: float, seconds_max: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            self._drop()
            raise DriverHangs(f"nothing within {seconds_max:.0f} s") from None
        if line is None:
            raise self._crashed()
        said: dict[str, Any] = json.loads(line)
        return said

    def _crashed(self) -> DriverCrashed:
        status = self._drop()
        return DriverCrashed(
            f"ended with {status}: {self._log_path.read_text()[-_STDERR_CHARACTERS:].strip()}"
        )

    def _drop(self) -> int | None:
        assert self._process is not None
        process, self._process = self._process, None
        status = process.poll()
        self._end(process)
        return process.returncode if status is None else status

    def _end(self, process: subprocess.Popen[str]) -> None:
        """Kills the driver and its children, which are a process group. Then its output ends."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert self._reading is not None and process.stdin is not None and process.stdout is not None
        self._reading.join()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()


def _answered(stage: Stage, asked: Mapping[str, Any]) -> dict[str, object]:
    try:
        return {"answer": stage.answer(asked)}
    except Exception as error:  # whatever it is, the scenario has to know that it cannot continue
        return {"error": f"{type(error).__name__}: {error}"}


def _read(stdout: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stdout:
        lines.put(line)
    lines.put(None)
