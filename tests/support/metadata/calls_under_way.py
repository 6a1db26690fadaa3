"""Calls to a metadata log that continue in a thread while a test does something to the server."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

WAITING_SECONDS_MAX = 60


def wait_for(condition: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + WAITING_SECONDS_MAX
    while not condition():
        assert time.monotonic() < give_up, f"waited in vain for {what}"
        time.sleep(0.01)


def in_thread(call: Callable, *arguments) -> Future:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(call, *arguments)
    pool.shutdown(wait=False)
    return future
