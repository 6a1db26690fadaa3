"""A whole store in memory with compacted topics in it: real Kafka batches in real objects, segments closed on order.

    world = KeyedWorld(); (stream,) = world.topic()
    world.append_pairs(stream, [("a", "1"), ("b", None)]); world.roll(stream)

Keys and values are texts; a value of None is a tombstone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from siltstone.carrying.pipeline.kind import Budget, Scope, UnitReport
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.key_compaction.kind import KeyCompaction
from siltstone.maintenance.key_compaction.task import run_key_compaction
from siltstone.metadata.commands import AlterTopicConfigs, CreateTopic, DeleteTopic, OpenStream, RollSegments
from siltstone.metadata.entities import StreamMetadata, TopicMetadata
from siltstone.model.record_batch import RecordBatch
from siltstone.model.segments import ClosedSegment
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import KeyCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, Runner, Task
from support.engine.objects import read_object
from support.maintenance.maintained_store import MaintainedStore
from support.maintenance.opened_stores import stores_opened
from support.maintenance.spread import ONE_BUCKET, Spread

Pair = tuple[str | None, str | None]
Found = tuple[int, str | None, str | None]

SETTINGS = KeyCompactionSettings(
    map_bytes_max=64 * 1024,
    memory_bytes=8 * 1024 * 1024,
    object_bytes=4 * 1024,
    block_bytes=512,
    allowance_ms=0,
)
"""Outputs of some dozen records; tombstones' time begins with the run."""


class KeyedWorld(MaintainedStore):
    def __init__(self, spread: Spread = ONE_BUCKET) -> None:
        """``spread``: over which buckets its objects lie."""
        super().__init__(range(spread.buckets))
        self._spread, self._choices = spread, spread.choices()
        spread.list_buckets(self.metadata, self.stores)

    # -- topics ------------------------------------------------------------------------------------------

    def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> list[int]:
        """The streams of its batches, open at node 0. ``min_compaction_lag_ms`` stands for min.compaction.lag.ms."""
        dotted = {"cleanup.policy": "compact"} | {
            key.replace("_", "."): text for key, text in configs.items()
        }
        topic_id = self.new_topic_id()
        made = self.metadata.execute(CreateTopic(0, 1, name, topic_id, partitions, configs=dotted))
        for partition in made.partitions:
            self.metadata.execute(OpenStream(0, 1, partition.data_stream_id, 0))
        return [partition.data_stream_id for partition in made.partitions]

    def new_topic_id(self) -> str:
        return f"{len(self.image.topics) + 1:032x}"

    def topic_named(self, name: str = "t") -> TopicMetadata:
        image = self.image
        return image.topics[image.topic_ids[name]]

    def configure(self, name: str = "t", **configs: str) -> None:
        put = {key.replace("_", "."): text for key, text in configs.items()}
        self.metadata.execute(AlterTopicConfigs(self.topic_named(name).topic_id, put=put))

    def delete_topic(self, name: str = "t") -> None:
        self.metadata.execute(DeleteTopic(0, 1, self.topic_named(name).topic_id))

    def stream(self, stream_id: int) -> StreamMetadata:
        return self.image.streams[stream_id]

    # -- data --------------------------------------------------------------------------------------------

    def append_pairs(
        self, stream_id: int, *batches: Sequence[Pair], in_set: bool = False, codec: Codec = Codec.NONE
    ) -> int:
        """Commits batches at the end, now: in a stream object, or in a stream set object. Returns its id."""
        end = self.stream(stream_id).end_offset
        made = []
        for pairs in batches:
            made.append(kafka_batch(stream_id, end, pairs, self.clock.now_ms(), codec))
            end += len(pairs)
        return self.upload(made, self._choices.randrange(self._spread.buckets), alone=not in_set)

    def append_records(self, stream_id: int, *records: Record) -> int:
        """Commits pairs as one batch at the end, whatever their times are. Returns the id of the object."""
        end, now_ms = self.stream(stream_id).end_offset, self.clock.now_ms()
        made = batch_of_records(stream_id, end, records, now_ms, Codec.NONE)
        return self.upload([made], self._choices.randrange(self._spread.buckets), alone=True)

    def roll(self, stream_id: int, end_offset: int | None = None, **changes: int) -> None:
        """Closes the active segment, at the stream's end if nothing else is said."""
        stream, now_ms = self.stream(stream_id), self.clock.now_ms()
        segment = ClosedSegment(
            start_offset=stream.active_offset,
            end_offset=stream.end_offset if end_offset is None else end_offset,
            size_bytes=1,
            batch_count=1,
            largest_timestamp_ms=changes.get("largest_timestamp_ms", now_ms),
            opened_ms=changes.get("opened_ms", now_ms),
            closed_ms=now_ms,
        )
        self.metadata.execute(RollSegments(((stream_id, segment),), node_id=0, node_epoch=1))

    def fill(self, stream_id: int, seed: int, count: int = 200, keys: int = 20) -> None:
        """Records of a few keys, some of them tombstones, in batches of all codecs and in several objects; closed."""
        rng = Random(seed)
        left = count
        while left > 0:
            batches = []
            for _ in range(rng.randint(1, 4)):
                size = rng.randint(1, 9)
                batches.append([_pair(rng, keys) for _ in range(size)])
                left -= size
            self.append_pairs(stream_id, *batches, codec=rng.choice(list(Codec)))
        self.roll(stream_id)

    # -- what a reader sees ------------------------------------------------------------------------------

    def batches(self, stream_id: int) -> list[RecordBatch]:
        stream = self.stream(stream_id)
        return [
            batch
            for held in stream.ranges
            for batch in read_object(self.bytes_of(held.object_id))
            if batch.stream_id == stream_id and batch.end_offset > stream.start_offset
        ]

    def records(self, stream_id: int) -> list[Found]:
        start = self.stream(stream_id).start_offset
        return [
            (record.offset, _text(record.key), _text(record.value))
            for batch in self.batches(stream_id)
            for record in iterate_records(bytes(batch.payload))
            if record.offset >= start
        ]

    def offsets(self, stream_id: int) -> list[int]:
        return [offset for offset, _, _ in self.records(stream_id)]

    def table(self, stream_id: int) -> dict[str | None, str]:
        """Returns the table of a consumer that reads from the beginning."""
        return table_of(self.records(stream_id))

    def assert_sound(self) -> None:
        report = check(self.context)
        assert report.is_clean, report.findings

    # -- compaction --------------------------------------------------------------------------------------

    def compact(
        self,
        settings: KeyCompactionSettings = SETTINGS,
        *,
        task: Task = run_key_compaction,
        runner: Runner | None = None,
        context: MaintenanceContext | None = None,
        **scope: object,
    ) -> RunReport:
        """Carries the plan out as the pipeline does; ``scope`` as in Scope."""
        context = context or self.context
        kind = KeyCompaction(settings, task)
        return run(
            context,
            kind,
            lambda: runner or InProcessRunner(),
            Scope(**scope),  # type: ignore[arg-type]
            Budget(),
            Watch(kind.name, self.clock),
        )

    def compact_now(self, settings: KeyCompactionSettings = SETTINGS, **given: object) -> UnitReport:
        """Compacts the one stream that there is, whatever its ratio, and asserts that it was done."""
        report = self.compact(settings, is_forced=True, **given)  # type: ignore[arg-type]
        assert report.is_well, report
        (unit,) = report.units
        return unit


@contextmanager
def keyed_world(spread: Spread = ONE_BUCKET) -> Iterator[KeyedWorld]:
    """Tasks open the world's buckets by their URLs, as they would elsewhere."""
    world = KeyedWorld(spread)
    with stores_opened(*world.stores.values()):
        yield world


def table_of(records: Sequence[Found]) -> dict[str | None, str]:
    table: dict[str | None, str] = {}
    for _, key, value in records:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


def kafka_batch(
    stream_id: int,
    base_offset: int,
    pairs: Sequence[Pair],
    timestamp_ms: int = 1_000,
    codec: Codec = Codec.NONE,
) -> RecordBatch:
    records = [
        Record(timestamp_ms=timestamp_ms, key=_bytes(key), value=_bytes(value)) for key, value in pairs
    ]
    return batch_of_records(stream_id, base_offset, records, timestamp_ms, codec)


def batch_of_records(
    stream_id: int, base_offset: int, records: Sequence[Record], timestamp_ms: int, codec: Codec
) -> RecordBatch:
    payload = build_batch(records, base_offset=base_offset, compression=codec)
    end = base_offset + len(records)
    return RecordBatch(stream_id, 0, base_offset, end, len(records), timestamp_ms, timestamp_ms, payload)


def _pair(rng: Random, keys: int) -> Pair:
    key = f"k{rng.randrange(keys)}"
    return key, None if rng.random() < 0.15 else f"{rng.randrange(10**6)}" * rng.randint(1, 5)


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _text(data: object) -> str | None:
    return None if data is None else bytes(data).decode()  # type: ignore[call-overload, no-any-return]
