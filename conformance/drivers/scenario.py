"""The arguments of a scenario of a Python driver, and the exceptions by which it reports."""

import time
from collections.abc import Callable
from typing import Any

import msgspec


class Mismatch(Exception):
    """A result is not the expected one."""


class Refused(Exception):
    """The refusal of the broker, for clients that raise no exception for it."""


class Scenario(msgspec.Struct, frozen=True):
    """``ask``: calls a method of ``conformance.stage``."""

    bootstrap: str
    name: str
    ask: Callable[..., Any]

    def topic(self, partitions: int = 1, *, suffix: str = "", configs: dict[str, str] | None = None) -> str:
        """Returns the name of a new topic."""
        topic = f"{self.name}{suffix}"
        self.ask("create_topic", topic=topic, partitions=partitions, configs=configs or {})
        return topic

    def filled(self, count: int, partitions: int = 1, **how: int) -> str:
        """Makes a topic with ``count`` records in each partition: their values are ``PARTITION-NUMBER``."""
        topic = self.topic(partitions)
        for partition in range(partitions):
            self.ask("fill", topic=topic, count=count, partition=partition, **how)
        return topic


def values(partition: int, numbers: range) -> list[bytes]:
    """Returns the values that ``fill`` wrote."""
    return [f"{partition}-{number}".encode() for number in numbers]


def same(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise Mismatch(f"{what}: {_short(got)} instead of {_short(wanted)}")


def holds(what: str, condition: object) -> None:
    if not condition:
        raise Mismatch(what)


def until(what: str, condition: Callable[[], object], seconds_max: float = 20) -> None:
    """Polls until the condition holds. Raises Mismatch when it does not hold in time."""
    deadline = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > deadline:
            raise Mismatch(f"not within {seconds_max:.0f} s: {what}")
        time.sleep(0.05)


def _short(value: object) -> str:
    text = repr(value)
    size = f" ({len(value)} of them)" if isinstance(value, list | dict | set) else ""
    return text if len(text) <= 120 else f"{text[:120]}…{size}"
