"""A driver of a table in a process of its own, which a test or a benchmark kills."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def killed_in_the_end(command: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[None]:
    """Yields when the process has printed ``begin``, and kills it where the body of the ``with`` ends. The process must
    not end before."""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begin\n", "the driver has ended by itself"
            yield
            assert process.poll() is None, "the driver has ended by itself"
        finally:
            os.kill(process.pid, signal.SIGKILL)
