"""Clients of a simulated cluster. Each continues until ``finish``, and notes its answers in the history.

A request that gets no answer in REQUEST_MS_MAX may have been carried out; a client then tries again, as Kafka's do.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from siltstone.broker.request import CloseConnection
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from siltstone.kafka_protocol.notation import Message
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.clock import ManualClock
from support.broker.broker_world import Client
from support.cluster.cluster_history import (
    Acknowledged,
    ClusterHistory,
    CommitSeen,
    Committed,
    EndSeen,
    Polled,
    Read,
)
from support.cluster.simulated_node import SimulatedNode
from support.kafka.kafka_batches import bytes_of_records, iterate_headers
from support.kafka.kafka_requests import fetch_request, row_of

REQUEST_MS_MAX = 8_000
PAUSE_MS = 100
LATEST = -1


class NoAnswer(Exception):
    """The connection was lost, or the request took too long."""


class Network:
    """The way from clients to nodes."""

    def __init__(self, nodes: list[SimulatedNode], clock: ManualClock, rng: Random) -> None:
        self.nodes = nodes
        self.clock = clock
        self.rng = rng
        self._connections = 0

    async def ask(self, node_id: int, request: Message, version: int | None = None) -> Any:
        """Asks a node. Raises NoAnswer."""
        node = self.nodes[node_id]
        deadline_ms = self.clock.monotonic_ms() + REQUEST_MS_MAX
        while not node.hears:
            if node.life is None or self.clock.monotonic_ms() > deadline_ms:
                await self.clock.sleep_ms(PAUSE_MS)
                raise NoAnswer
            await self.clock.sleep_ms(PAUSE_MS)
        life = node.life
        assert life is not None
        self._connections += 1
        world: Any = life
        connection = Client(world, self._connections)
        version = ANNOUNCED[request.api_key][1] if version is None else version
        try:
            answer = life.start(self._handled(connection, request, version))
            return await self._in_time(answer, deadline_ms - self.clock.monotonic_ms())
        except (CloseConnection, SiltstoneError, asyncio.CancelledError) as lost:
            current = asyncio.current_task()
            if isinstance(lost, asyncio.CancelledError) and current is not None and current.cancelling():
                raise
            raise NoAnswer from lost

    async def _handled(self, connection: Client, request: Message, version: int) -> Any:
        return await connection.ask(request, version)

    async def _in_time(self, answer: "asyncio.Task[Any]", limit_ms: float) -> Any:
        done = asyncio.get_running_loop().create_future()
        ring: Callable[..., None] = lambda *_: None if done.done() else done.set_result(None)  # noqa: E731
        timer = self.clock.call_after_ms(max(0.0, limit_ms), ring)
        answer.add_done_callback(ring)
        await done
        timer.cancel()
        if not answer.done():
            answer.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise NoAnswer
        return answer.result()


class SimulatedClient:
    """The base of all clients: finding leaders, waiting, and finishing."""

    def __init__(
        self, name: str, network: Network, topic: Topic, history: ClusterHistory, rng: Random
    ) -> None:
        self.name = name
        self.network = network
        self.clock = network.clock
        self.topic = topic
        self.history = history
        self.rng = rng
        self.is_finishing = False
        self._leaders: dict[int, int] = {}

    def any_node(self) -> int:
        return self.rng.randrange(len(self.network.nodes))

    async def leader_of(self, partition: int) -> int:
        """Returns the leader of the partition. Raises NoAnswer."""
        if partition not in self._leaders:
            named = MetadataRequestTopic(topic_id=self.topic.topic_id, name=self.topic.name)
            answer = await self.network.ask(
                self.any_node(), MetadataRequest(topics=[named], allow_auto_topic_creation=False)
            )
            for row in answer.topics[0].partitions:
                if row.leader_id >= 0:
                    self._leaders[row.partition_index] = row.leader_id
        if partition not in self._leaders:
            raise NoAnswer
        return self._leaders[partition]

    def forget_leader(self, partition: int) -> None:
        self._leaders.pop(partition, None)

    async def pause(self, limit_ms: int = PAUSE_MS) -> None:
        await self.clock.sleep_ms(self.rng.randint(1, limit_ms))

    async def run(self) -> None:
        while not self.is_finishing:
            try:
                await self.act()
            except NoAnswer:
                await self.pause()

    async def act(self) -> None:
        raise NotImplementedError


class SimulatedProducer(SimulatedClient):
    """Idempotent, one batch at a time to one partition; a batch is repeated until it is acknowledged."""

    def __init__(self, partition: int, *details: Any) -> None:
        super().__init__(*details)
        self.partition = partition
        self._producer_id: int | None = None
        self._number = 0
        self.last_by_key: dict[bytes, str] = {}
        self.error_codes: dict[str, int] = {}

    async def act(self) -> None:
        if self._producer_id is None:
            answer = await self.network.ask(self.any_node(), InitProducerIdRequest(transactional_id=None))
            if answer.error_code:
                raise NoAnswer
            self._producer_id = answer.producer_id
        values = [f"{self.name}:{self._number + n}" for n in range(self.rng.choice([1, 1, 3, 10]))]
        padding = b"." * self.rng.choice([0, 100, 2000])
        batch = bytes(
            build_batch(
                [Record(timestamp_ms=self.clock.now_ms(), key=padding, value=each.encode()) for each in values],
                producer_id=self._producer_id, producer_epoch=0, base_sequence=self._number,
            )
        )  # fmt: skip
        self._number += len(values)
        is_repeated = False
        while not await self._is_acknowledged(batch, values, is_repeated):
            is_repeated = True
            await self.pause()
        self.last_by_key[padding] = values[-1]
        await self.pause(1_000)

    async def _is_acknowledged(self, batch: bytes, values: list[str], is_repeated: bool) -> bool:
        row_of_batch = ProducePartition(index=self.partition, records=bytearray(batch))
        request = ProduceRequest(
            acks=-1, timeout_ms=5_000,
            topics=[ProduceTopic(name=self.topic.name, topic_id=self.topic.topic_id, partitions=[row_of_batch])],
        )  # fmt: skip
        begun_ms = self.clock.monotonic_ms()
        try:
            node_id = await self.leader_of(self.partition)
            row = row_of(await self.network.ask(node_id, request))
        except NoAnswer:
            self.forget_leader(self.partition)
            return False
        if row.error_code != ErrorCode.NONE:
            name = ErrorCode(row.error_code).name
            self.error_codes[name] = self.error_codes.get(name, 0) + 1
            assert name not in ("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"), (
                self.name,
                name,
                values,
            )
            self.forget_leader(self.partition)
            return False
        ended_ms = self.clock.monotonic_ms()
        for delta, value in enumerate(values):
            place = (self.partition, row.base_offset + delta)
            self.history.acknowledged.append(
                Acknowledged(place, value, node_id, begun_ms, ended_ms, is_repeated)
            )
        return True


def records_in(row: Any, position: int) -> list[tuple[int, str, int]]:
    """Offset, value and leader epoch of the records of a fetched partition that are at the position or behind it."""
    whole = bytes_of_records(row)
    return [
        (record.offset, bytes(record.value or b"").decode(), header.partition_leader_epoch)
        for at, header in iterate_headers(whole)
        for record in iterate_records(whole[at : at + header.size_bytes])
        if record.offset >= position
    ]


class SimulatedConsumer(SimulatedClient):
    """Goes through one partition, asks for its end at times, and commits its position for a group of its own."""

    def __init__(self, partition: int, *details: Any) -> None:
        super().__init__(*details)
        self.partition = partition
        self.position = 0
        self._coordinator: int | None = None

    async def act(self) -> None:
        kind = self.rng.random()
        if kind < 0.6:
            await self._poll()
        elif kind < 0.8:
            await self._look_at_end()
        elif kind < 0.92:
            await self._commit()
        else:
            await self._look_at_commit()
        await self.pause(500)

    async def _ask_leader(self, request: Message, version: int | None = None) -> tuple[int, Any]:
        try:
            node_id = await self.leader_of(self.partition)
            row = row_of(await self.network.ask(node_id, request, version))
        except NoAnswer:
            self.forget_leader(self.partition)
            raise
        if row.error_code:
            self.forget_leader(self.partition)
            raise NoAnswer
        return node_id, row

    async def _poll(self) -> None:
        wait_ms = self.rng.choice([0, 500])
        node_id, row = await self._ask_leader(
            fetch_request(self.topic, {self.partition: self.position}, wait_ms=wait_ms)
        )
        found = records_in(row, self.position)
        if found:
            self.position = found[-1][0] + 1
            told = tuple((offset, value) for offset, value, _ in found)
            self.history.polled.append(Polled(self.name, self.partition, node_id, told))

    async def _look_at_end(self) -> None:
        asked = ListOffsetsPartition(partition_index=self.partition, timestamp=LATEST)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=self.topic.name, partitions=[asked])])
        begun_ms = self.clock.monotonic_ms()
        node_id, row = await self._ask_leader(request)
        self.history.ends.append(EndSeen(self.partition, node_id, row.offset, begun_ms))

    # -- offsets of the group ----------------------------------------------------------------------------

    async def _ask_coordinator(self, request: Message, version: int) -> Any:
        if self._coordinator is None:
            answer = await self.network.ask(
                self.any_node(), FindCoordinatorRequest(key_type=0, coordinator_keys=[self.name])
            )
            (found,) = answer.coordinators
            if found.error_code:
                raise NoAnswer
            self._coordinator = found.node_id
        try:
            return await self.network.ask(self._coordinator, request, version)
        except NoAnswer:
            self._coordinator = None
            raise

    async def _commit(self) -> None:
        row = OffsetCommitRequestPartition(partition_index=self.partition, committed_offset=self.position)
        request = OffsetCommitRequest(
            group_id=self.name, topics=[OffsetCommitRequestTopic(name=self.topic.name, partitions=[row])]
        )
        begun_ms, ended_ms = self.clock.monotonic_ms(), None
        try:
            answer = await self._ask_coordinator(request, 9)
            if row_of(answer).error_code == ErrorCode.NONE:
                ended_ms = self.clock.monotonic_ms()
            else:
                self._coordinator = None
        finally:
            self.history.commits.append(
                Committed(self.name, self.partition, self.position, begun_ms, ended_ms)
            )

    async def _look_at_commit(self) -> None:
        wanted = OffsetFetchRequestTopics(name=self.topic.name, partition_indexes=[self.partition])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.name, topics=[wanted])])
        begun_ms = self.clock.monotonic_ms()
        (group,) = (await self._ask_coordinator(request, 9)).groups
        if group.error_code or group.topics[0].partitions[0].error_code:
            self._coordinator = None
            return
        offset = group.topics[0].partitions[0].committed_offset
        self.history.commits_seen.append(CommitSeen(self.name, self.partition, offset, begun_ms))


async def read_partition(client: SimulatedClient, partition: int, limit_ms: float) -> None:
    """Reads a partition from its beginning to its end into the history. Raises TimeoutError."""
    deadline_ms = client.clock.monotonic_ms() + limit_ms
    position, end = 0, None
    while end is None or position < end:
        if client.clock.monotonic_ms() > deadline_ms:
            raise TimeoutError(
                f"unseen: partition {partition} could not be read from {position} in {limit_ms} ms"
            )
        with suppress(NoAnswer):
            node_id = await client.leader_of(partition)
            row = row_of(
                await client.network.ask(node_id, fetch_request(client.topic, {partition: position}))
            )
            if row.error_code:
                client.forget_leader(partition)
                await client.pause()
                continue
            end = row.high_watermark
            for offset, value, epoch in records_in(row, position):
                client.history.read[partition, offset] = Read(value, epoch)
                position = offset + 1
            continue
        client.forget_leader(partition)
        await client.pause()
