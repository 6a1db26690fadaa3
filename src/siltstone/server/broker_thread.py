"""Runs a Kafka node on an event loop in a thread of its own, for programs without an event loop.

A broker thread is started once and stopped once. ``start`` and ``stop`` raise the error with which the thread ended,
and ``ask`` does not block when the event loop has ended. ``stop`` keeps the promise of ``siltstone serve``: it returns
or raises within the time limits of network and engine together, whatever hangs.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from siltstone.foundation.quantity_words import size_words
from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.object_store.faults import BucketFaults
from siltstone.server.kafka_node import KafkaNode, running_kafka_node
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.python_process import run
from siltstone.server.settings.node import NodeSettings

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 0.5
"""How often a caller that waits for an answer checks that the thread is still alive."""


PARKING_SECONDS_MAX = 1.0
"""How long a program that ends waits until a thread that did not end has fallen asleep."""

STARTING_SECONDS_MAX = 1.0
"""How long ``stop`` waits for a broker that is still starting, which has nothing to commit."""


class BrokerNotRunning(InvalidRequest):
    """The broker was not started, or has been stopped."""


class StoppedEarly(Unavailable):
    """The broker was stopped before everything was committed. ``log_folder``: the folder of the write-ahead log that
    has the rest; ``log_bytes``: the size of the rest. ``has_ended``: False when its threads still hang."""

    def __init__(self, log_folder: Path, log_bytes: int, reason: str, *, has_ended: bool) -> None:
        self.log_folder, self.log_bytes, self.has_ended = log_folder, log_bytes, has_ended
        super().__init__(
            f"the broker was stopped before everything was committed: {reason}. {size_words(log_bytes)} are only in "
            f"the write-ahead log in {log_folder}; the next start uploads them"
        )


class BrokerThread:
    """A Kafka node in a thread of its own; its methods may be called from any thread."""

    def __init__(
        self,
        settings: NodeSettings,
        addresses: Sequence[ListenerAddress],
        faults: BucketFaults | None = None,
    ) -> None:
        self._settings = settings
        self._addresses = addresses
        self._faults = faults
        self._started: Future[tuple[KafkaNode, asyncio.AbstractEventLoop]] = Future()
        self._failure: BaseException | None = None
        self._node: KafkaNode | None = None
        self._lock = threading.Lock()
        self._stop_is_wanted = False
        self._ends_with: Collection[int] = ()
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
            with suppress(StoppedEarly):
                self.stop()
            raise
        address = node.listeners.listeners[0]
        return f"{address.advertised_host}:{address.advertised_port}"

    def ask_to_stop(self, ends_with: Collection[int] = ()) -> None:
        """Asks the node to stop, and does not wait for its end as ``stop`` does. ``ends_with``: the nodes that end now,
        this one included."""
        with self._lock:
            self._ends_with = ends_with or self._ends_with
            self._stop_is_wanted = True
            if self._wake is not None:
                with suppress(RuntimeError):  # the loop has already ended
                    self._wake()

    def stop(self, seconds_max: float | None = None) -> None:
        """Stops the node; returns when everything is committed and closed. May be called more than once. Raises
        StoppedEarly when that is not possible, or not within the time limits of network and engine together, or
        ``seconds_max``; threads that hang are abandoned then. The first call after a failure of the running node raises
        that failure."""
        self.ask_to_stop()
        seconds = self._promised_seconds if seconds_max is None else seconds_max
        self._thread.join(seconds)
        has_ended = not self._thread.is_alive()
        with self._lock:
            failure, self._failure = self._failure, None
            node = self._node
            if has_ended:
                self._node = None
        if failure is not None:
            raise failure
        if not has_ended or (node is not None and not node.node.engine.is_clean):
            raise self._stopped_early(node, seconds, has_ended=has_ended)

    @property
    def _promised_seconds(self) -> float:
        if not self._started.done():
            return STARTING_SECONDS_MAX
        limits_ms = self._settings.network.close_time_limit_ms + self._settings.engine.close_time_limit_ms
        return limits_ms / 1000

    def _stopped_early(self, node: KafkaNode | None, seconds: float, *, has_ended: bool) -> StoppedEarly:
        reasons = [] if has_ended else [f"it did not end within {seconds:g} s"]
        log_bytes = 0
        if node is not None:
            engine = node.node.engine
            reasons += filter(None, [engine.reason_not_clean])
            log_bytes = engine.statistics().wal.bytes_untrimmed
        return StoppedEarly(self._settings.wal_folder, log_bytes, "; ".join(reasons), has_ended=has_ended)

    def park(self) -> None:
        """Has a thread that did not end sleep for good, when the program ends: a thread that comes back to an
        interpreter which has ended is unwound in the middle of uvloop, and the process dies with SIGSEGV instead of
        ending with its status."""
        if not self._thread.is_alive() or not self._started.done() or self._started.exception() is not None:
            return
        _, loop = self._started.result()
        is_parked = threading.Event()

        def sleep() -> None:
            is_parked.set()
            threading.Event().wait()

        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(sleep)
            is_parked.wait(PARKING_SECONDS_MAX)
            threading.Event().wait(PARKING_SECONDS_MAX / 100)  # it falls asleep meanwhile

    def kill(self) -> None:
        """Ends the node without committing anything; returns when its thread has ended. No failure is raised."""

        async def killed(node: KafkaNode) -> None:
            node.abandon()

        with suppress(BrokerNotRunning):  # the loop has ended by itself
            self.ask(killed)
        with suppress(Exception):
            self.stop()

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
            if not self._started.done():
                self._started.set_exception(failure)
            elif not isinstance(failure, asyncio.CancelledError):
                self._failure = failure

    async def _serve(self) -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        serving = asyncio.current_task()
        assert serving is not None

        def stop() -> None:
            if (
                not stopping.is_set() and not self._started.done()
            ):  # a start may wait for something that never answers
                serving.cancel()
            stopping.set()

        with self._lock:
            self._wake = lambda: loop.call_soon_threadsafe(stop)
            if self._stop_is_wanted:
                stopping.set()
        async with running_kafka_node(
            self._settings, self._addresses, faults=self._faults, ends_with=lambda: self._ends_with
        ) as node:
            self._node = node
            self._started.set_result((node, loop))
            await stopping.wait()
