"""The process of one broker, with a stand-in for the node that only notes its life."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from siltstone.broker.request import Listener
from siltstone.cli import deadline as deadline_module
from siltstone.cli.deadline import ONE_SIGNAL_MS_MAX, ProcessDeadline, counted_signals
from siltstone.cli.serve import one_node as module
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import DAY_MS
from siltstone.runtime.clock import ManualClock
from siltstone.server.settings.node import load_node_settings
from siltstone.stream_engine.errors import EngineNotRunning


class PlayedNode:
    """Takes the place of a node: notes its life, and ends when ``closing`` lets it."""

    admin = None
    certificates = None

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, is_failing: bool = False, ends: bool = True
    ) -> None:
        self.life: list[str] = []
        self.is_failing = is_failing
        self.ready = asyncio.Event()
        self.closing = asyncio.Event()
        if ends:
            self.closing.set()
        self.limits_ms: list[float] = []
        self.engine = SimpleNamespace(raise_when_failed=self.raise_when_failed, is_clean=True, node_id=0)
        listener = Listener("PLAINTEXT", "here", 9)
        default = Listener("INSIDE", "127.0.0.1", 9092)
        self.listeners = SimpleNamespace(listeners=[listener, default])
        self.node = SimpleNamespace(engine=self.engine, metadata=SimpleNamespace(image=MetadataImage()))
        monkeypatch.setattr(module, "running_kafka_node", self.running)
        self.deadline = SimpleNamespace()
        monkeypatch.setattr(module, "ProcessDeadline", self.new_deadline)

    def new_deadline(self, _: object) -> SimpleNamespace:
        self.deadline = SimpleNamespace(set=self.limit, close=lambda: None, is_set=False)
        return self.deadline

    def limit(self, milliseconds: float, _: str) -> None:
        """Stands in for the deadline that ends the process."""
        self.limits_ms.append(milliseconds)
        self.deadline.is_set = True
        if not milliseconds:
            self.closing.set()

    async def raise_when_failed(self) -> None:
        self.ready.set()
        if self.is_failing:
            raise EngineNotRunning("the disk is full")
        await asyncio.Event().wait()

    @asynccontextmanager
    async def running(self, *_: object, **__: object) -> AsyncIterator["PlayedNode"]:
        self.life.append("running")
        try:
            yield self
        finally:
            self.life.append("closing")
            await self.closing.wait()
            self.life.append("closed")

    def serve(self, folder: Path, *signals: int) -> None:
        async def main() -> None:
            settings = load_node_settings(folder, environment={})
            serving = asyncio.ensure_future(module.serve_one_node(settings, ()))
            await asyncio.wait(
                (serving, asyncio.ensure_future(self.ready.wait())), return_when="FIRST_COMPLETED"
            )
            for number in signals:
                signal.raise_signal(number)
                for _ in range(20):
                    await asyncio.sleep(0)
            await serving

        asyncio.run(main())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_node_in_peace(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = PlayedNode(monkeypatch)
    node.serve(tmp_path, number)
    assert node.life == ["running", "closing", "closed"]
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"Siltstone is ready at here:9 (PLAINTEXT, store {tmp_path})",
        f"Siltstone is ready at 127.0.0.1:9092 (INSIDE, store {tmp_path})",
    ]
    assert err.splitlines() == [
        f"created a new store at {tmp_path}",
        "stopping: all data is uploaded and committed first; press again to exit now",
    ]


def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After the first signal the broker has the time of the settings, after the second none."""
    monkeypatch.setattr(module, "counted_signals", partial(counted_signals, one_signal_ms_max=0))
    node = PlayedNode(monkeypatch, ends=False)
    node.serve(tmp_path, signal.SIGINT, signal.SIGTERM)
    settings = load_node_settings(tmp_path, environment={})
    promised_ms = settings.network.close_time_limit_ms + settings.engine.close_time_limit_ms
    assert node.limits_ms[:2] == [promised_ms, 0]


def test_a_signal_that_is_sent_twice_at_once_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``timeout`` signals its child and then the group of its child. A later signal is a second one."""
    clock, limits_ms = ManualClock(), []
    ended = threading.Event()

    class Recorded(ProcessDeadline):
        def __init__(self, status: Callable[[], int]) -> None:
            super().__init__(status, end_process=lambda _: ended.set())

        def set(self, milliseconds: float, reason: str) -> None:
            limits_ms.append(milliseconds)
            super().set(milliseconds, reason)

    async def main() -> None:
        deadline = module.BrokerDeadline(settings)
        engine = SimpleNamespace(is_clean=False)
        deadline.is_ready(SimpleNamespace(node=SimpleNamespace(engine=engine), certificates=None))
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        assert limits_ms == [promised_ms]
        clock.advance_ms(ONE_SIGNAL_MS_MAX)
        signal.raise_signal(signal.SIGTERM)
        assert limits_ms == [promised_ms, 0]

    settings = load_node_settings(tmp_path, environment={})
    promised_ms = settings.network.close_time_limit_ms + settings.engine.close_time_limit_ms
    monkeypatch.setattr(module, "ProcessDeadline", Recorded)
    monkeypatch.setattr(deadline_module, "SystemClock", lambda: clock)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        asyncio.run(main())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert ended.wait(60)  # otherwise its thread would log into the next test


def test_a_node_that_cannot_store_data_any_more_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    node = PlayedNode(monkeypatch, is_failing=True)
    with pytest.raises(EngineNotRunning, match="the disk is full"):
        node.serve(tmp_path)
    assert node.life == ["running", "closing", "closed"]


def test_a_store_that_nobody_maintains_is_said_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "why_late", lambda image, now_ms: "No maintenance has run. Run it")
    PlayedNode(monkeypatch).serve(tmp_path, signal.SIGTERM)
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "No maintenance has run. Run it")
    ]


def test_a_store_that_nobody_maintains_is_said_once_a_day(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(module, "why_late", lambda image, now_ms: f"late at {now_ms - begun_ms}")
    begun_ms = clock.now_ms()

    async def main() -> None:
        metadata = SimpleNamespace(image=MetadataImage())
        node = SimpleNamespace(node=SimpleNamespace(metadata=metadata, engine=SimpleNamespace(node_id=0)))
        looking = asyncio.ensure_future(module._say_when_late(node, clock))
        for _ in range(3):
            for _ in range(5):
                await asyncio.sleep(0)
            clock.advance_ms(DAY_MS)
        looking.cancel()

    asyncio.run(main())
    assert [each.message for each in caplog.records] == [f"late at {days * DAY_MS}" for days in range(3)]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_to_type_next_is_told_at_a_terminal(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = PlayedNode(monkeypatch)
    monkeypatch.setattr(module, "log_exists", lambda _: True)
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: is_terminal, raising=False)
    node.serve(tmp_path, signal.SIGINT)
    err = capsys.readouterr().err
    assert "created a new store" not in err
    assert ("siltstone topics --bootstrap here:9\x1b[0m\n" in err) is is_terminal
    node.listeners.listeners.reverse()
    node.ready, node.closing = asyncio.Event(), asyncio.Event()
    node.closing.set()
    node.serve(tmp_path, signal.SIGINT)
    assert ("siltstone topics\x1b[0m\n" in capsys.readouterr().err) is is_terminal
