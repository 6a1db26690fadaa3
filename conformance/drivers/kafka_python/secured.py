"""How kafka-python gets in: TLS, certificates and logins."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

from conformance.drivers.kafka_python.clients import SECONDS_MAX, read
from conformance.drivers.secured import SecuredClient, scenarios_of
from conformance.secured import Access

LACKS = {"wrong_password": "kafka-python tries again until its time-out of 30 s, at Apache Kafka as well"}


class GivenToken(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def settings(access: Access) -> dict[str, Any]:
    named = {
        "ssl_certfile": access.certificate, "ssl_keyfile": access.key, "sasl_mechanism": access.mechanism,
        "sasl_plain_username": access.user, "sasl_plain_password": access.password,
        "sasl_oauth_token_provider": GivenToken(access.token) if access.token else None,
    }  # fmt: skip
    chosen = {name: value for name, value in named.items() if value}
    trusted = {"security_protocol": access.protocol, "ssl_cafile": access.authority}
    return {"bootstrap_servers": access.bootstrap, **trusted, **chosen}


def write(access: Access, topic: str, values: Sequence[bytes]) -> None:
    with closing(KafkaProducer(**settings(access), max_block_ms=SECONDS_MAX * 1000)) as producer:
        for value in values:
            producer.send(topic, value, partition=0).get(timeout=SECONDS_MAX)


def read_values(access: Access, topic: str, count: int) -> list[bytes | None]:
    with closing(KafkaConsumer(**settings(access), group_id=None)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return [record.value for record in read(consumer, count)]


def name_of(error: Exception) -> str:
    return type(error).__name__


SCENARIOS = scenarios_of(
    SecuredClient(
        write, read_values, name_of, "SaslAuthenticationFailedError", "TopicAuthorizationFailedError"
    ),
    [*LACKS],
)
