"""Loads a batch: its staged record batches become objects, and one commit appends them to closed streams.

No broker takes part. Before the commit nothing of the batch can be seen. The streams are not locked meanwhile: a broker
that starts during the load opens them, and then the commit is refused. Objects of a commit that was refused are
deleted, and the sweep deletes the objects that a driver which died has left.

A closed stream may end with a transaction that is open. The load continues behind it, as other appends do, and readers
of committed records get the rows when a broker has ended the transaction.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from siltstone.carrying.committing import prepare
from siltstone.carrying.outcomes import ObjectCommit, OutcomeUnknown, settle
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.commands import NewObject, PrepareObjects
from siltstone.metadata.entities import SINK_NODE, StreamMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import OffsetNotMatched, SinkStreamMoved
from siltstone.metadata.sinks import CommitSinkBatch
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import object_key
from siltstone.offline.context import MaintenanceContext, check_may_write
from siltstone.offline.output_buckets import OutputBuckets, TooFewBuckets
from siltstone.offline.tasks.source_bytes import copies_at, store_at
from siltstone.offline.tasks.whole_copies import WholeCopy, WholeCopyInput
from siltstone.scanning.planning import ScanPartition
from siltstone.scanning.transactions import CommittedEnds, has_transactions
from siltstone.sinking.failures import SinkOutcomeUnknown
from siltstone.sinking.load_object import write_load_object
from siltstone.sinking.load_plan import LoadPlan, plan_load
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.plan import SinkPlan

log = logging.getLogger(__name__)

COPIES_MAX = 3
"""A batch is written again at most this many times because the ends of its streams have moved meanwhile, as by another
load of the same topic."""

WRITERS = 4
"""Objects that are written side by side. Each holds a part of the manifest and the bytes that are not uploaded yet,
some 150 MiB at most."""


def load_batch(
    source: MaintenanceContext,
    plan: SinkPlan,
    manifest: SinkManifest,
    command: CommitSinkBatch,
    on_step: Callable[[str], None],
) -> None:
    """Writes the objects of the batch and executes ``command`` with them. Raises TopicGoneForSink, StreamNotClosed,
    SinkTakenOver, SinkStreamMoved, ManifestDamaged, SinkOutcomeUnknown, and what the metadata and the buckets raise."""
    for attempt in range(COPIES_MAX):
        try:
            _Load(source, plan, manifest, command, on_step).run()
            return
        except (SinkStreamMoved, OffsetNotMatched) as moved:
            if attempt + 1 == COPIES_MAX:
                raise
            log.info(
                "the objects of batch %d of sink %s are written again: %s",
                command.batch_id,
                command.sink_id,
                moved,
            )


def undecided_before(source: MaintenanceContext, manifest: SinkManifest) -> dict[str, int]:
    """Returns the partitions of the batch in which a transaction is open, with its first offset. Raises ScanDamaged,
    and what the buckets raise."""
    image, ends = source.metadata.image, CommittedEnds(source)
    found: dict[str, int] = {}
    for stream_id, parts in manifest.streams():
        topic, stream = image.topics.get(parts[0].topic_id), image.streams.get(stream_id)
        if topic is None or stream is None:
            continue
        partition = ScanPartition(topic, parts[0].partition, _by_brokers(stream))
        if has_transactions(image, partition):
            first = ends.in_objects(image, partition).outcomes.first_undecided
            if first is not None:
                found[partition.name] = first
    return found


def _by_brokers(stream: StreamMetadata) -> StreamMetadata:
    """Returns the stream up to where a broker has appended last: sinks write no transactions, so these bytes are not
    read."""
    ends = (each.end_offset for each in stream.owner_ranges if each.node_id != SINK_NODE)
    return replace(stream, end_offset=max(ends, default=stream.start_offset))


class _Load:
    def __init__(
        self,
        source: MaintenanceContext,
        plan: SinkPlan,
        manifest: SinkManifest,
        command: CommitSinkBatch,
        on_step: Callable[[str], None],
    ) -> None:
        self._source = source
        self._plan = plan
        self._manifest = manifest
        self._command = command
        self._on_step = on_step
        self._written: dict[int, list[str]] = {}
        """Bucket id → keys of objects that were started."""

    def run(self) -> None:
        source = self._source
        with_append_time = frozenset(each.topic_id for each in self._plan.topics if not each.has_own_times)
        planned = plan_load(source.metadata.refresh(), self._manifest, with_append_time)
        outputs = OutputBuckets(source)
        bucket_ids = self._buckets(planned, outputs)
        first_id = prepare(
            source,
            PrepareObjects(
                len(planned.objects), planned.time_limit_ms, bucket_ids=bucket_ids,
                sink_id=self._command.sink_id, sink_driver=self._command.driver,
            ),
            outputs,
        )  # fmt: skip
        self._on_step("prepared")
        try:
            written = self._write(planned, first_id, bucket_ids)
        except BaseException:
            self._delete_written()
            raise
        self._on_step("copied")
        self._commit(planned, written)

    def _buckets(self, planned: LoadPlan, outputs: OutputBuckets) -> tuple[int, ...]:
        """Returns the first bucket of each object, as the strategy of the store says. These buckets, and those of
        copies, have been checked: they are this store's, and have seen no newer metadata (rule 11)."""
        bucket_ids = tuple(
            outputs.of_set() if each.is_set else outputs.of_stream(each.runs[0].stream_id)
            for each in planned.objects
        )
        for bucket_id in sorted({*bucket_ids, *outputs.of_copies()}):
            check_may_write(self._source, bucket_id)
        return bucket_ids

    def _write(self, planned: LoadPlan, first_id: int, bucket_ids: tuple[int, ...]) -> list[NewObject]:
        staged = store_at(self._plan.bucket_url)
        now_ms, image = self._source.clock.now_ms(), self._source.metadata.image

        def write(number: int) -> NewObject:
            target = self._source.buckets.store(bucket_ids[number])
            made = write_load_object(
                planned.objects[number], first_id + number, self._manifest, staged, target, now_ms
            )
            return self._in_all_buckets(image, made)

        for object_id in range(first_id, first_id + len(bucket_ids)):
            for bucket_id in image.objects[object_id].every_bucket_id:
                self._written.setdefault(bucket_id, []).append(object_key(object_id))
        with ThreadPoolExecutor(WRITERS, "load") as writers:
            try:
                return list(writers.map(write, range(len(planned.objects))))
            except BaseException:
                writers.shutdown(cancel_futures=True)
                raise

    def _in_all_buckets(self, image: MetadataImage, made: NewObject) -> NewObject:
        """Copies the object into the buckets for which replication has prepared it, and returns the object with its
        buckets. Raises TooFewBuckets."""
        prepared, stores = image.objects[made.object_id], self._source.buckets.store
        places, troubles = [prepared.bucket_id], {}
        sources = ((prepared.bucket_id, stores(prepared.bucket_id).url),)
        for bucket_id in prepared.uncertain:
            target = stores(bucket_id)
            given = WholeCopyInput(
                object_id=made.object_id, size_bytes=made.size_bytes, sources=sources, target_url=target.url
            )
            try:
                WholeCopy(copies_at(sources, made.object_id), target, given).make()
            except SiltstoneError as trouble:
                troubles[bucket_id] = trouble
            else:
                places.append(bucket_id)
        if len(places) < (needed := bucket_list_of(image).strategy.copies_needed):
            raise TooFewBuckets(needed, troubles)
        return replace(made, bucket_ids=tuple(places))

    def _commit(self, planned: LoadPlan, written: list[NewObject]) -> None:
        """Raises the Refusal, SinkOutcomeUnknown."""
        command = self._command
        stream_sets = [new for new, each in zip(written, planned.objects, strict=True) if each.is_set]
        complete = CommitSinkBatch(
            command.sink_id, command.batch_id, command.driver, command.targets,
            loads=planned.loads,
            stream_set_object=stream_sets[0] if stream_sets else None,
            stream_objects=tuple(written[len(stream_sets) :]),
        )  # fmt: skip
        about = f"batch {command.batch_id} of sink {command.sink_id}"
        try:
            settle(self._source, ObjectCommit(complete, about, self._delete_written))
        except OutcomeUnknown as unknown:
            raise SinkOutcomeUnknown(command.sink_id, command.batch_id) from unknown

    def _delete_written(self) -> None:
        """Deletes the written objects. Objects that cannot be deleted now are left to the sweep, which deletes them
        when the time limit of the prepared objects has passed."""
        for bucket_id, keys in self._written.items():
            try:
                self._source.buckets.store(bucket_id).delete(keys)
            except SiltstoneError as trouble:
                log.warning(
                    "objects of a refused load in bucket %d are left to the sweep: %s", bucket_id, trouble
                )
