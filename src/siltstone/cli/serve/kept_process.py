"""Keeps a process running beside this one: it is started again when it dies, and stopped when this process stops.

``siltstone serve --with-maintenance`` keeps ``siltstone maintain serve`` this way, which takes the processor for
seconds at a time and may bring a JVM; ``siltstone serve --nodes`` keeps the process of each node. A kept process has a
session of its own, so Ctrl-C at a terminal reaches this process alone, which passes it on once. Its stdin is a pipe
whose other end only this process has: when this process is gone, however it ended, the kept process reads the end of
the pipe, and stops, too (``end_with_parent``). The nodes of ``serve --nodes`` are stopped by that alone, so each node
knows that the others are stopped with it (``parent_is_gone``).
"""

import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock, Thread
from typing import IO

from siltstone.cli.store_options import StoreChoice
from siltstone.foundation.quantity_words import seconds_words
from siltstone.runtime.clock import Clock, SystemClock

RESTART_MS_MIN = 1_000
RESTART_MS_MAX = 60_000
"""The wait before a process that died is started again: a second, then twice as long each time."""

SETTLED_MS = 60_000
"""A process that has run for so long died of something new, and is started again after RESTART_MS_MIN."""

PROGRAM = "from siltstone.cli.program import main; main()"

WITH_PARENT = "--with-parent"
"""The hidden option of commands that can be kept: the process ends when the other end of its stdin is closed."""

log = logging.getLogger(__name__)


def own_command(words: Sequence[str], choice: StoreChoice, flags: Mapping[str, str]) -> list[str]:
    """Returns the command line of a ``siltstone`` that works on the same store, with ``flags`` in place of the given
    settings. Settings of the environment and of files reach it by themselves."""
    command = [sys.executable, "-c", PROGRAM, *words, WITH_PARENT]
    command += ["--store", str(choice.store), *(["--config", str(choice.config)] if choice.config else [])]
    for name, value in {**choice.flags, **flags}.items():
        command += ["--set", f"{name}={value}"]
    return command


def end_with_parent() -> None:
    """Stops this process when its parent's end of the pipe is closed: also after a signal, then at once."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, name="parent", daemon=True).start()


def parent_is_gone() -> bool:
    """Returns whether the other end of stdin, which is a pipe, is closed. Nothing is ever written to the pipe."""
    stdin = select.poll()
    stdin.register(sys.stdin.fileno(), 0)  # poll reports POLLHUP whatever it is asked for
    return bool(stdin.poll(0))


class KeptProcess:
    """Keeps a process running, from ``start`` until ``stop``.

    ``name`` and ``consequence`` are the beginning and the end of the line in the log when it dies. ``on_started``: is
    called with the process id of each process, ``on_line`` with each line of its stdout, which is discarded otherwise.
    ``on_ended`` is called with the exit status (None if it could not be started) and says whether to start it again;
    after ``stop`` it is called once more when no process is left, and its answer has no effect. All three are called
    in a thread of the process. ``stderr``: a file for it, in place of this process's own. ``ends_by_pipe``: ``stop``
    closes the pipe instead of sending SIGTERM. ``restart_ms_min``: the first wait before it is started again."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        consequence: str = "",
        clock: Clock | None = None,
        on_started: Callable[[int], None] = lambda _: None,
        on_line: Callable[[str], None] | None = None,
        on_ended: Callable[[int | None], bool] = lambda _: True,
        stderr: IO[bytes] | None = None,
        ends_by_pipe: bool = False,
        restart_ms_min: int = RESTART_MS_MIN,
    ) -> None:
        self._restart_ms_min = restart_ms_min
        self._name = name
        self._command = list(command)
        self._consequence = consequence
        self._clock = clock or SystemClock()
        self._on_started = on_started
        self._on_line = on_line
        self._on_ended = on_ended
        self._stderr = stderr
        self._ends_by_pipe = ends_by_pipe
        self._changing = Lock()
        self._stopping = Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = Thread(target=self._keep, name=name.replace(" ", "-"), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the process to end, and does not wait for its end. A second call has no effect."""
        with self._changing:
            is_first = not self._stopping.is_set()
            self._stopping.set()
            if not is_first or self._process is None:
                return
            if self._ends_by_pipe and self._process.stdin is not None:
                self._process.stdin.close()
            else:
                self._process.terminate()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process, if it runs."""
        with self._changing:
            if self._process is not None:
                self._process.send_signal(number)

    def close(self) -> None:
        """Stops the process and waits for its end, which it reaches in its own time limit."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        wait_ms = self._restart_ms_min
        while True:
            began_ms = self._clock.monotonic_ms()
            status, ended = self._run()
            is_wanted = self._on_ended(status)
            if self._stopping.is_set() or not is_wanted:
                return
            if self._clock.monotonic_ms() - began_ms >= SETTLED_MS:
                wait_ms = self._restart_ms_min
            log.error(
                "%s %s; it is started again in %s%s",
                self._name,
                ended,
                seconds_words(wait_ms / 1000),
                self._consequence,
            )
            if self._stopping.wait(wait_ms / 1000):
                self._on_ended(status)
                return
            wait_ms = min(2 * wait_ms, RESTART_MS_MAX)

    def _run(self) -> tuple[int | None, str]:
        """Runs one process to its end. → Its exit status, and how it ended."""
        stdout = subprocess.DEVNULL if self._on_line is None else subprocess.PIPE
        with self._changing:
            if self._stopping.is_set():
                return None, "was stopped"
            try:
                self._process = subprocess.Popen(  # noqa: S603  our own program
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=stdout,
                    stderr=self._stderr,
                    start_new_session=True,
                    text=True,
                )
            except OSError as trouble:
                return None, f"could not be started ({trouble})"
            process = self._process
        self._on_started(process.pid)
        with process:
            if process.stdout is not None:
                self._pass_on(process.stdout)
            status = process.wait()
        return status, (
            f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
        )

    def _pass_on(self, stdout: IO[str]) -> None:
        assert self._on_line is not None
        for line in stdout:
            self._on_line(line.rstrip("\n"))
