"""A cluster of one broker without sockets: it keeps what it is sent as a Kafka broker does, and fails as the test
wants.

``faults`` are taken one a produce request: LOST_BEFORE and LOST_AFTER end the connection before or after the records
are kept, a code refuses the request's first partition, None is none.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import BrokerGone
from siltstone.kafka_client.patience import Patience, patiently
from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.fetch import FetchRequest
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from siltstone.kafka_protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from siltstone.kafka_protocol.messages.produce import (
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    ProduceResponse,
)
from siltstone.kafka_protocol.records.reading import iterate_records
from siltstone.model.errors import Unavailable
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness

LOST_BEFORE, LOST_AFTER = "lost before", "lost after"
BATCHES_REMEMBERED = 5

Fault = str | ErrorCode | None


class FakeConnection:
    def __init__(self, cluster: "FakeCluster") -> None:
        self._cluster = cluster
        self._answers: deque[object] = deque()
        self.is_closed = False

    @property
    def under_way(self) -> int:
        return len(self._answers)

    def send(self, request: object) -> None:
        assert not self.is_closed
        self._cluster.sent.append(request)
        self._answers.append(self._cluster.answer(request))
        self._cluster.under_way_max = max(self._cluster.under_way_max, len(self._answers))

    def receive(self, _: type, time_limit_ms: float = 0) -> object:
        assert not self.is_closed
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            self.is_closed = True
            raise answer
        return answer


class FakeCluster:
    """``logs``: the values kept, by partition. ``fetched``: answers to fetch requests."""

    def __init__(
        self,
        partitions: int = 1,
        faults: Iterable[Fault] = (),
        fetched: Callable[[FetchRequest], object] | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.rng = seeded_randomness(1)
        self.faults = deque(faults)
        self.sent: list[object] = []
        self.logs: dict[TopicPartition, list[bytes]] = defaultdict(list)
        self.refusals: dict[TopicPartition, ProducedPartition] = {}
        self.under_way_max = 0
        self.connections_made = 0
        self.is_topic_there = True
        self._partitions = partitions
        self._fetched = fetched
        self._connection: FakeConnection | None = None
        self._is_lost = False
        self._next_sequence: dict[TopicPartition, int] = {}
        self._kept: dict[TopicPartition, deque[tuple[int, int]]] = {}

    @property
    def requests(self) -> list[ProduceRequest]:
        return [request for request in self.sent if isinstance(request, ProduceRequest)]

    # -- as Cluster

    def broker(self, _: int) -> FakeConnection:
        if self._connection is None:
            self._connection = FakeConnection(self)
            self._is_lost = False
            self.connections_made += 1
        return self._connection

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        return {0: list(partitions)}

    def reconnect(self) -> None:
        self._connection = None

    def forget_leaders(self) -> None:
        pass

    def patiently(self, attempt: Callable[[], object]) -> object:
        return patiently(Patience(self.clock, self.rng), attempt, Unavailable)

    def learn(self, topics: list[str] | None) -> list[MetadataResponseTopic]:
        code = ErrorCode.NONE if self.is_topic_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        rows = [MetadataResponsePartition(partition_index=number) for number in range(self._partitions)]
        return [MetadataResponseTopic(name=name, error_code=code, partitions=rows) for name in topics or []]

    def ask(self, request: object, _: type) -> object:
        assert isinstance(request, InitProducerIdRequest)
        return InitProducerIdResponse(producer_id=7, producer_epoch=3)

    # -- as the broker

    def answer(self, request: object) -> object:
        if isinstance(request, FetchRequest):
            return self._fetched(request)
        assert isinstance(request, ProduceRequest)
        if self._is_lost:
            return BrokerGone("the connection was lost before")
        fault = self.faults.popleft() if self.faults else None
        self._is_lost = fault in (LOST_BEFORE, LOST_AFTER)
        if fault == LOST_BEFORE:
            return BrokerGone("lost before it was kept")
        answer = ProduceResponse(topics=[self._topic(topic, fault) for topic in request.topics])
        return BrokerGone("lost after it was kept") if fault == LOST_AFTER else answer

    def _topic(self, topic, fault: Fault) -> ProducedTopic:
        rows = []
        for position, data in enumerate(topic.partitions):
            key = TopicPartition(topic.name, data.index)
            if isinstance(fault, ErrorCode) and position == 0:
                rows.append(ProducedPartition(index=data.index, error_code=fault))
            else:
                rows.append(self.refusals.get(key) or self._append(key, data.records))
        return ProducedTopic(name=topic.name, partitions=rows)

    def _append(self, key: TopicPartition, batch: bytes) -> ProducedPartition:
        header = read_batch_header(batch)
        kept = self._kept.setdefault(key, deque(maxlen=BATCHES_REMEMBERED))
        for sequence, offset in kept:
            if sequence == header.base_sequence:
                return ProducedPartition(index=key.partition, base_offset=offset)
        # Like Kafka, a broker that knows nothing of the producer takes any sequence.
        if header.base_sequence != self._next_sequence.get(key, header.base_sequence):
            return ProducedPartition(index=key.partition, error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        kept.append((header.base_sequence, len(self.logs[key])))
        self._next_sequence[key] = header.base_sequence + header.record_count
        offset = len(self.logs[key])
        self.logs[key] += [bytes(record.value or b"") for record in iterate_records(batch)]
        return ProducedPartition(index=key.partition, base_offset=offset)
