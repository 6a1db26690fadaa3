"""Records from partitions, from given offsets on: one fetch after another, from all leaders at the same time.

Control records and what lies before the offset asked for are left out. What is gone (trimmed in the meantime) is passed
over and told.
"""

from collections.abc import Callable, Iterator, Mapping

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import ANSWER_TIME_LIMIT_MS, Connection
from siltstone.kafka_client.failures import KafkaNotReady
from siltstone.kafka_client.offsets import by_topic, ends_of, refuse_partition_error
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
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.model.buffers import Buffer
from siltstone.model.limits import MIB

FETCH_BYTES_MAX = 8 * MIB
PARTITION_BYTES_MAX = 1 * MIB


class Fetcher:
    """``positions``: the next offset of each partition; they move as records are taken out of ``fetch``. ``on_gap``: a
    partition goes on at a later offset than it should have."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        on_gap: Callable[[TopicPartition, int, int], None] = lambda *_: None,
    ) -> None:
        self._cluster = cluster
        self.positions = dict(positions)
        self._on_gap = on_gap

    def fetch(self, wait_ms: int) -> Iterator[tuple[TopicPartition, Record]]:
        """What there is; when there is nothing, what comes within the time. Raises BrokerGone, BrokerSilent,
        KafkaNotReady, after which it may be called again, and KafkaRefusal, CorruptData."""
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
        return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=FETCH_BYTES_MAX, topics=topics)

    def _records(
        self, key: TopicPartition, data: FetchedPartition
    ) -> Iterator[tuple[TopicPartition, Record]]:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._pass_over_gap(key)
            return
        refuse_partition_error(self._cluster, data.error_code, key)
        records = data.records[0] if data.records else b""  # decoding makes one piece of them
        for header, batch in _whole_batches(memoryview(records)):
            if header.last_offset < self.positions[key]:
                continue
            for record in () if header.is_control else _checked_records(header, batch):
                if record.offset >= self.positions[key]:
                    self.positions[key] = record.offset + 1
                    yield key, record
            self.positions[key] = header.end_offset

    def _pass_over_gap(self, key: TopicPartition) -> None:
        ends = ends_of(self._cluster, [key])[key]
        position = self.positions[key]
        resumed = ends.start_offset if position < ends.start_offset else ends.end_offset
        if resumed == position:
            raise KafkaNotReady(ErrorCode.OFFSET_NOT_AVAILABLE, f"partition {key} is moving: try again")
        self._on_gap(key, position, resumed)
        self.positions[key] = resumed


def _whole_batches(data: memoryview) -> Iterator[tuple[BatchHeader, Buffer]]:
    """A broker may cut off the last one."""
    position = 0
    while len(data) - position >= BATCH_HEADER_BYTES:
        header = read_batch_header(data, position)
        end = position + header.size_bytes
        if end > len(data) or end <= position:
            return
        yield header, data[position:end]
        position = end


def _checked_records(header: BatchHeader, batch: Buffer) -> Iterator[Record]:
    """Raises BatchChecksumWrong and what ``iterate_records`` does."""
    computed = checksum_of(batch)
    if computed != header.crc:
        raise BatchChecksumWrong(
            f"the batch at offset {header.base_offset} has CRC {header.crc:08x}, its bytes give {computed:08x}: it was "
            "damaged on the way; try again"
        )
    return iterate_records(batch)
