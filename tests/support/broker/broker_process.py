"""``siltstone serve`` in a process of its own: started, watched, killed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.kafka.raw_kafka import Address

SILTSTONE = Path(sys.executable).with_name("siltstone")
READY = re.compile(rb"Siltstone is ready at (\S+):(\d+) ")


class BrokerProcess:
    """A broker is used in a ``with``, which stops it. ``log``: what it has written to stderr; a bug leaves a
    traceback there. ``program``: what runs in place of ``siltstone``; ``options``: further options of ``serve``;
    ``log_name``: where several brokers have one folder, the name of this one's log."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        port: int = 0,
        program: Sequence[str] = (str(SILTSTONE),),
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        log_name: str = "",
    ) -> None:
        self.folder = folder
        self._port = port
        self._program = program
        self._options = options
        self._environment = environment
        self._settings = dict(settings or {})
        self._log_path = folder.with_name(f"{log_name or folder.name}-stderr.txt")
        self._process: subprocess.Popen[bytes] | None = None
        self.address: Address = ("", 0)

    def __enter__(self) -> "BrokerProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when clients can connect."""
        with self._log_path.open("ab") as stderr:
            self._process = subprocess.Popen(
                self.command, stdout=subprocess.PIPE, stderr=stderr, env=self._environment
            )
        stdout = self._process.stdout
        assert stdout is not None
        match = READY.search(stdout.readline())
        assert match is not None, f"it did not start: {self.log}"
        self.address = match[1].decode(), int(match[2])

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def command(self) -> list[str]:
        command = [*self._program, "serve", "--store", str(self.folder), *self._options]
        command += ["--listener", f"127.0.0.1:{self._port}"]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    @property
    def log(self) -> str:
        return self._log_path.read_text(errors="replace")

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def resident_bytes(self) -> int:
        pages = Path(f"/proc/{self.process_id}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def exit_status(self, seconds: float) -> int | None:
        """Returns the exit status; None when the process lives on for so long."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return self._end()

    def kill(self) -> None:
        """Kills the broker, as a power failure would, but for what the operating system has written."""
        self.signal(signal.SIGKILL)
        self._end()

    def stop(self, seconds: float = 60.0) -> int | None:
        """Stops the broker as Ctrl-C does and returns its exit status. A broker that takes too long is killed; then
        None is returned."""
        if not self.is_alive:
            return self._end()
        self.signal(signal.SIGTERM)
        status = self.exit_status(seconds)
        if status is None:
            self.kill()
        return status

    def _end(self) -> int | None:
        process = self._process
        if process is None:
            return None
        status = process.wait()
        assert process.stdout is not None
        process.stdout.close()
        return status


def checked_store(folder: Path) -> str:
    """Runs ``siltstone check`` on a store. Fails when it finds anything."""
    command = [str(SILTSTONE), "check", "--store", str(folder)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout
