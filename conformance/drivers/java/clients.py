"""The steps that all scenarios use; ``oracles.java_clients`` has the clients themselves."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from conformance.drivers.scenario import Mismatch, Scenario, same
from oracles.java_admin import JavaAdmin, java_admin
from oracles.java_clients import JavaClientFailed, JavaClients, Received, Record, java_failures
from oracles.java_machine import JavaMachine

SECONDS_MAX = 60
JavaScenario = Callable[[Scenario, JavaClients], None]


def on_machine(machine: JavaMachine, scenario: JavaScenario) -> Callable[[Scenario], None]:
    return lambda given: scenario(given, JavaClients(machine, given.bootstrap))


def records(values: Iterable[bytes | None], partition: int | None = None) -> list[Record]:
    return [Record(value, partition=partition) for value in values]


@contextmanager
def consumer(scenario: Scenario, clients: JavaClients, group: str = "", **configs: Any) -> Iterator[Any]:
    """The options are written with ``_`` instead of ``.``. A consumer that subscribes is in the scenario's group."""
    settings = {"group_id": f"{scenario.name}{group}", "fetch_max_wait_ms": 100, **configs}
    with clients.consumer(dotted(settings)) as opened:
        yield opened


def dotted(configs: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in configs.items()}


def read(clients: JavaClients, reader: Any, count: int, seconds_max: float = SECONDS_MAX) -> list[Received]:
    """Reads the next ``count`` records, or some more. Raises Mismatch when they do not arrive."""
    got: list[Received] = []
    deadline = time.monotonic() + seconds_max
    while len(got) < count:
        if time.monotonic() > deadline:
            raise Mismatch(f"{len(got)} of {count} records within {seconds_max:.0f} s")
        got += poll(clients, reader)
    return got


def poll(clients: JavaClients, reader: Any) -> list[Received]:
    """Returns the records that arrive within a moment. Raises JavaClientFailed."""
    with java_failures():
        return clients.poll(reader, 1, 0.2)


def assign(
    clients: JavaClients, reader: Any, topic: str, partitions: int = 1, begin: bool = True
) -> list[Any]:
    assigned = [clients.topic_partition(topic, partition) for partition in range(partitions)]
    reader.assign(assigned)
    if begin:
        reader.seekToBeginning(assigned)
    return assigned


def read_from(
    scenario: Scenario, clients: JavaClients, topic: str, count: int, partitions: int = 1, **configs: Any
) -> list[Received]:
    with consumer(scenario, clients, "-reading", **configs) as reader:
        assign(clients, reader, topic, partitions)
        return read(clients, reader, count)


def values_of(received: Iterable[Received]) -> list[bytes | None]:
    return [record.value for record in received]


def nothing_comes(clients: JavaClients, reader: Any, seconds: float = 0.7) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for record in poll(clients, reader):
            raise Mismatch(f"a record came that must not: {record.value!r}")


def refused(kind: str, call: Callable[[], object]) -> None:
    try:
        with java_failures():
            call()
    except JavaClientFailed as told:
        same("error", told.kind, kind)
    else:
        raise Mismatch(f"it was done where {kind} is right")


def refusal(error: Exception) -> str | None:
    if not isinstance(error, JavaClientFailed) or error.kind in ("TimeoutException", "DisconnectException"):
        return None
    return str(error)


@contextmanager
def admin_of(clients: JavaClients) -> Iterator[JavaAdmin]:
    with java_admin(clients) as opened:
        yield opened


def keys_of(partitions: Sequence[int], clients: JavaClients, topic: str) -> set[Any]:
    return {clients.topic_partition(topic, partition) for partition in partitions}
