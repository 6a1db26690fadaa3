"""Fetches records of partitions, from given offsets on: one fetch after another, from all leaders at the same time.

Control records, and records of a batch that precede the requested offset, are skipped. A reader of committed records
skips those of aborted transactions, too, which the broker names in its answer. If a position is out of range,
because its records were deleted or the topic was recreated, the fetcher continues at the nearest end of the partition
and reports the gap.
"""

from collections.abc import Callable, Iterator, Mapping

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import ANSWER_TIME_LIMIT_MS, Connection
from siltstone.kafka_client.failures import KafkaNotReady
from siltstone.kafka_client.offsets import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    by_topic,
    ends_of,
    refuse_partition_error,
)
from siltstone.kafka_protocol.batch_errors import BatchChecksumWrong
from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    checksum_of,
    read_batch_header,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from siltstone.kafka_protocol.records.control import Outcome, read_control_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.model.buffers import Buffer
from siltstone.model.limits import MIB

FETCH_BYTES_MAX = 8 * MIB
PARTITION_BYTES_MAX = 1 * MIB


class Fetcher:
    """``positions`` has the next offset of each partition; an offset advances when its record is taken from ``fetch``.

    ``on_gap(partition, position, resumed)`` is called when ``position`` is out of range and the fetcher continues at
    ``resumed``, a later offset, or an earlier one if the topic was recreated.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        on_gap: Callable[[TopicPartition, int, int], None] = lambda *_: None,
        isolation: int = READ_UNCOMMITTED,
    ) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self.positions = dict(positions)
        self._on_gap = on_gap

    def fetch(self, wait_ms: int) -> Iterator[tuple[TopicPartition, Record]]:
        """Yields the records that are there; if there are none, the records that arrive within ``wait_ms``. Raises
        BrokerGone, BrokerSilent and KafkaNotReady, after which the caller may fetch again; KafkaRefusal,
        CorruptData."""
        asked: list[Connection] = []
        for leader, partitions in self._cluster.by_leader(sorted(self.positions)).items():
            connection = self._cluster.broker(leader)
            connection.send(self._request(partitions, wait_ms))
            asked.append(connection)
        answers = [connection.receive(FetchResponse, wait_ms + ANSWER_TIME_LIMIT_MS) for connection in asked]
        for answer in answers:
            for topic in answer.topics:
                for data in topic.partitions:
                    yield from self._records(TopicPartition(topic.name, data.index), data)

    def _request(self, partitions: list[TopicPartition], wait_ms: int) -> FetchRequest:
        topics = [
            FetchTopic(
                name=topic,
                partitions=[
                    FetchPartition(
                        index=number,
                        fetch_offset=self.positions[TopicPartition(topic, number)],
                        bytes_max=PARTITION_BYTES_MAX,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(partitions).items()
        ]
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=self._isolation,
            topics=topics,
        )

    def _records(
        self, key: TopicPartition, data: FetchedPartition
    ) -> Iterator[tuple[TopicPartition, Record]]:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._pass_over_gap(key)
            return
        refuse_partition_error(self._cluster, data.error_code, key, self.positions[key])
        records = data.records[0] if data.records else b""  # the decoder returns a list of one buffer
        aborted = AbortedBatches(data if self._isolation == READ_COMMITTED else FetchedPartition())
        for header, batch in whole_batches(memoryview(records)):
            is_aborted = aborted.has(header, batch)
            if header.last_offset < self.positions[key]:
                continue
            for record in () if header.is_control or is_aborted else _checked_records(header, batch):
                if record.offset >= self.positions[key]:
                    self.positions[key] = record.offset + 1
                    yield key, record
            self.positions[key] = header.end_offset

    def _pass_over_gap(self, key: TopicPartition) -> None:
        ends = ends_of(self._cluster, [key])[key]
        position = self.positions[key]
        resumed = ends.start_offset if position < ends.start_offset else ends.end_offset
        if resumed == position:
            raise KafkaNotReady(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"partition {key} reports offset {position} as out of range and as valid: try again",
            )
        self._on_gap(key, position, resumed)
        self.positions[key] = resumed


class AbortedBatches:
    """Says of each batch of an answer, in order, whether it is of a transaction that was aborted."""

    def __init__(self, answer: FetchedPartition) -> None:
        named = answer.aborted_transactions or ()
        self._left = sorted(((each.first_offset, each.producer_id) for each in named), reverse=True)
        self._producers: set[int] = set()

    def has(self, header: BatchHeader, batch: Buffer) -> bool:
        while self._left and self._left[-1][0] <= header.last_offset:
            self._producers.add(self._left.pop()[1])
        if not header.is_transactional or header.producer_id not in self._producers:
            return False
        if header.is_control:
            if header.record_count and read_control_batch(batch).outcome is Outcome.ABORT:
                self._producers.discard(header.producer_id)
            return False
        return True


def whole_batches(data: memoryview) -> Iterator[tuple[BatchHeader, Buffer]]:
    """Yields the complete batches; a broker may cut off the last batch of a response."""
    position = 0
    while len(data) - position >= BATCH_HEADER_BYTES:
        header = read_batch_header(data, position)
        end = position + header.size_bytes
        if end > len(data) or end <= position:
            return
        yield header, data[position:end]
        position = end


def _checked_records(header: BatchHeader, batch: Buffer) -> Iterator[Record]:
    """Yields the records of a batch whose CRC is correct. Raises BatchChecksumWrong and what ``iterate_records``
    does."""
    refuse_wrong_checksum(header, batch)
    return iterate_records(batch)


def refuse_wrong_checksum(header: BatchHeader, batch: Buffer) -> None:
    """Raises BatchChecksumWrong if the bytes of the batch do not give its CRC."""
    computed = checksum_of(batch)
    if computed != header.crc:
        raise BatchChecksumWrong(
            f"the batch at offset {header.base_offset} has CRC {header.crc:08x}, its bytes give {computed:08x}: it is "
            "damaged, perhaps only in transit; try again"
        )
