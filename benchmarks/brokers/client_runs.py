"""Runs the client program and returns its answer."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from benchmarks.brokers.client import Target, Task

T = TypeVar("T")


class ClientFailed(Exception):
    """The client program failed; the text is its last output."""


class ClientRun:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def answer(self, kind: type[T]) -> T:
        """Waits for the answer. Raises ClientFailed."""
        out, err = self._process.communicate()
        if self._process.returncode != 0:
            raise ClientFailed(err.decode(errors="replace")[-1000:])
        return msgspec.json.decode(out, type=kind)


@contextmanager
def begun(target: Target, task: Task) -> Iterator[ClientRun]:
    """Runs the client program beside the block, and ends it with the block."""
    arguments = [msgspec.json.encode(each).decode() for each in (target, task)]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.brokers.client", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            yield ClientRun(process)
        finally:
            process.kill()


def answer_of(target: Target, task: Task, kind: type[T]) -> T:
    with begun(target, task) as client:
        return client.answer(kind)
