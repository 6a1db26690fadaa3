"""Commands of maintenance at a real terminal: a pseudo-terminal of 80 and of 140 columns, where progress is drawn."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from support.engine.small_store import small_store

SILTSTONE = Path(sys.executable).parent / "siltstone"
COMMANDS = (["plan"], ["explain"], ["run", "--runner", "in-process"], ["status"])


def at_terminal(arguments: list[str], columns: int, seconds_max: float = 60) -> tuple[int, str]:
    """Exit status of the command, and all that the terminal was sent. A command that does not end is killed (-9)."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    with subprocess.Popen(
        [SILTSTONE, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        sent = bytearray()
        deadline = time.monotonic() + seconds_max
        try:
            while select.select([ours], [], [], max(0, deadline - time.monotonic()))[0]:
                if not (piece := os.read(ours, 65536)):
                    break
                sent += piece
            else:
                process.kill()
        except OSError:
            pass  # Linux tells so that the last process with the terminal open has gone
        finally:
            os.close(ours)
        return process.wait(), sent.decode()


@pytest.mark.parametrize("columns", [80, 140])
def test_every_command_of_maintenance_ends_well_at_a_terminal(tmp_path: Path, columns: int) -> None:
    small_store(tmp_path)
    for command in COMMANDS:
        status, sent = at_terminal(["maintain", *command, "--store", str(tmp_path)], columns)
        assert status == 0 and "Traceback" not in sent, (command, sent)
    status, sent = at_terminal(["maintain", "plan", "--store", str(tmp_path)], columns)
    assert re.search(r"[Nn]othing to do", sent), sent
