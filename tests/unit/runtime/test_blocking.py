"""Calls in threads: as many at a time as there may be, in order, and none that keeps Python from ending."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from siltstone.runtime.blocking import BlockingThreads, ThreadedCalls
from support.processes.new_threads import new_threads

SECONDS_MAX = 60


def test_a_call_returns_and_raises_where_it_is_awaited() -> None:
    async def main() -> None:
        calls = ThreadedCalls("blocking-test", 2)
        assert await calls.run(divmod, 7, 2) == (3, 1)
        assert await calls.run(int, "ff", base=16) == 255
        with pytest.raises(ZeroDivisionError):
            await calls.run(divmod, 7, 0)
        name = await calls.run(lambda: threading.current_thread().name)
        assert name in {"blocking-test_0", "blocking-test_1"}, "the first one may not be idle again yet"
        calls.close()
        with pytest.raises(RuntimeError, match="shut down"):
            await calls.run(divmod, 7, 2)

    asyncio.run(main())
    assert not new_threads("blocking-test")


def test_no_more_calls_run_at_a_time_than_there_are_threads_and_all_are_used() -> None:
    pool, together = BlockingThreads("blocking-test", 3), threading.Barrier(3)
    running: list[int] = []
    most: list[int] = []

    def call() -> None:
        running.append(1)
        together.wait(SECONDS_MAX)  # three run at the same time, or this breaks
        most.append(len(running))
        running.pop()

    futures = [pool.submit(call) for _ in range(12)]
    for future in futures:
        future.result(SECONDS_MAX)
    assert max(most) == 3 and len(new_threads("blocking-test")) == 3
    pool.shutdown()
    assert not new_threads("blocking-test")


def test_one_call_after_another_needs_one_thread() -> None:
    pool = BlockingThreads("blocking-test", 3)
    for number in range(20):
        assert pool.submit(abs, -number).result(SECONDS_MAX) == number
        deadline = time.monotonic() + SECONDS_MAX
        while not pool._idle._value and time.monotonic() < deadline:  # the thread is back at its queue
            time.sleep(0)
    assert new_threads("blocking-test") == ["blocking-test_0"]
    pool.shutdown()


def test_without_memory_for_another_thread_the_first_one_makes_all_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, goes_on = BlockingThreads("blocking-test", 3), threading.Event()
    first = pool.submit(goes_on.wait, SECONDS_MAX)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        second = pool.submit(abs, -2)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            BlockingThreads("blocking-test-2", 1).submit(abs, -1)
    goes_on.set()
    assert first.result(SECONDS_MAX) and second.result(SECONDS_MAX) == 2
    pool.shutdown()


def test_what_was_submitted_is_done_before_the_threads_end() -> None:
    pool, begins = BlockingThreads("blocking-test", 2), threading.Event()
    waiting = [pool.submit(begins.wait, SECONDS_MAX) for _ in range(2)]
    futures = [pool.submit(abs, -number) for number in range(5)]
    futures[3].cancel()
    pool.shutdown(wait=False)
    begins.set()
    pool.shutdown()
    assert all(each.result(0) for each in waiting)
    assert [future.cancelled() or future.result(0) for future in futures] == [0, 1, 2, True, 4]


PROGRAM = """
import threading
from siltstone.runtime.blocking import BlockingThreads
pool = BlockingThreads("hangs", 1)
begun = threading.Event()
pool.submit(lambda: (begun.set(), threading.Event().wait()))
begun.wait()
print("ends")
"""


def test_python_ends_while_a_call_hangs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")
