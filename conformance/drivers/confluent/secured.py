"""How confluent-kafka gets in: TLS, certificates and logins."""

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from conformance.drivers.confluent.clients import SECONDS_MAX, read
from conformance.drivers.scenario import Mismatch
from conformance.drivers.secured import SecuredClient, scenarios_of
from conformance.secured import Access

TOKEN_SECONDS = 300


def settings(access: Access) -> dict[str, Any]:
    named = {
        "security.protocol": access.protocol, "ssl.ca.location": access.authority,
        "ssl.certificate.location": access.certificate, "ssl.key.location": access.key,
        "sasl.mechanism": access.mechanism, "sasl.username": access.user, "sasl.password": access.password,
    }  # fmt: skip
    chosen: dict[str, Any] = {name: value for name, value in named.items() if value}
    if access.token:
        chosen["oauth_cb"] = lambda _: (access.token, time.time() + TOKEN_SECONDS)
    return {"bootstrap.servers": access.bootstrap, "log_level": 0, **chosen}


def write(access: Access, topic: str, values: Sequence[bytes]) -> None:
    """The error of a login is told to ``error_cb`` alone: librdkafka tries again, since a password may be changed."""
    errors: list[KafkaError] = []
    told = {
        "error_cb": lambda error: errors.append(error) if error.code() == KafkaError._AUTHENTICATION else None
    }
    producer = Producer({**settings(access), **told})
    deadline = time.monotonic() + SECONDS_MAX
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: errors.append(error) if error else None
        )
        while len(producer) and not errors:
            if time.monotonic() > deadline:
                raise Mismatch(f"no acknowledgement and no error within {SECONDS_MAX} s")
            producer.poll(0.05)
        if errors:
            producer.purge()
            raise KafkaException(errors[0])


def read_values(access: Access, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({**settings(access), "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in read(consumer, count)]
    finally:
        consumer.close()


def name_of(error: Exception) -> str:
    return str(error.args[0].name()) if isinstance(error, KafkaException) else type(error).__name__


SCENARIOS = scenarios_of(
    SecuredClient(write, read_values, name_of, "_AUTHENTICATION", "TOPIC_AUTHORIZATION_FAILED")
)
