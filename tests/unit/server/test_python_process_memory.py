"""Memory that is freed is used again, by all threads, without new pages of the operating system."""

import asyncio
import os
import subprocess
import sys

import pytest

from siltstone.server.python_process import (
    BUFFER_BYTES_MIN,
    M_MMAP_THRESHOLD,
    TAKEN_APART_BYTES_MIN,
    KeptHeap,
    keep_freed_memory,
)

PROGRAM = """
import resource
from threading import Thread
from siltstone.server.python_process import keep_freed_memory

PIECE, PIECES = 512 * 1024, 128
is_kept = keep_freed_memory() is not None

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
    assert keep_freed_memory() is None
    assert faults(MALLOC_ARENA_MAX="4")[0] == 0


class Glibc:
    """Notes what is asked of ``mallopt``, and which connections are made between."""

    def __init__(self) -> None:
        self.noted: list[object] = []

    def mallopt(self, option: int, value: int) -> int:
        assert option == M_MMAP_THRESHOLD
        self.noted.append(value)
        return 1

    async def connect(self, name: str, *, ssl: object = None) -> str:
        self.noted.append(name)
        await asyncio.sleep(0)
        return name


def test_only_the_first_step_of_a_connection_with_tls_takes_large_pieces_beside_the_heap() -> None:
    glibc = Glibc()
    connect = KeptHeap(glibc.mallopt).spared(glibc.connect)

    async def main() -> None:
        assert await connect("plain") == "plain"
        assert await asyncio.gather(connect("a", ssl=1), connect("b", ssl=1)) == ["a", "b"]
        await asyncio.sleep(0)
        assert await connect("c", ssl=1) == "c"
        await asyncio.sleep(0)

    asyncio.run(main())
    apart, back = BUFFER_BYTES_MIN, TAKEN_APART_BYTES_MIN
    assert glibc.noted == ["plain", apart, "a", "b", back, apart, "c", back]
