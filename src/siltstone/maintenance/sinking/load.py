"""The load of a batch: its staged record batches become objects, and one commit appends them to closed streams.

No broker takes part. Before the commit nothing of the batch can be seen, and the streams stay closed all the time: a
broker that starts during the copy opens them at once, and then the commit is refused. Whatever was prepared or uploaded
for a commit that was refused is deleted, and the sweep deletes what a driver that died has left.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from siltstone.maintenance.committing import ATTEMPTS_MAX, BACKOFF_MS_MAX, BACKOFF_MS_MIN, prepare
from siltstone.maintenance.context import MaintenanceContext, check_may_write
from siltstone.maintenance.output_buckets import OutputBuckets
from siltstone.maintenance.sinking.failures import SinkOutcomeUnknown
from siltstone.maintenance.sinking.load_object import write_load_object
from siltstone.maintenance.sinking.load_plan import LoadPlan, plan_load
from siltstone.maintenance.sinking.manifest import SinkManifest
from siltstone.maintenance.sinking.plan import SinkPlan
from siltstone.maintenance.tasks.source_bytes import store_at
from siltstone.metadata.commands import NewObject, PrepareObjects
from siltstone.metadata.refusals import OffsetNotMatched, Refusal, SinkStreamMoved
from siltstone.metadata.sinks import CommitSinkBatch
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.model.objects import object_key

log = logging.getLogger(__name__)

COPIES_MAX = 3
"""How often a batch is written anew because its streams have moved on meanwhile: two loads of one topic do that."""

WRITERS = 4
"""Objects written side by side. Each holds a part of the manifest and what it has not uploaded yet, some 150 MiB at
most."""


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
        """Keys that were begun, by bucket id."""

    def run(self) -> None:
        source = self._source
        with_append_time = frozenset(each.topic_id for each in self._plan.topics if not each.has_own_times)
        planned = plan_load(source.metadata.refresh(), self._manifest, with_append_time)
        bucket_ids = self._buckets(planned)
        first_id = prepare(
            source,
            PrepareObjects(
                len(planned.objects), planned.time_limit_ms, bucket_ids=bucket_ids,
                sink_id=self._command.sink_id, sink_driver=self._command.driver,
            ),
        )  # fmt: skip
        self._on_step("prepared")
        try:
            written = self._write(planned, first_id, bucket_ids)
        except BaseException:
            self._delete_written()
            raise
        self._on_step("copied")
        self._commit(planned, written)

    def _buckets(self, planned: LoadPlan) -> tuple[int, ...]:
        """The bucket of each object, as the strategy of the store says. Each has been checked to be this store's, and
        to have seen no newer metadata (rule 11)."""
        chosen = OutputBuckets(self._source)
        bucket_ids = tuple(
            chosen.of_set() if each.is_set else chosen.of_stream(each.runs[0].stream_id)
            for each in planned.objects
        )
        for bucket_id in sorted(set(bucket_ids)):
            check_may_write(self._source, bucket_id)
        return bucket_ids

    def _write(self, planned: LoadPlan, first_id: int, bucket_ids: tuple[int, ...]) -> list[NewObject]:
        staged = store_at(self._plan.bucket_url)
        now_ms = self._source.clock.now_ms()

        def write(number: int) -> NewObject:
            target = self._source.buckets.store(bucket_ids[number])
            return write_load_object(
                planned.objects[number], first_id + number, self._manifest, staged, target, now_ms
            )

        for number, bucket_id in enumerate(bucket_ids):
            self._written.setdefault(bucket_id, []).append(object_key(first_id + number))
        with ThreadPoolExecutor(WRITERS, "load") as writers:
            try:
                return list(writers.map(write, range(len(planned.objects))))
            except BaseException:
                writers.shutdown(cancel_futures=True)
                raise

    def _commit(self, planned: LoadPlan, written: list[NewObject]) -> None:
        """Commits, and asks again while the outcome is unknown (rule 5): only a refusal to the first question permits
        the deletion of what was written."""
        source, command = self._source, self._command
        stream_sets = [new for new, each in zip(written, planned.objects, strict=True) if each.is_set]
        complete = CommitSinkBatch(
            command.sink_id, command.batch_id, command.driver, command.targets,
            loads=planned.loads,
            stream_set_object=stream_sets[0] if stream_sets else None,
            stream_objects=tuple(written[len(stream_sets) :]),
        )  # fmt: skip
        is_uncertain = False
        for attempt in range(ATTEMPTS_MAX):
            try:
                source.metadata.execute(complete)
                return
            except Refusal:
                if not is_uncertain:
                    self._delete_written()
                raise
            except Unavailable as trouble:
                is_uncertain = True
                log.warning(
                    "whether batch %d of sink %s is committed is not known yet: %s",
                    command.batch_id,
                    command.sink_id,
                    trouble,
                )
                ceiling_ms = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2**attempt)
                source.clock.block_ms(ceiling_ms * (0.5 + source.rng.random() / 2))
        raise SinkOutcomeUnknown(command.sink_id, command.batch_id)

    def _delete_written(self) -> None:
        """What cannot be deleted now is left to the sweep, which deletes it when the time limit of the prepared objects
        has passed."""
        for bucket_id, keys in self._written.items():
            try:
                self._source.buckets.store(bucket_id).delete(keys)
            except SiltstoneError as trouble:
                log.warning(
                    "objects of a refused load in bucket %d are left to the sweep: %s", bucket_id, trouble
                )
