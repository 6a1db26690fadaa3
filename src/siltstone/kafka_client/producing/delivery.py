"""Sends batches to the leaders of their partitions, each exactly once and in order.

Up to five requests are in flight to each leader. After a transient failure (a connection is lost, a leader has moved)
the producer closes all connections and sends the unacknowledged batches again, the oldest first, one at a time. The
broker recognises repeated batches by the producer id and their sequence numbers and does not append them twice. The
first batch of each partition is sent alone, because a broker that does not know a producer yet accepts any sequence
number from it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import Connection
from siltstone.kafka_client.failures import NOT_READY, KafkaNotReady, KafkaRefusal, words_of
from siltstone.kafka_client.patience import Patience
from siltstone.kafka_client.topics import find_topics
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.produce import (
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.kafka_protocol.records.reading import RecordHeader
from siltstone.model.buffers import Buffer
from siltstone.model.errors import Unavailable


class OutgoingRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record to send. ``line`` is its line in the input; ``timestamp_ms`` None means now; ``partition`` None means
    that the producer chooses it by the key."""

    line: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[RecordHeader, ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class OutgoingBatch(msgspec.Struct, frozen=True, kw_only=True):
    """An encoded batch. ``number`` counts the producer's batches; ``lines`` has the input line of each record in
    order."""

    number: int
    partition: TopicPartition
    data: Buffer
    lines: list[int]


REQUESTS_UNDER_WAY_MAX = 5
"""A broker remembers the sequence numbers of a producer's last five batches per partition [KIP-98]."""
BROKER_TIME_LIMIT_MS = 30_000
ANSWER_TIME_LIMIT_MS = 40_000
DELIVERY_TIME_LIMIT_MS = 120_000
"""How long unacknowledged batches are retried; a broker has restarted by then [Java: delivery.timeout.ms]."""
TOPIC_ID_VERSION = 13
"""The first version of Produce that names a topic by its id."""
ALL_REPLICAS = -1
UNKNOWN_OFFSET = -1

_SEND_AGAIN = NOT_READY | {ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


class RecordsRefused(KafkaRefusal):
    """The broker has refused records of the input, and would refuse them again."""


class Delivery:
    """Sends batches and tracks which are acknowledged.

    ``on_delivered(batch, offset)`` reports that the batch was appended at ``offset``, −1 if the broker no longer
    knows the offset. ``on_trouble(text)`` reports a failure that is being retried. With ``topic_ids``, by name, topics
    are named by their ids, so a topic that was created again refuses the batches. ``transactional_id``: the batches are
    of a transaction of that id.
    """

    def __init__(
        self,
        cluster: Cluster,
        on_delivered: Callable[[OutgoingBatch, int], None],
        on_trouble: Callable[[str], None],
        topic_ids: Mapping[str, bytes] | None = None,
        transactional_id: str | None = None,
    ) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._topic_ids = topic_ids or {}
        self._topic_names = {topic_id: name for name, topic_id in self._topic_ids.items()}
        self._on_delivered = on_delivered
        self._on_trouble = on_trouble
        self._unacknowledged: dict[int, OutgoingBatch] = {}
        self._under_way: dict[Connection, deque[list[OutgoingBatch]]] = {}
        self._untested: set[TopicPartition] = set()
        self._tested: set[TopicPartition] = set()

    @property
    def is_waiting(self) -> bool:
        return bool(self._unacknowledged)

    @property
    def records_unacknowledged(self) -> int:
        """The number of records that were sent without a response: the broker may have appended them or not."""
        return sum(len(batch.lines) for batch in self._unacknowledged.values())

    def send(self, batches: Sequence[OutgoingBatch]) -> None:
        """Sends batches, at most one of each partition. Blocks only while too many requests are in flight. Raises what
        ``wait`` does."""
        self._unacknowledged |= {batch.number: batch for batch in batches}
        try:
            self._send(batches)
        except Unavailable as trouble:
            self._deliver_carefully(trouble)

    def wait(self) -> None:
        """Waits until every batch is acknowledged. Raises RecordsRefused, TopicUnknown, and the last failure when the
        time limit of the retries is over."""
        try:
            for connection in list(self._under_way):
                self._receive_all(connection)
        except Unavailable as trouble:
            self._deliver_carefully(trouble)
        assert not self._unacknowledged

    def _send(self, batches: Sequence[OutgoingBatch]) -> None:
        by_partition = {batch.partition: batch for batch in batches}
        assert len(by_partition) == len(batches)
        for leader, partitions in self._cluster.by_leader(by_partition).items():
            connection = self._cluster.broker(leader)
            under_way = self._under_way.setdefault(connection, deque())
            if not self._untested.isdisjoint(partitions):
                self._receive_all(connection)
            while len(under_way) >= REQUESTS_UNDER_WAY_MAX:
                self._receive(connection)
            theirs = [by_partition[partition] for partition in partitions]
            request = _request(theirs, self._topic_ids, self._transactional_id)
            if self._topic_ids:
                connection.send_in(TOPIC_ID_VERSION, request)
            else:
                connection.send(request)
            under_way.append(theirs)
            self._untested |= set(partitions) - self._tested

    def _receive_all(self, connection: Connection, *, is_alone: bool = False) -> None:
        while self._under_way[connection]:
            self._receive(connection, is_alone=is_alone)

    def _receive(self, connection: Connection, *, is_alone: bool = False) -> None:
        """Receives one response. ``is_alone``: all earlier batches are acknowledged. Raises KafkaNotReady if a batch
        must be sent again, RecordsRefused if the broker refused one for good."""
        batches = {batch.partition: batch for batch in self._under_way[connection].popleft()}
        answer = connection.receive(ProduceResponse, ANSWER_TIME_LIMIT_MS)
        failures: list[KafkaNotReady | RecordsRefused] = []
        for topic in answer.topics:
            for result in topic.partitions:
                name = self._topic_names.get(topic.topic_id, topic.name)
                batch = batches[TopicPartition(name, result.index)]
                if result.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._acknowledge(batch, result)
                else:
                    failures.append(self._failure(batch, result, is_alone))
        for failure in sorted(failures, key=lambda failure: isinstance(failure, KafkaNotReady)):
            if isinstance(failure, RecordsRefused):
                self._hear_the_rest()
            raise failure

    def _hear_the_rest(self) -> None:
        """Receives all other responses, so that batches which the broker did append are reported as delivered."""
        for connection, under_way in self._under_way.items():
            with suppress(Unavailable, RecordsRefused):
                while under_way:
                    self._receive(connection)

    def _acknowledge(self, batch: OutgoingBatch, result: ProducedPartition) -> None:
        del self._unacknowledged[batch.number]
        self._untested.discard(batch.partition)
        self._tested.add(batch.partition)
        offset = UNKNOWN_OFFSET if result.error_code else result.base_offset
        self._on_delivered(batch, offset)

    def _failure(
        self, batch: OutgoingBatch, result: ProducedPartition, is_alone: bool
    ) -> KafkaNotReady | RecordsRefused:
        """Returns the error for a batch. OUT_OF_ORDER_SEQUENCE_NUMBER is transient unless the batch was sent alone: an
        earlier batch in flight may have failed, and both are sent again."""
        code = ErrorCode(result.error_code)
        if code in _SEND_AGAIN or (code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_alone):
            return KafkaNotReady(code, f"partition {batch.partition}: {words_of(code, result.error_message)}")
        del self._unacknowledged[batch.number]
        return _refused(batch, code, result)

    def _deliver_carefully(self, trouble: Unavailable) -> None:
        """Sends all unacknowledged batches one by one, until all are acknowledged or the time limit is over."""
        patience = Patience(self._cluster.clock, self._cluster.rng, DELIVERY_TIME_LIMIT_MS)
        failures = [trouble]
        while self._unacknowledged:
            self._begin_anew()
            if len(failures) == 1 + isinstance(trouble, KafkaNotReady):  # not for a first KafkaNotReady
                self._on_trouble(str(failures[-1]))
            patience.wait_after(failures[-1])
            try:
                self._send_one_by_one(patience)
            except Unavailable as again:
                failures.append(again)
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Closes all connections and forgets the requests in flight on them."""
        self._cluster.reconnect()
        self._under_way.clear()
        self._untested.clear()

    def _send_one_by_one(self, patience: Patience) -> None:
        topics = {batch.partition.topic for batch in self._unacknowledged.values()}
        find_topics(self._cluster, sorted(topics))  # raises TopicUnknown if a topic was deleted meanwhile
        for batch in list(self._unacknowledged.values()):
            self._send([batch])
            for connection in list(self._under_way):
                self._receive_all(connection, is_alone=True)
            patience.restart()


def _request(
    batches: Sequence[OutgoingBatch], topic_ids: Mapping[str, bytes], transactional_id: str | None
) -> ProduceRequest:
    topics: dict[str, list[ProducePartition]] = {}
    for batch in batches:
        data = ProducePartition(index=batch.partition.partition, records=batch.data)
        topics.setdefault(batch.partition.topic, []).append(data)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=ALL_REPLICAS,
        timeout_ms=BROKER_TIME_LIMIT_MS,
        topics=[
            ProduceTopic(name=name, topic_id=topic_ids.get(name, NO_UUID), partitions=data)
            for name, data in topics.items()
        ],
    )


def _refused(batch: OutgoingBatch, code: ErrorCode, result: ProducedPartition) -> RecordsRefused:
    line, message = batch.lines[0], result.error_message
    for wrong in result.record_errors[:1]:
        line = batch.lines[wrong.batch_index] if wrong.batch_index < len(batch.lines) else line
        message = wrong.message or message
    return RecordsRefused(code, f"line {line}: {words_of(code, message)}")
