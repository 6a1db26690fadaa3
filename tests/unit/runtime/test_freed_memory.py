"""Memory that is freed is used again, by all threads, without new pages of the operating system."""

import os
import subprocess
import sys

import pytest

from siltstone.model.limits import MIB
from siltstone.runtime.freed_memory import keep_freed_memory

PROGRAM = """
import resource
from threading import Thread
from siltstone.runtime.freed_memory import keep_freed_memory

PIECE, PIECES = 512 * 1024, 128
is_kept = keep_freed_memory(128 * 1024 * 1024) is not None

def use():
    pieces = [b"x" * PIECE for _ in range(PIECES)]

def faults_of_a_thread():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    thread = Thread(target=use)
    thread.start()
    thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first, second = faults_of_a_thread(), faults_of_a_thread()
print(int(is_kept), first, second)
"""
PAGES = 128 * 512 * 1024 // os.sysconf("SC_PAGE_SIZE")


def faults(**environment: str) -> tuple[int, int, int]:
    """Returns whether memory is kept, and the page faults of two threads, one after the other, that use 64 MiB."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**plain, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    is_kept, first, second = map(int, done.stdout.split())
    return is_kept, first, second


def test_another_thread_uses_the_memory_again() -> None:
    is_kept, first, second = faults()
    if not is_kept:
        pytest.skip("the C library is not glibc")
    assert second < PAGES / 10 < first


def test_settings_of_the_environment_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert keep_freed_memory(MIB) is None
    assert faults(MALLOC_ARENA_MAX="4")[0] == 0
