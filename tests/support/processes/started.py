"""A command as a process of its own, with pipes. It is killed at the latest when its test ends."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from support.processes.cli import CLEAN

PROGRAM = [sys.executable, "-c", "from siltstone.cli.main import main; main()"]


@contextmanager
def started(*words: object, **pipes: int) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if name not in CLEAN}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes}
    with subprocess.Popen([*PROGRAM, *map(str, words)], env=environment, **streams) as process:
        try:
            yield process
        finally:
            process.kill()
