"""What a driver can ask of the process that started it: topics, made and filled by a client that is not tested; the
stored bytes; killing and starting the broker. A driver writes ``{"ask": NAME, ...}`` and reads ``{"answer": ...}``;
the names are those of the methods here."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from conformance.brokers.broker import Broker
from conformance.raw_broker import limit_producers, stored_batches
from conformance.secured import USERS, Grounds

ASKS = frozenset(
    {"create_topic", "fill", "batches", "kill", "start", "access", "allow", "limit", "share_all"}
)
_SECONDS_MAX = 60
_QUIET: dict[str, str | int] = {"log_level": 0}  # that a broker was killed is no news


class Stage:
    """The stage of one run. Only scenarios that restart the broker kill and start ``broker``."""

    def __init__(self, broker: Broker, grounds: Grounds | None = None) -> None:
        self._broker = broker
        self._grounds = grounds
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, **_QUIET})
        if grounds is not None:
            self._make_users()

    def answer(self, asked: Mapping[str, Any]) -> object:
        arguments = dict(asked)
        name = arguments.pop("ask")
        if name not in ASKS:
            raise ValueError(f"no such thing can be asked: {name}")
        return getattr(self, name)(**arguments)

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(configs or {}))
        self._admin.create_topics([new])[topic].result(_SECONDS_MAX)
        deadline = time.monotonic() + _SECONDS_MAX
        while not self._is_ready(topic, partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} is not there after {_SECONDS_MAX} s")
            time.sleep(0.02)

    def _is_ready(self, topic: str, partitions: int) -> bool:
        """A new topic is not known to every part of a broker at once: Apache Kafka names the leader of a partition
        before the leader has it, and if it refuses the first batch of a producer and takes the second one, it
        refuses the first one from then on."""
        found = self._admin.list_topics(topic, _SECONDS_MAX).topics[topic].partitions
        if len(found) < partitions or any(each.leader < 0 for each in found.values()):
            return False
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in found}
        try:
            for answer in self._admin.list_offsets(asked).values():
                answer.result(_SECONDS_MAX)
        except KafkaException:
            return False
        return True

    def fill(
        self,
        topic: str,
        count: int,
        partition: int = 0,
        first_timestamp_ms: int = 0,
        step_ms: int = 1,
        first: int = 0,
    ) -> None:
        """The values are ``PARTITION-NUMBER``; the records have timestamps only if a first one is given."""
        failed: list[str] = []
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "linger.ms": 20, **_QUIET})
        for number in range(first, first + count):
            timestamp = first_timestamp_ms + step_ms * (number - first) if first_timestamp_ms else 0
            producer.produce(
                topic, f"{partition}-{number}".encode(), partition=partition, timestamp=timestamp,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )  # fmt: skip
        if producer.flush(_SECONDS_MAX) or failed:
            raise TimeoutError(f"{topic} could not be filled: {failed[:1]}")

    def batches(self, topic: str, partition: int = 0) -> list[dict[str, Any]]:
        found = stored_batches(self._broker.bootstrap, topic, partition)
        return [msgspec.to_builtins(batch) for batch in found]

    def share_all(self, group: str) -> None:
        """The share group begins in each partition at the first record."""
        entry = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(_SECONDS_MAX)

    def kill(self) -> None:
        self._broker.kill()

    def start(self) -> None:
        self._broker.start()

    def _make_users(self) -> None:
        """One request a mechanism: Apache Kafka refuses one that has a user twice."""
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4_096)
            wanted = [UserScramCredentialUpsertion(name, info, each.encode()) for name, each in USERS.items()]
            for answer in self._admin.alter_user_scram_credentials(wanted).values():
                answer.result(_SECONDS_MAX)

    def access(self, feature: str) -> dict[str, Any]:
        """How the client of this feature gets in."""
        assert self._grounds is not None
        return dict(msgspec.to_builtins(self._grounds.access(feature)))

    def allow(self, user: str, topic: str) -> None:
        """Gives a user every right on one topic."""
        binding = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation.ALL,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        self._admin.create_acls([binding])[binding].result(_SECONDS_MAX)

    def limit(self, user: str, bytes_per_second: int) -> None:
        limit_producers(self._broker.bootstrap, user, bytes_per_second)
