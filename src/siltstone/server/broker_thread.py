"""A Kafka node on an event loop in a thread of its own, for whoever has no loop: it is asked from any thread.

One life: started once, stopped once. However it ends, whoever waits for it hears of it: ``start`` and ``stop`` raise
what went wrong, ``ask`` never waits for a loop that is gone.
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
"""How often one who waits for an answer looks whether the thread is still there."""


class BrokerNotRunning(InvalidRequest):
    """It was not started, or has been stopped."""


class BrokerThread:
    def __init__(self, settings: StoreSettings, addresses: Sequence[ListenerAddress]) -> None:
        self._settings = settings
        self._addresses = addresses
        self._started: Future[tuple[KafkaNode, asyncio.AbstractEventLoop]] = Future()
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._stop_is_wanted = False
        self._wake: Callable[[], object] | None = None
        # A daemon: a program that ends without stopping it ends. What was acknowledged is in the write-ahead log.
        self._thread = threading.Thread(target=self._run, name="siltstone-broker", daemon=True)

    def start(self) -> str:
        """HOST:PORT, when clients can connect. Raises what kept it from starting; then nothing is left of it."""
        self._thread.start()
        try:
            node, _ = self._started.result()
        except BaseException:  # KeyboardInterrupt, too
            self.stop()
            raise
        address = node.listeners.listeners[0]
        return f"{address.advertised_host}:{address.advertised_port}"

    def stop(self, seconds_max: float | None = None) -> None:
        """Returns when everything is committed and closed, or so many seconds are over. Any thread, any number of
        times. Raises, once, what went wrong after the start."""
        with self._lock:
            self._stop_is_wanted = True
            if self._wake is not None:
                with suppress(RuntimeError):  # the loop has ended by itself
                    self._wake()
        self._thread.join(seconds_max)
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def ask(self, question: Callable[[KafkaNode], Coroutine[Any, Any, T]]) -> T:
        """The answer of a coroutine on the broker's own loop. Raises BrokerNotRunning."""
        node, loop = self._started.result()
        coroutine = question(node)
        try:
            answer = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError as closed:
            coroutine.close()
            raise BrokerNotRunning("this broker has ended: make another one") from closed
        while not wait([answer], LOOK_AGAIN_SECONDS).done and self._thread.is_alive():
            pass
        coroutine.close()  # has no effect on one that has come to its end
        if not answer.done() or answer.cancelled():
            raise BrokerNotRunning("this broker was stopped before it could answer")
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
