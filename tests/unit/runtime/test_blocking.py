"""Calls in threads run in order, as many at a time as are allowed, and none keeps Python from ending."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from siltstone.runtime.blocking import BlockingThreads, ThreadedCalls
from support.processes.new_threads import new_threads
from support.scenarios import in_loop

SECONDS_MAX = 60


def submitted(pool: BlockingThreads, call: Callable[..., object], *args: object) -> "Future[object]":
    result: Future[object] = Future()
    pool.submit(lambda: result.set_result(call(*args)))
    return result


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

    futures = [submitted(pool, call) for _ in range(12)]
    for future in futures:
        future.result(SECONDS_MAX)
    assert max(most) == 3 and len(new_threads("blocking-test")) == 3
    pool.shut_down()
    assert not new_threads("blocking-test")


def test_one_call_after_another_needs_one_thread() -> None:
    pool = BlockingThreads("blocking-test", 3)
    for number in range(20):
        assert submitted(pool, abs, -number).result(SECONDS_MAX) == number
        deadline = time.monotonic() + SECONDS_MAX
        while not pool._idle_count and time.monotonic() < deadline:  # the thread is back at its queue
            time.sleep(0)
    assert new_threads("blocking-test") == ["blocking-test_0"]
    pool.shut_down()


def test_without_memory_for_another_thread_the_first_one_makes_all_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, goes_on = BlockingThreads("blocking-test", 3), threading.Event()
    first = submitted(pool, goes_on.wait, SECONDS_MAX)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        second = submitted(pool, abs, -2)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            BlockingThreads("blocking-test-2", 1).submit(lambda: None)
    goes_on.set()
    assert first.result(SECONDS_MAX) and second.result(SECONDS_MAX) == 2
    pool.shut_down()


def test_what_was_submitted_is_done_before_the_threads_end() -> None:
    pool, begins = BlockingThreads("blocking-test", 2), threading.Event()
    waiting = [submitted(pool, begins.wait, SECONDS_MAX) for _ in range(2)]
    results = [submitted(pool, abs, -number) for number in range(5)]
    ending = threading.Thread(target=pool.shut_down)
    ending.start()
    begins.set()
    ending.join(SECONDS_MAX)
    assert not ending.is_alive()
    assert all(each.result(0) for each in waiting)
    assert [each.result(0) for each in results] == [0, 1, 2, 3, 4]


def test_a_pool_that_is_abandoned_ends_after_its_call_and_nobody_waits() -> None:
    pool, gate = BlockingThreads("blocking-test", 1), threading.Event()
    result = submitted(pool, gate.wait, SECONDS_MAX)
    pool.abandon()
    assert not result.done()
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(lambda: None)
    gate.set()
    assert result.result(SECONDS_MAX)
    pool.shut_down()  # joins them
    assert new_threads("blocking-test") == []


@in_loop
async def test_an_end_waits_so_long_for_a_call_and_the_loop_goes_on() -> None:
    loop, calls, hanging = asyncio.get_running_loop(), *(ThreadedCalls("blocking-test", 1) for _ in range(2))
    hangs = threading.Event()

    def asks_the_loop() -> int:
        return asyncio.run_coroutine_threadsafe(asyncio.sleep(0, 7), loop).result(SECONDS_MAX)

    asking = asyncio.ensure_future(calls.run(asks_the_loop))
    hang = asyncio.ensure_future(hanging.run(hangs.wait, SECONDS_MAX))
    await asyncio.sleep(0)
    assert await calls.end_within(SECONDS_MAX) and await asking == 7
    assert not await hanging.end_within(0.01)
    with pytest.raises(RuntimeError, match="shut down"):
        await calls.run(len, "")
    hangs.set()
    assert await hang and await hanging.end_within(SECONDS_MAX)


@in_loop
async def test_a_call_that_has_begun_is_not_stopped_by_a_cancellation_and_one_that_waits_is_not_made() -> (
    None
):
    calls, goes_on, made = ThreadedCalls("blocking-test", 1), threading.Event(), []

    def first() -> None:
        begun.set()
        goes_on.wait(SECONDS_MAX)
        made.append("first")

    begun = threading.Event()
    tasks = [
        asyncio.create_task(calls.run(first)),
        asyncio.create_task(calls.run(made.append, "second")),
        asyncio.create_task(calls.run(made.append, "third")),
    ]
    while not begun.is_set():
        await asyncio.sleep(0)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.wait(tasks[:2])
    goes_on.set()
    await tasks[2]
    assert made == ["first", "third"]
    calls.close()


def test_a_call_that_ends_after_its_loop_was_closed_harms_nobody() -> None:
    calls, goes_on, begun = ThreadedCalls("blocking-test", 1), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        goes_on.wait(SECONDS_MAX)

    async def main() -> None:
        task = asyncio.create_task(calls.run(call))
        while not begun.is_set():
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(main())
    goes_on.set()
    assert asyncio.run(calls.run(abs, -1)) == 1, "the thread has outlived the first loop"
    calls.close()


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_keeps_the_arguments_and_the_result_of_a_call(fails: bool) -> None:
    """They may have a gigabyte, so their memory is freed at once, and not at the next garbage collection."""

    class Large:
        pass

    def call(argument: Large) -> Large:
        if fails:
            raise ValueError(argument)
        return argument

    async def main() -> None:
        calls = ThreadedCalls("blocking-test", 1)
        large = Large()
        seen = weakref.ref(large)
        try:
            await calls.run(call, large)
        except ValueError:
            assert fails
        del large
        await calls.run(abs, -1)  # the thread no longer refers to the call before
        assert seen() is None
        calls.close()

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems wait for a lock of Python's")
def test_a_pool_that_nobody_has_leaves_no_open_file() -> None:
    def open_files() -> int:
        links = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
        return [os.readlink(each) for each in links if os.path.lexists(each)].count("anon_inode:[eventfd]")

    gc.collect()  # event loops of other tests have such files, too
    before = open_files()
    pool = BlockingThreads("blocking-test", 2)
    assert submitted(pool, abs, -1).result(SECONDS_MAX) == 1
    assert open_files() == before + 1
    pool.shut_down()
    del pool
    assert open_files() == before


FORKING = """
import os
from concurrent.futures import Future
from siltstone.runtime.blocking import BlockingThreads

pool = BlockingThreads("forked", 1)

def result():
    answer = Future()
    pool.submit(lambda: answer.set_result("done"))
    return answer.result(20)

result()
child = os.fork()
if not child:
    pool.shut_down()  # of the child: it shares the eventfd, and has no thread
    os._exit(0)
os.waitpid(child, 0)
print(result(), result())
pool.shut_down()
"""


def test_a_forked_process_that_shuts_its_pool_down_ends_no_thread_of_its_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done done\n", "")


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
