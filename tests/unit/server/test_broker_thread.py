"""One run of a broker in a thread: every waiter learns how it ends."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from siltstone.server import broker_thread
from siltstone.server.broker_thread import BrokerNotRunning, BrokerThread
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.settings.node import load_node_settings
from support.processes.new_threads import new_threads


def thread(folder: Path) -> BrokerThread:
    return BrokerThread(load_node_settings(folder, environment={}), parse_addresses(["127.0.0.1:0"]))


@contextmanager
def started(folder: Path) -> Iterator[BrokerThread]:
    made = thread(folder)
    made.start()
    yield made
    made.stop()


async def answer_of(_: object) -> str:
    return threading.current_thread().name


def test_it_is_asked_on_its_own_thread(tmp_path: Path) -> None:
    with started(tmp_path) as running:
        assert running.ask(answer_of) == "siltstone-broker"
    assert not new_threads("siltstone-broker")


def test_an_answer_that_is_an_error_is_raised(tmp_path: Path) -> None:
    async def refused(_: object) -> None:
        raise TimeoutError("mine")

    with started(tmp_path) as running, pytest.raises(TimeoutError, match="mine"):
        running.ask(refused)


def test_once_stopped_it_says_so_and_does_not_hang(tmp_path: Path) -> None:
    with started(tmp_path) as running:
        pass
    running.stop()
    with pytest.raises(BrokerNotRunning, match="start another one"):
        running.ask(answer_of)


def test_who_waits_for_an_answer_while_it_is_stopped_does_not_hang(tmp_path: Path) -> None:
    asked = threading.Event()

    async def never(_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    with started(tmp_path) as running:
        stopper = threading.Thread(target=lambda: (asked.wait(), running.stop()))
        stopper.start()
        with pytest.raises(BrokerNotRunning, match="stopped before it answered"):
            running.ask(never)
        stopper.join()


def test_stopped_while_it_starts_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Ctrl-C in a notebook: the wish comes before there is a loop to tell it to."""
    made = thread(tmp_path)
    monkeypatch.setattr(made, "_stop_is_wanted", True)
    made.start()
    made._thread.join(60)
    assert not made._thread.is_alive()


@pytest.mark.parametrize("when", ["while it starts", "while it runs", "while it is closed"])
def test_what_goes_wrong_is_raised_to_whoever_waits(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def failing(*_: object, **__: object) -> AsyncIterator[object]:
        if when == "while it starts":
            raise LookupError(when)
        yield NODE
        raise LookupError(when)

    monkeypatch.setattr(broker_thread, "running_kafka_node", failing)
    made = thread(tmp_path)
    if when == "while it starts":
        with pytest.raises(LookupError, match=when):
            made.start()
        return
    assert made.start() == "somewhere:1"
    if when == "while it runs":
        made._wake()  # the thread ends without being told to by ``stop``
        made._thread.join(60)
    with pytest.raises(LookupError, match=when):
        made.stop()
    made.stop()


def test_the_node_is_closed_only_when_that_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[bool] = []

    @asynccontextmanager
    async def watched(*_: object, **__: object) -> AsyncIterator[object]:
        yield NODE
        wanted.append(made._stop_is_wanted)

    async def turns(_: object) -> str:
        for _ in range(10):
            await asyncio.sleep(0)
        return "still here"

    monkeypatch.setattr(broker_thread, "running_kafka_node", watched)
    made = thread(tmp_path)
    made.start()
    assert made.ask(turns) == "still here"
    assert wanted == []
    made.stop()
    assert wanted == [True]


class Address:
    advertised_host, advertised_port = "somewhere", 1


class Listening:
    listeners = (Address,)


class Engine:
    is_clean = True


class EngineAndMetadata:
    engine = Engine


class NODE:
    listeners = Listening
    node = EngineAndMetadata
