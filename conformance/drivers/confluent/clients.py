"""The producers, the consumers and the steps that all scenarios use."""

import logging
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from conformance.drivers.scenario import Mismatch, Scenario

SECONDS_MAX = 60
Configs = dict[str, str | int | bool]


def producer(scenario: Scenario, **configs: str | int | bool) -> Producer:
    """The options are written with ``_`` instead of ``.``."""
    return Producer({"bootstrap.servers": scenario.bootstrap, "linger.ms": 20, **dotted(configs)})


def consumer(
    scenario: Scenario, group: str = "", logger: logging.Logger | None = None, **configs: str | int | bool
) -> Consumer:
    settings: Configs = {
        "bootstrap.servers": scenario.bootstrap, "group.id": f"{scenario.name}{group}",
        "auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": 100,
    }  # fmt: skip
    more = {"logger": logger} if logger else {}
    return Consumer({**settings, **dotted(configs)}, **more)


def dotted(configs: Configs) -> Configs:
    return {name.replace("_", "."): value for name, value in configs.items()}


def send(sender: Producer, topic: str, records: Iterable[dict[str, object]]) -> list[Message]:
    """Returns all records in the order of their acknowledgements. Raises the first refusal."""
    delivered: list[Message] = []
    refused: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        refused.append(error) if error else delivered.append(message)

    for record in records:
        sender.produce(topic, on_delivery=on_delivery, **record)  # type: ignore[arg-type]
        sender.poll(0)
    left = sender.flush(SECONDS_MAX)
    if refused:
        raise KafkaException(refused[0])
    if left:
        raise Mismatch(f"{left} messages are not acknowledged after {SECONDS_MAX} s")
    return delivered


def read(reader: Consumer, count: int, *, seconds_max: float = SECONDS_MAX) -> list[Message]:
    """Reads the next ``count`` messages. Raises Mismatch when they do not arrive."""
    got: list[Message] = []
    deadline = time.monotonic() + seconds_max
    while len(got) < count:
        if time.monotonic() > deadline:
            raise Mismatch(f"{len(got)} of {count} records within {seconds_max:.0f} s")
        message = reader.poll(0.1)
        if message is not None:
            got.append(checked(message))
    return got


def checked(message: Message) -> Message:
    error = message.error()
    if error:
        raise KafkaException(error)
    return message


def read_from(
    scenario: Scenario, topic: str, count: int, partitions: int = 1, **configs: str | int | bool
) -> list[Message]:
    """Reads from the beginning, by assignment."""
    reader = consumer(scenario, **configs)
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    try:
        return read(reader, count)
    finally:
        reader.close()


def nothing_comes(reader: Consumer, seconds: float = 0.7) -> None:
    """Raises Mismatch when a message arrives."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        message = reader.poll(0.1)
        if message is not None:
            raise Mismatch(f"a record came that must not: {checked(message).value()!r}")


def refusal(error: Exception) -> str | None:
    """The refusal of the broker, or of librdkafka in the broker's name."""
    if not isinstance(error, KafkaException) or not isinstance(error.args[0], KafkaError):
        return None
    told: KafkaError = error.args[0]
    if told.name() in ("_TIMED_OUT", "_MSG_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN"):
        return None
    return f"{told.name().lstrip('_')}: {told.str()}"
