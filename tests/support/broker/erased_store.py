"""A store whose topics have records of 20 keys, and a search for one of them in all of its files."""

import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer

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
