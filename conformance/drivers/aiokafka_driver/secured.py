"""How aiokafka gets in: TLS, certificates and logins."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.helpers import create_ssl_context

from conformance.drivers.aiokafka_driver.clients import read
from conformance.drivers.secured import SecuredClient, scenarios_of
from conformance.secured import Access

PARTLY = {"wrong_password": "aiokafka raises KafkaConnectionError, at Apache Kafka as well"}


class GivenToken(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def settings(access: Access) -> dict[str, Any]:
    files = {"cafile": access.authority, "certfile": access.certificate, "keyfile": access.key}
    named = {
        "sasl_mechanism": access.mechanism, "sasl_plain_username": access.user,
        "sasl_plain_password": access.password,
        "sasl_oauth_token_provider": GivenToken(access.token) if access.token else None,
    }  # fmt: skip
    chosen = {name: value for name, value in named.items() if value}
    context = create_ssl_context(**{name: file for name, file in files.items() if file})
    trusted = {"security_protocol": access.protocol, "ssl_context": context}
    return {"bootstrap_servers": access.bootstrap, **trusted, **chosen}


def write(access: Access, topic: str, values: Sequence[bytes]) -> None:
    async def written() -> None:
        producer = AIOKafkaProducer(**settings(access))
        try:
            await producer.start()
            for value in values:
                await producer.send_and_wait(topic, value, partition=0)
        finally:
            await producer.stop()

    asyncio.run(written())


def read_values(access: Access, topic: str, count: int) -> list[bytes | None]:
    async def values() -> list[bytes | None]:
        consumer = AIOKafkaConsumer(**settings(access), group_id=None)
        try:
            await consumer.start()
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            return [record.value for record in await read(consumer, count)]
        finally:
            await consumer.stop()

    return asyncio.run(values())


def name_of(error: Exception) -> str:
    return type(error).__name__


SCENARIOS = scenarios_of(
    SecuredClient(write, read_values, name_of, "KafkaConnectionError", "TopicAuthorizationFailedError")
)
