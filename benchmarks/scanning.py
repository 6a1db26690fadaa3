"""(u) Planning a scan of 10,000 partitions and 1 TiB in 100,000 objects, by the image alone; and (v) a topic as an
Arrow table by ``siltstone.scan``, against confluent-kafka consuming the same topic from the same broker and making the
same table.

The CPU of (v) is that of this process and, for the consumer, of the broker that serves it."""

import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

import siltstone
from benchmarks.brokers.process_cost import cost_of
from benchmarks.support.pairs import measure_pairs
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least, at_most
from benchmarks.support.topics import PARTITIONS, TOPIC, FilledTopic, filled_topic
from siltstone.metadata.entities import (
    ObjectMetadata,
    PartitionMetadata,
    StreamMetadata,
    StreamState,
    TopicMetadata,
)
from siltstone.model.limits import MIB
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState
from siltstone.scanning.planning import cut, plan_pieces, wanted_partitions
from siltstone.scanning.request import ScanRequest

RECORDS = 10_000_000
ROUNDS = 3
TOPICS, TOPIC_PARTITIONS, OBJECTS_EACH = 100, 100, 10
OBJECT_BYTES = 10 * MIB + MIB // 2
OFFSETS = 100_000
PLANNING_TITLE = "(u) planning a scan of 10,000 partitions and 1 TiB in 100,000 objects"
TITLE = "(v) a topic as an Arrow table, against confluent-kafka"


def run_planning() -> list[Row]:
    image = _image()
    request = ScanRequest(topics=tuple(topic.name for topic in image.topics.values()))
    best = min(_planned(image, request) for _ in range(ROUNDS))
    return [at_most("planning", best, 5, " s")]


def _planned(image: Any, request: ScanRequest) -> float:
    begun = time.perf_counter()
    partitions = wanted_partitions(image, request)
    cuts = [
        cut(
            each,
            each.start_offset,
            each.committed_offset,
            end_offset=each.committed_offset,
            fail_on_data_loss=True,
        )
        for each in partitions
    ]
    units = plan_pieces(image, cuts, request).units
    took = time.perf_counter() - begun
    assert len(partitions) == TOPICS * TOPIC_PARTITIONS
    assert sum(map(len, units)) >= TOPICS * TOPIC_PARTITIONS * OBJECTS_EACH
    return took


def _image() -> Any:
    image = SimpleNamespace(topics={}, topic_ids={}, streams={}, objects={})
    object_id = 0
    for topic in range(TOPICS):
        topic_id = f"{topic:032x}"
        partitions = []
        for number in range(TOPIC_PARTITIONS):
            stream_id = topic * TOPIC_PARTITIONS + number
            ranges = []
            for part in range(OBJECTS_EACH):
                start = part * OFFSETS
                ranges.append(ObjectRange(stream_id, object_id, start, start + OFFSETS, OBJECT_BYTES, 0))
                image.objects[object_id] = ObjectMetadata(
                    object_id,
                    ObjectState.COMMITTED,
                    0,
                    ObjectKind.STREAM_OBJECT,
                    OBJECT_BYTES,
                    0,
                    0,
                    0,
                    0,
                    (),
                )
                object_id += 1
            image.streams[stream_id] = StreamMetadata(
                stream_id, StreamState.CLOSED, 0, 1, 0, OBJECTS_EACH * OFFSETS, (), tuple(ranges), {}
            )
            partitions.append(PartitionMetadata(stream_id, stream_id))
        image.topics[topic_id] = TopicMetadata(topic_id, f"t{topic}", tuple(partitions), {}, 1, 0, False)
        image.topic_ids[f"t{topic}"] = topic_id
    return image


def run(records: int = RECORDS) -> list[Row]:
    with folder() as place, filled_topic(place, records) as topic:
        before = cost_of(topic.pid).cpu_seconds
        scan = partial(_scanned, topic)
        scan()
        broker_of_scan = cost_of(topic.pid).cpu_seconds - before
        before = cost_of(topic.pid).cpu_seconds
        _consumed(topic)
        broker_of_consumer = cost_of(topic.pid).cpu_seconds - before
        pair = measure_pairs(scan, partial(_consumed, topic), ROUNDS)
    ours, theirs = pair.our_median(), pair.their_median()
    speed = f"{records / theirs.wall_s / 1e6:.2f} M records/s"
    cpu = (theirs.cpu_s + broker_of_consumer) / (ours.cpu_s + broker_of_scan)
    return [
        at_least(f"{records:,} records to a table", pair.speed_ratio, 5, " ×", f"confluent-kafka, {speed}"),
        Row(
            "records a second; a CPU second",
            f"{records / ours.wall_s / 1e6:.2f}; {records / ours.cpu_s / 1e6:.2f} M",
        ),
        Row("CPU of all processes, theirs as a multiple of ours", f"{cpu:.1f} ×"),
        at_most("CPU of the broker during a scan of objects", broker_of_scan, 0.2, " s"),
    ]


def _scanned(topic: FilledTopic) -> None:
    table = siltstone.scan(TOPIC, store=topic.store).to_arrow()
    assert table.num_rows == topic.records


def _consumed(topic: FilledTopic) -> None:
    """The columns of a scan, made as fast as Python makes lists of them."""
    consumer = Consumer(
        {
            "bootstrap.servers": topic.address, "group.id": "bench", "enable.auto.commit": False,
            "fetch.max.bytes": 64 * MIB, "queued.max.messages.kbytes": 256 * 1024,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    columns: list[list[Any]] = [[] for _ in range(7)]
    count = 0
    while count < topic.records:
        messages = consumer.consume(10_000, 60)
        assert messages, f"{count} of {topic.records} records"
        count += len(messages)
        times = [each.timestamp() for each in messages]
        parts = (
            [each.key() for each in messages], [each.value() for each in messages],
            [each.topic() for each in messages], [each.partition() for each in messages],
            [each.offset() for each in messages], [time_ms * 1_000 for _, time_ms in times],
            [kind - 1 for kind, _ in times],
        )  # fmt: skip
        for column, part in zip(columns, parts, strict=True):
            column.extend(part)
    consumer.close()
    types = [
        pa.binary(),
        pa.binary(),
        pa.string(),
        pa.int32(),
        pa.int64(),
        pa.timestamp("us", tz="UTC"),
        pa.int32(),
    ]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    assert pa.Table.from_arrays(arrays, names=list("kvtpoms")).num_rows == topic.records
