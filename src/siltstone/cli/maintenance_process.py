"""The process that ``siltstone serve --with-maintenance`` starts beside the broker: ``siltstone maintain serve``.

A process of its own, because maintenance takes the processor for seconds at a time and Spark's driver brings a JVM. It
has a session of its own, so Ctrl-C at a terminal reaches the broker alone, which passes it on once. Its stdin is a pipe
whose other end only the broker's process has: when that process is gone, however it ended, maintenance reads the end of
the pipe, and stops, too.
"""

import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread

from siltstone.cli.runner_options import RunnerChoice
from siltstone.cli.store_options import StoreChoice
from siltstone.foundation.quantity_words import seconds_words
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.server.settings.admin import OFF

RESTART_MS_MIN = 1_000
RESTART_MS_MAX = 60_000
"""The wait before a process that died is started again: a second, then twice as long each time."""

SETTLED_MS = 60_000
"""A process that has run for so long died of something new, and is started again after RESTART_MS_MIN."""

PROGRAM = "from siltstone.cli.program import main; main()"

WITH_PARENT = "--with-parent"
"""The hidden option of ``siltstone maintain serve``: ends when the other end of stdin is closed."""

log = logging.getLogger(__name__)


def command_of(choice: StoreChoice, runner: RunnerChoice, log_level: str, log_format: str) -> list[str]:
    """The command line of the process. Settings of the environment and of files reach it by themselves. It has no admin
    listeners, because their address is the broker's."""
    words = [sys.executable, "-c", PROGRAM, "maintain", "serve", WITH_PARENT]
    words += ["--store", str(choice.store), *(["--config", str(choice.config)] if choice.config else [])]
    for name, value in {**choice.flags, "admin.listeners": OFF}.items():
        words += ["--set", f"{name}={value}"]
    words += ["--runner", runner.name, "--master", runner.master]
    for name, value in runner.settings.items():
        words += ["--conf", f"{name}={value}"]
    return [*words, "--log-level", log_level, "--log-format", log_format]


class MaintenanceProcess:
    """Keeps the process running, from ``start`` until ``stop``."""

    def __init__(
        self,
        command: Sequence[str],
        clock: Clock | None = None,
        on_started: Callable[[int], None] | None = None,
    ) -> None:
        self._command = list(command)
        self._clock = clock or SystemClock()
        self._on_started = on_started
        self._changing = Lock()
        self._stopping = Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._keep, name="maintenance-process", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Tells the process to end, and does not wait for it."""
        with self._changing:
            is_first = not self._stopping.is_set()
            self._stopping.set()
            if is_first and self._process is not None:
                self._process.terminate()

    def close(self) -> None:
        """Stops the process and waits for its end, which it reaches in its own time limit."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        wait_ms = RESTART_MS_MIN
        while True:
            began_ms = self._clock.monotonic_ms()
            ended = self._run()
            if self._stopping.is_set():
                return
            if self._clock.monotonic_ms() - began_ms >= SETTLED_MS:
                wait_ms = RESTART_MS_MIN
            log.error(
                "maintenance %s; it is started again in %s. The broker is not affected",
                ended,
                seconds_words(wait_ms / 1000),
            )
            if self._stopping.wait(wait_ms / 1000):
                return
            wait_ms = min(2 * wait_ms, RESTART_MS_MAX)

    def _run(self) -> str:
        """Runs one process to its end. → How it ended."""
        with self._changing:
            if self._stopping.is_set():
                return "was stopped"
            try:
                self._process = subprocess.Popen(  # noqa: S603  our own program
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
                )
            except OSError as trouble:
                return f"could not be started ({trouble})"
            process = self._process
        if self._on_started is not None:
            self._on_started(process.pid)
        with process:
            status = process.wait()
        return f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
