"""Requests of members of share groups asked of this broker and of Apache Kafka: the same answers, step by step.

Small numbers of records are asked for by record_limit. Otherwise the number is soft: Kafka delivers what it once
acquired together, this broker the batch of the log in which the number is reached.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from oracles.apache_kafka import running_apache_kafka
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from siltstone.kafka_protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from siltstone.kafka_protocol.messages.share_fetch import (
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from siltstone.kafka_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from siltstone.kafka_protocol.notation import Message
from support.broker.broker_process import BrokerProcess
from support.broker.cluster_clients import until
from support.kafka.kafka_oracles import or_skip
from support.kafka.raw_calls import batch_of, create_topic, produce_request
from support.kafka.raw_kafka import Address, RawConnection

pytestmark = [pytest.mark.kafka, pytest.mark.nightly(tried="steps of share groups beside Kafka")]
STEPS, RECORDS = 50, 5
MEMBERS = ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")
"""Java's clients name their members so."""
BEHIND = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Asked:
    """``told``: what the broker has answered, step by step."""

    def __init__(self, address: Address, name: str) -> None:
        self._address = address
        self.group = name
        self._open = [RawConnection(address) for _ in (*MEMBERS, "admin")]
        self.admin = self._open[-1]
        self._of = dict(zip(MEMBERS, self._open, strict=False))
        self.topic = create_topic(self.admin, name, 1)
        config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = AlterConfigsResource(resource_type=32, resource_name=name, configs=[config])
        (row,) = self.ask(self.admin, IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert row.error_code == 0, row.error_message
        find = FindCoordinatorRequest(coordinator_keys=[name])
        until(lambda: self.ask(self.admin, find, 4).coordinators[0].error_code == 0, "a coordinator")
        for member in MEMBERS:
            until(lambda member=member: self._joined(member), "a member")  # type: ignore[misc]
        self.told: list[tuple[Any, ...]] = []
        self.epochs = dict.fromkeys(MEMBERS, 0)
        until(self._is_ready, "the state of the group")  # Kafka makes it a moment later
        self.produce(1)
        until(
            lambda: self.fetch(MEMBERS[0], 100, strict=False), "a record"
        )  # Kafka's first fetches may be empty
        self.acknowledge(MEMBERS[0], 0, 0, [1])
        self.told.clear()
        for _ in range(4):
            self.produce()

    def _joined(self, member: str) -> bool:
        beat = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=member, member_epoch=0, subscribed_topic_names=[self.topic.name]
        )
        told = self.ask(self.admin, beat, 1)
        assert told.error_code == 0 or told.error_code in BEHIND, told
        return bool(told.error_code == 0)

    def _is_ready(self) -> bool:
        self.epochs = dict.fromkeys(MEMBERS, 0)
        for member in MEMBERS:
            self.fetch(member, 1, strict=False)
        return all(told[1:3] == (0, []) for told in self.told[-len(MEMBERS) :])

    def ask(self, connection: RawConnection, request: Message, version: int) -> Any:
        return connection.ask(request, version)

    def produce(self, records: int = RECORDS) -> None:
        self.ask(self.admin, produce_request(self.topic, {0: batch_of(records)}), 9)

    def fetch(self, member: str, records: int, *, strict: bool) -> list[tuple[int, int, int]]:
        partition = ShareFetchPartition(index=0)
        topic = ShareFetchTopic(topic_id=self.topic.id, partitions=[partition])
        request = ShareFetchRequest(
            group_id=self.group, member_id=member, share_session_epoch=self.epochs[member], max_wait_ms=300,
            max_bytes=1 << 20, min_bytes=1, max_records=records, batch_size=records, share_acquire_mode=int(strict),
            topics=[topic] if self.epochs[member] == 0 else [],
        )  # fmt: skip
        told = self.ask(self._of[member], request, 2)
        self.epochs[member] += told.error_code == 0
        offsets = [
            (offset, each.delivery_count)
            for row in told.topics
            for found in row.partitions
            for each in found.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        ]
        codes = [found.error_code for row in told.topics for found in row.partitions if found.error_code]
        self.told.append(("fetch", told.error_code, codes, offsets))
        return [(offset, offset, count) for offset, count in offsets]

    def acknowledge(self, member: str, first: int, last: int, types: Sequence[int]) -> None:
        batch = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        partition = AcknowledgePartition(index=0, acknowledgement_batches=[batch])
        topic = AcknowledgeTopic(topic_id=self.topic.id, partitions=[partition])
        request = ShareAcknowledgeRequest(
            group_id=self.group, member_id=member, share_session_epoch=self.epochs[member], topics=[topic]
        )
        told = self.ask(self._of[member], request, 1)
        self.epochs[member] += told.error_code == 0
        codes = [found.error_code for row in told.topics for found in row.partitions]
        self.told.append(("acknowledge", first, last, list(types), told.error_code, codes))

    def close(self) -> None:
        for each in self._open:
            each.close()


def live(asked: Asked, seed: int) -> None:
    chance = random.Random(seed)
    end = 0
    for _ in range(STEPS):
        member = chance.choice(MEMBERS)
        match chance.randrange(6):
            case 0:
                asked.produce()
            case 1 | 2:
                records = chance.choice([1, 3, 100])
                found = asked.fetch(member, records, strict=records < 100)
                end = max([end, *(last + 1 for _, last, _ in found)])
            case _ if end:
                first = chance.randrange(max(0, end - 12), end)
                last = min(end - 1, first + chance.randrange(4))
                kinds = [chance.choice([0, 1, 2, 3]) for _ in range(last - first + 1)]
                asked.acknowledge(member, first, last, chance.choice([kinds[:1], kinds]))


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, Address]]:
    store = tmp_path_factory.mktemp("shares") / "store"
    with or_skip(running_apache_kafka) as kafka, BrokerProcess(store) as ours:
        host, _, port = kafka.bootstrap_servers.partition(":")
        yield (host, int(port)), ours.address


@pytest.mark.parametrize("seed", range(4))
def test_a_life_of_fifty_steps(addresses: tuple[Address, Address], seed: int, record_tried: Any) -> None:
    told = []
    for address in addresses:
        asked = Asked(address, f"life-{seed}")
        live(asked, seed)
        asked.close()
        told.append(asked.told)
    record_tried("steps", len(told[0]))
    for number, (theirs, ours) in enumerate(zip(*told, strict=True)):
        assert ours == theirs, f"step {number} of seed {seed}"
