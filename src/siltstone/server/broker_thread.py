"""Runs a Kafka node on an event loop in a thread of its own, for programs without an event loop.

A broker thread is started once and stopped once. ``start`` and ``stop`` raise the error with which the thread ended,
and ``ask`` does not block when the event loop has ended.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, TypeVar

from siltstone.model.errors import InvalidRequest
from siltstone.server.kafka_node import KafkaNode, running_kafka_node
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.python_process import run
from siltstone.server.settings.store import StoreSettings

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 0.5
"""How often a caller that waits for an answer checks that the thread is still alive."""


class BrokerNotRunning(InvalidRequest):
    """The broker was not started, or has been stopped."""


class BrokerThread:
    """A Kafka node in a thread of its own; its methods may be called from any thread."""

    def __init__(self, settings: StoreSettings, addresses: Sequence[ListenerAddress]) -> None:
        self._settings = settings
        self._addresses = addresses
        self._started: Future[tuple[KafkaNode, asyncio.AbstractEventLoop]] = Future()
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._stop_is_wanted = False
        self._wake: Callable[[], object] | None = None
        # A daemon thread does not keep a program alive that ends without ``stop``. Acknowledged records are in the
        # write-ahead log.
        self._thread = threading.Thread(target=self._run, name="siltstone-broker", daemon=True)

    def start(self) -> str:
        """Starts the node and returns HOST:PORT when clients can connect. If starting fails, stops everything and
        raises the reason."""
        self._thread.start()
        try:
            node, _ = self._started.result()
        except BaseException:  # KeyboardInterrupt, too
            self.stop()
            raise
        address = node.listeners.listeners[0]
        return f"{address.advertised_host}:{address.advertised_port}"

    def stop(self, seconds_max: float | None = None) -> None:
        """Stops the node; returns when everything is committed and closed, or after ``seconds_max``. May be called more
        than once. The first call after a failure of the running node raises that failure."""
        with self._lock:
            self._stop_is_wanted = True
            if self._wake is not None:
                with suppress(RuntimeError):  # the loop has already ended
                    self._wake()
        self._thread.join(seconds_max)
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def ask(self, question: Callable[[KafkaNode], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine on the broker's event loop and returns its result. Raises BrokerNotRunning."""
        node, loop = self._started.result()
        coroutine = question(node)
        try:
            answer = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError as closed:
            coroutine.close()
            raise BrokerNotRunning("this broker has stopped: start another one") from closed
        while not wait([answer], LOOK_AGAIN_SECONDS).done and self._thread.is_alive():
            pass
        coroutine.close()  # has no effect on a finished coroutine
        if not answer.done() or answer.cancelled():
            raise BrokerNotRunning("this broker was stopped before it answered: start another one")
        return answer.result()

    def _run(self) -> None:
        try:
            run(self._serve())
        except BaseException as failure:
            if self._started.done():
                self._failure = failure
            else:
                self._started.set_exception(failure)

    async def _serve(self) -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            self._wake = lambda: loop.call_soon_threadsafe(stopping.set)
            if self._stop_is_wanted:
                stopping.set()
        async with running_kafka_node(self._settings, self._addresses) as node:
            self._started.set_result((node, loop))
            await stopping.wait()
