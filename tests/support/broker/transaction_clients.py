"""Transactional producers as clients of a broker world: each step is a request, in the versions of a client of
transaction version 1 (librdkafka) or 2 (Java 4.x)."""

from collections.abc import Mapping
from typing import Any

from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from siltstone.kafka_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from siltstone.kafka_protocol.messages.end_txn import EndTxnRequest
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from siltstone.kafka_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from siltstone.kafka_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.broker.broker_world import BrokerWorld
from support.kafka.kafka_requests import batches_in, fetch_request, row_of, rows_of, sequenced

NONE = ErrorCode.NONE
TIMEOUT_MS = 60_000
OLD = {"init": 4, "add": 0, "offsets": 0, "produce": 10, "commit": 3, "end": 1}
NEW = {"init": 5, "add": 3, "offsets": 4, "produce": 12, "commit": 5, "end": 5}
"""Versions of the requests."""


class TransactionClient:
    """``generation`` 2 adds partitions with its first batches; 1 adds them by requests of their own."""

    def __init__(self, world: BrokerWorld, generation: int = 2, name: str = "pay") -> None:
        self.world, self.name = world, name
        self.versions = dict(NEW if generation == 2 else OLD)
        self.adds_itself = generation == 2
        self.client = world.client()
        self.pid = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        self.has_committed = False
        """Whether the last transaction that it has ended was committed."""

    async def init(self, timeout_ms: int = TIMEOUT_MS, **fields: Any) -> ErrorCode:
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=timeout_ms, **fields
        )
        answer = await self.client.ask(request, self.versions["init"])
        if answer.error_code == NONE:
            self.pid, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return ErrorCode(answer.error_code)

    async def add(self, topic: str, *indexes: int) -> list[ErrorCode]:
        named = [AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.pid,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=named,
        )
        answer = await self.client.ask(request, self.versions["add"])
        rows = [row for row in answer.results_by_topic_v3_and_below for row in row.results_by_partition]
        return [ErrorCode(row.partition_error_code) for row in rows]

    def produce_request(self, topic: Topic, *indexes: int, count: int = 1, **fields: Any) -> ProduceRequest:
        partitions = []
        for index in indexes:
            sequence = self.sequences.get((topic.name, index), 0)
            self.sequences[topic.name, index] = sequence + count
            batch = sequenced(self.pid, sequence, count, self.epoch, attributes=TRANSACTIONAL_BIT)
            partitions.append(ProducePartition(index=index, records=batch))
        named = ProduceTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        return ProduceRequest(
            acks=-1, timeout_ms=30_000, topics=[named], **{"transactional_id": self.name, **fields}
        )

    async def produce(self, topic: Topic, *indexes: int, count: int = 1, **fields: Any) -> list[ErrorCode]:
        """Sends the batches alone."""
        request = self.produce_request(topic, *(indexes or (0,)), count=count, **fields)
        answer = await self.client.ask(request, self.versions["produce"])
        return [ErrorCode(row.error_code) for row in rows_of(answer)]

    async def send(self, topic: Topic, *indexes: int, count: int = 1) -> None:
        """Does what a client does for records: adds the partitions, and sends the batches."""
        indexes = indexes or (0,)
        if not self.adds_itself:
            assert set(await self.add(topic.name, *indexes)) == {NONE}
        assert set(await self.produce(topic, *indexes, count=count)) == {NONE}

    async def end(self, commits: bool = True) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.pid,
            producer_epoch=self.epoch,
            committed=commits,
        )
        answer = await self.client.ask(request, self.versions["end"])
        if answer.error_code == NONE:
            self.has_committed = commits
        if self.adds_itself and answer.error_code == NONE:
            self.pid, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return ErrorCode(answer.error_code)

    # -- offsets of groups -------------------------------------------------------------------------------

    async def add_offsets(self, group: str) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.pid, producer_epoch=self.epoch, group_id=group
        )
        return ErrorCode((await self.client.ask(request, self.versions["offsets"])).error_code)

    async def commit_offsets(
        self, group: str, topic: str, offsets: Mapping[int, int], *, metadata: str = "", **fields: Any
    ) -> list[ErrorCode]:
        """Sends TxnOffsetCommit alone."""
        rows = [
            TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            for index, offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.pid,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=rows)],
            **fields,
        )
        answer = await self.client.ask(request, self.versions["commit"])
        return [ErrorCode(row.error_code) for row in rows_of(answer)]

    async def send_offsets(self, group: str, topic: str, **offsets: int) -> None:
        """Does what a client does for offsets; they are named ``p0``, ``p1`` and so on."""
        if not self.adds_itself:
            assert await self.add_offsets(group) is NONE
        named = {int(name[1:]): offset for name, offset in offsets.items()}
        assert set(await self.commit_offsets(group, topic, named)) == {NONE}


async def started(world: BrokerWorld, generation: int = 2, name: str = "pay") -> TransactionClient:
    client = TransactionClient(world, generation, name)
    assert await client.init() is NONE
    return client


async def committed_batches(world: BrokerWorld, topic: Topic, index: int = 0) -> list[tuple[int, int]]:
    """What a reader of committed records gets: batches of aborted transactions are listed by the broker and dropped by
    the reader; markers are shown as they are."""
    row = row_of(await world.client().ask(fetch_request(topic, {index: 0}, isolation_level=1, wait_ms=0)))
    assert row.error_code == 0
    return batches_in(row)


async def ends(world: BrokerWorld, topic: Topic, index: int = 0) -> tuple[int, int]:
    """The last stable offset and the high watermark, as a fetch tells them."""
    row = row_of(await world.client().ask(fetch_request(topic, {index: 0}, wait_ms=0)))
    return row.last_stable_offset, row.high_watermark


async def offset_of(
    world: BrokerWorld, group: str, topic: str, index: int = 0, *, stable: bool = True
) -> int | ErrorCode:
    """The committed offset, -1 if there is none; or the error."""
    asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[index])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])], require_stable=stable
    )
    (found,) = (await world.client().ask(request, 9)).groups
    if found.error_code:
        return ErrorCode(found.error_code)
    ((row,),) = [each.partitions for each in found.topics]
    return ErrorCode(row.error_code) if row.error_code else row.committed_offset


async def commit_plainly(world: BrokerWorld, group: str, topic: str, offset: int, index: int = 0) -> None:
    row = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])]
    )
    assert row_of(await world.client().ask(request, 8)).error_code == 0
