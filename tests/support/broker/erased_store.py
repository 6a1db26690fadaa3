"""A store whose topics have records of 20 keys, and a search for one of them in all of its files."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import FinishJob, StartJob
from siltstone.server.embedded import Broker

KEY, OTHER = "user-00007-of-the-test", "user-00008-of-the-test"
VALUE = "what-only-{key}-has-written-{number}"
IN_PROCESS = ("--runner", "in-process")
FAST = {"sweep.grace_period_ms": "1"}


def value(key: str, number: int) -> bytes:
    return VALUE.format(key=key, number=number).encode()


def produce(broker: Broker, topic: str, rounds: range, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **settings})
    for number in rounds:
        for user in range(20):
            key = f"user-{user:05}-of-the-test"
            producer.produce(topic, value(key, number), key=key.encode())
        assert producer.flush(60) == 0


def consumed(broker: Broker, topic: str, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "log_level": 0, "enable.partition.eof": True}
    )  # fmt: skip
    consumer.subscribe([topic])
    found: list[tuple[int, bytes]] = []
    try:
        while True:
            message = consumer.poll(60)
            assert message is not None
            if message.error():
                break
            found.append((message.offset(), message.key()))
    finally:
        consumer.close()
    assert len(found) == count
    return found


def holders(folder: Path, *texts: str) -> list[str]:
    """Returns the files below a folder that have any of the texts."""
    wanted = [text.encode() for text in texts]
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(text in path.read_bytes() for text in wanted)
    )


def store_of(tmp_path: Path, **settings: str) -> tuple[object, ...]:
    more = [word for name, text in {**FAST, **settings}.items() for word in ("--set", f"{name}={text}")]
    return ("--store", tmp_path / "store", *more, *IN_PROCESS)


def assert_gone(tmp_path: Path, *texts: str) -> None:
    """A log in a bucket deletes its objects from time to time, so the search is repeated."""
    until = time.monotonic() + 60
    while found := holders(tmp_path, *texts):
        assert time.monotonic() < until, found
        threading.Event().wait(0.5)


class Killed(BaseException):
    """No handler of errors sees it: as if the process ended there."""


class Steps:
    """Ends a command of this thread at its n-th change of the metadata, before or after that is in the log: every later
    one fails, too. Only its jobs end, whose leases would otherwise make the next command wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int, *, is_after: bool) -> None:
        self._patched = monkeypatch
        self.taken, self._last, self._is_after = 0, last, is_after
        execute, thread = MetadataClient.execute, threading.get_ident()

        def stepped(client: MetadataClient, command: Any) -> Any:
            if threading.get_ident() != thread or isinstance(command, FinishJob):
                return execute(client, command)
            try:
                return self.step(lambda: execute(client, command))
            except Killed as killed:
                if isinstance(command, StartJob) and killed.args:
                    execute(client, FinishJob(killed.args[0], False))
                raise

        monkeypatch.setattr(MetadataClient, "execute", stepped)

    def count(self, module: ModuleType, name: str) -> None:
        """Makes each call of a function a step, too."""
        real = getattr(module, name)
        self._patched.setattr(module, name, lambda *given: self.step(lambda: real(*given)))

    def step(self, work: Callable[[], Any]) -> Any:
        """Does the work as a step of the command."""
        self.taken += 1
        if self.taken > self._last or (self.taken == self._last and not self._is_after):
            raise Killed
        answer = work()
        if self.taken == self._last:
            raise Killed(answer)
        return answer
