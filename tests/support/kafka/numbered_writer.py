"""A Kafka client in a process of its own that writes numbered records, idempotently, until its stdin ends:

    python -m support.kafka.numbered_writer CLIENT SERVERS TOPIC NAME PER_SECOND

The values are ``NAME 0``, ``NAME 1`` …, all with the key NAME. For each that is acknowledged a line of JSON says its
partition, its offset and its value. Exit status 1 when a record is refused, or has no answer after a minute.
"""

import asyncio
import itertools
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from oracles.go_programs import GoUnavailable, franz_go_writer

SECONDS_MAX = 60
AT_A_TIME = 10

Write = Callable[[str, str, Iterator[bytes], bytes], None]


def values(name: str, per_second: int) -> Iterator[bytes]:
    """Yields a value after a pause, then AT_A_TIME values quickly, until stdin ends."""
    ending = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ending.set()), daemon=True).start()
    for first in itertools.count(0, AT_A_TIME):
        if ending.wait(AT_A_TIME / per_second):
            return
        yield from (f"{name} {number}".encode() for number in range(first, first + AT_A_TIME))


def say(partition: int, offset: int, value: bytes) -> None:
    sys.stdout.write(json.dumps([partition, offset, value.decode()]) + "\n")
    sys.stdout.flush()


def by_kafka_python(servers: str, topic: str, numbered: Iterator[bytes], key: bytes) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, linger_ms=2, delivery_timeout_ms=SECONDS_MAX * 1000,
        max_block_ms=SECONDS_MAX * 1000,
    )  # fmt: skip
    waiting: deque[tuple[Any, bytes]] = deque()

    def answered(seconds: float) -> None:
        while waiting and (seconds or waiting[0][0].is_done):
            future, value = waiting.popleft()
            told = future.get(timeout=seconds or None)
            say(told.partition, told.offset, value)

    for value in numbered:
        waiting.append((producer.send(topic, value, key=key), value))
        answered(0)
    producer.flush(timeout=SECONDS_MAX)
    answered(SECONDS_MAX)
    producer.close()


def by_aiokafka(servers: str, topic: str, numbered: Iterator[bytes], key: bytes) -> None:
    async def write() -> None:
        from aiokafka import AIOKafkaProducer

        async with AIOKafkaProducer(
            bootstrap_servers=servers, enable_idempotence=True, linger_ms=2
        ) as producer:
            while value := await asyncio.to_thread(next, numbered, b""):
                several = [value, *(next(numbered) for _ in range(AT_A_TIME - 1))]
                futures = [await producer.send(topic, each, key=key) for each in several]
                for each, future in zip(several, futures, strict=True):
                    told = await asyncio.wait_for(future, SECONDS_MAX)
                    say(told.partition, told.offset, each)

    asyncio.run(write())


def by_java(servers: str, topic: str, numbered: Iterator[bytes], key: bytes) -> None:
    from oracles.java_artifacts import APACHE_KAFKA, fetch_jars
    from oracles.java_clients import JavaClients, Record
    from oracles.java_machine import running_java_machine

    limits = {"delivery.timeout.ms": SECONDS_MAX * 1000, "max.block.ms": SECONDS_MAX * 1000}
    with running_java_machine(fetch_jars(APACHE_KAFKA)) as machine:
        clients = JavaClients(machine, servers)
        with clients.producer({"enable.idempotence": "true", **limits}) as producer:
            for value in numbered:
                several = [value, *(next(numbered) for _ in range(AT_A_TIME - 1))]
                told = clients.send(producer, topic, [Record(each, key=key) for each in several])
                for each, appended in zip(several, told, strict=True):
                    say(appended.partition, appended.offset, each)


CLIENTS: dict[str, Write] = {"aiokafka": by_aiokafka, "java": by_java, "kafka-python": by_kafka_python}
FRANZ_GO = "franz-go"
"""A program in Go, which does the same."""


def clients_of_a_night() -> list[str]:
    """Returns all clients, and franz-go where there is a Go that can build it."""
    with suppress(GoUnavailable):
        franz_go_writer()
        return [*CLIENTS, FRANZ_GO]
    return [*CLIENTS]


def main() -> None:
    client, servers, topic, name, per_second = sys.argv[1:]
    if client == FRANZ_GO:
        program = franz_go_writer()
        os.execv(program, [str(program), *sys.argv[2:]])
    CLIENTS[client](servers, topic, values(name, int(per_second)), name.encode())


if __name__ == "__main__":
    main()
