"""Pages that follow a store, at real sockets: how many there may be, what a closed one leaves, what a signal ends."""

import asyncio
import http.client
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.console.application import Asked, Console
from siltstone.console.pages import PAGES
from siltstone.console.store import OpenedStore
from siltstone.console.visitors import Visitor
from siltstone.model.console_limits import CONSOLE_WATCHERS_MAX
from siltstone.offline.opening.store import open_store
from siltstone.runtime.clock import SystemClock
from siltstone.server.admin.http_serving import HttpConnection, HttpConnections
from siltstone.server.settings.node import load_node_settings
from support.kafka.quiet_client import QUIET
from support.scenarios import in_loop

ROWS = "/topics/orders/messages/rows"
SENTENCE = "20 other pages follow this store already"
CUT_OFF = "did not end within"
"""What a process says that hangs at its end, and is ended after its limit."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with siltstone.Broker(tmp_path_factory.mktemp("watchers") / "store") as broker:
        produce(broker.bootstrap_servers, 100)
        return broker.folder


def produce(address: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": address, **QUIET})
    for number in range(records):
        producer.produce("orders", str(number))
    assert producer.flush(60) == 0


class Watcher(Thread):
    """A page that follows the newest messages, as htmx loads them, but without a pause. Ends when a load fails."""

    def __init__(self, address: str, name: str, path: str = ROWS, **headers: str) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection(address, timeout=60)
        self._path = path
        self._headers = {"siltstone-watcher": name, "HX-Request": "true", **headers}
        self.answers: list[tuple[int, str]] = []
        self.has_loaded = Event()

    def load(self) -> tuple[int, str]:
        self._connection.request("GET", self._path, headers=self._headers)
        answer = self._connection.getresponse()
        self.answers.append((answer.status, answer.read().decode()))
        self.has_loaded.set()
        return self.answers[-1]

    def run(self) -> None:
        with closing(self._connection), suppress(OSError, http.client.HTTPException):
            while self.load()[0] == 200:
                pass


def loaded(address: str, name: str, path: str = ROWS, **headers: str) -> tuple[int, str]:
    """Loads once, as one more page."""
    page = Watcher(address, name, path, **headers)
    with closing(page._connection):
        return page.load()


@contextmanager
def watching(address: str, **headers: str) -> Iterator[list[Watcher]]:
    watchers = [Watcher(address, f"page-{number}", **headers) for number in range(CONSOLE_WATCHERS_MAX)]
    for each in watchers:
        each.start()
    for each in watchers:
        assert each.has_loaded.wait(60) and each.answers[0][0] == 200, each.answers[:1]
    yield watchers
    for each in watchers:
        each.join(60)
        assert not each.is_alive()


def ended(process: subprocess.Popen) -> tuple[int, str]:
    """Sends SIGTERM, and returns the status and what the process has written to stderr."""
    process.send_signal(signal.SIGTERM)
    status = process.wait(60)
    assert process.stderr is not None
    return status, process.stderr.read()


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen]:
    line = [sys.executable, "-m", "siltstone", *command]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen, pattern: str) -> re.Match[str]:
    assert process.stdout is not None
    while line := process.stdout.readline():
        if match := re.search(pattern, line):
            return match
    raise AssertionError("the process has ended")


def test_wc13_twenty_watch_a_console_and_a_signal_ends_it(folder: Path) -> None:
    with started("console", "--store", str(folder), "--port", "0") as process:
        link = first_line(process, r"http://(\S+)(/\?token=\w+)")
        address = link[1]
        with closing(http.client.HTTPConnection(address, timeout=60)) as opening:
            opening.request("GET", link[2])
            cookie = opening.getresponse().headers["Set-Cookie"].partition(";")[0]
        with watching(address, Cookie=cookie):
            status, text = loaded(address, "page-20", Cookie=cookie)
            assert status == 503 and SENTENCE in text
            assert loaded(address, "page-20", "/overview/live", Cookie=cookie)[0] == 503
            opened = loaded(address, "page-20", "/topics/orders/messages?live=1", Cookie=cookie)
            assert opened[0] == 200, "to look once is free"
            status, said = ended(process)
    assert status == 0 and said.count("stopping") == 1 and CUT_OFF not in said, said


def test_wc13_twenty_watch_a_broker_and_a_signal_ends_it(tmp_path: Path) -> None:
    """The loads ask the broker for its newest records while it ends."""
    settings = (
        "--set",
        "admin.listeners=127.0.0.1:0",
        "--set",
        "admin.console=true",
        "--listener",
        "127.0.0.1:0",
    )
    command = ("serve", "--store", str(tmp_path / "store"), "--log-level", "info", *settings)
    with started(*command) as process:
        assert process.stderr is not None
        address = first_line(process, r"ready at (\S+)")[1]
        admin = None
        while admin is None:
            admin = re.search(r"health are served at http://(\S+)", process.stderr.readline())
        produce(address, 100)
        with watching(admin[1]):
            assert SENTENCE in loaded(admin[1], "page-20")[1]
            status, said = ended(process)
    assert status == 0 and said.count("stopping: all data") == 1 and CUT_OFF not in said, said


class OneVisitor:
    async def visitor_of(self, _: object) -> Visitor:
        return Visitor("ada", "form-token")


@in_loop
async def test_wc13_a_closed_page_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pages read, three wait for a thread. When all are closed, nothing of them is left but the two readings."""
    goes_on, reading = Event(), []

    def slow(*_: object) -> None:
        reading.append(1)
        goes_on.wait(60)

    monkeypatch.setattr("siltstone.console.pages.messages.find_messages", slow)
    monkeypatch.setattr(Asked.run, "__defaults__", (600.0,))  # no page ends because it took too long
    loop, clock = asyncio.get_running_loop(), SystemClock()
    with open_store(load_node_settings(folder)) as store:
        opened = OpenedStore(store, "--store x", clock)
        store.metadata.refresh()
        connections = HttpConnections(None, frozenset(), clock)
        console = Console(opened, OneVisitor(), PAGES, {"127.0.0.1"}.__contains__)
        connections.console = console.application
        server = await loop.create_server(lambda: HttpConnection(connections), "127.0.0.1", 0)
        before = asyncio.all_tasks()
        port = server.sockets[0].getsockname()[1]
        tabs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for _, writer in tabs:
            writer.write(f"GET {ROWS} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())

        async def until(is_so: object) -> None:
            async with asyncio.timeout(60):
                while not is_so():  # type: ignore[operator]
                    await asyncio.to_thread(Event().wait, 0.01)

        await until(lambda: len(connections.state.tasks) == 5 and len(reading) == 2)
        for _, writer in tabs:
            writer.close()
        await until(lambda: not len(connections) and asyncio.all_tasks() <= before)
        assert not opened._calls._under_way
        goes_on.set()
        assert await opened.run(lambda: len(reading)) == 2, "what waited for a thread is not read for nobody"
        server.close()
        await connections.close()
        await opened.close()
