"""Has the producers, the consumers and the steps that all scenarios use."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import BrokerResponseError, IncompatibleBrokerVersion, KafkaError, RequestTimedOutError

from conformance.drivers.scenario import Mismatch, Scenario, same

SECONDS_MAX = 60


@contextmanager
def producer(scenario: Scenario, **configs: Any) -> Iterator[KafkaProducer]:
    settings = {
        "bootstrap_servers": scenario.bootstrap,
        "linger_ms": 20,
        "max_block_ms": SECONDS_MAX * 1000,
        **configs,
    }
    with closing(KafkaProducer(**settings)) as opened:
        yield opened


@contextmanager
def consumer(scenario: Scenario, group: str = "", **configs: Any) -> Iterator[KafkaConsumer]:
    with closing(new_consumer(scenario, group, **configs)) as opened:
        yield opened


def new_consumer(scenario: Scenario, group: str = "", **configs: Any) -> KafkaConsumer:
    settings = {
        "bootstrap_servers": scenario.bootstrap, "group_id": f"{scenario.name}{group}",
        "auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 100,
    }  # fmt: skip
    return KafkaConsumer(**{**settings, **configs})


@contextmanager
def admin_client(scenario: Scenario) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=scenario.bootstrap)) as opened:
        yield opened


def send(sender: KafkaProducer, topic: str, records: Iterable[dict[str, Any]]) -> list[Any]:
    """Sends records, and returns the broker's answer for each. Raises the first refusal."""
    futures = [sender.send(topic, **record) for record in records]
    sender.flush(timeout=SECONDS_MAX)
    return [future.get(timeout=SECONDS_MAX) for future in futures]


def send_values(scenario: Scenario, topic: str, values: Iterable[bytes], **configs: Any) -> list[Any]:
    with producer(scenario, **configs) as sender:
        return send(sender, topic, ({"value": value} for value in values))


def read(
    reader: KafkaConsumer, count: int, seconds_max: float = SECONDS_MAX, poll_ms: int = 200
) -> list[Any]:
    """Reads the next ``count`` records. Raises Mismatch when fewer or more arrive."""
    got: list[Any] = []
    deadline = time.monotonic() + seconds_max
    while len(got) < count:
        if time.monotonic() > deadline:
            raise Mismatch(f"{len(got)} of {count} records within {seconds_max:.0f} s")
        for records in reader.poll(timeout_ms=poll_ms, max_records=count - len(got)).values():
            got += records
    return got


def read_from(scenario: Scenario, topic: str, count: int, partitions: int = 1, **configs: Any) -> list[Any]:
    """Reads from the beginning, by assignment."""
    with consumer(scenario, **configs) as reader:
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        reader.assign(assigned)
        reader.seek_to_beginning(*assigned)
        return read(reader, count)


def values_of(records: Iterable[Any]) -> list[bytes | None]:
    return [record.value for record in records]


def nothing_comes(reader: KafkaConsumer, seconds: float = 0.7) -> None:
    for records in reader.poll(timeout_ms=int(seconds * 1000)).values():
        raise Mismatch(f"a record came that must not: {records[0].value!r}")


def refused(error: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except KafkaError as told:
        same("error", type(told).__name__, error.__name__)
    else:
        raise Mismatch(f"it was done where {error.__name__} is right")


def refusal(error: Exception) -> str | None:
    """Returns the error of the broker. kafka-python raises some of them inside a plain KafkaError."""
    if isinstance(error, RequestTimedOutError) or not isinstance(error, KafkaError):
        return None
    is_from_broker = isinstance(error, BrokerResponseError | IncompatibleBrokerVersion) or "[Error " in str(
        error
    )
    return f"{type(error).__name__}: {error}" if is_from_broker else None
