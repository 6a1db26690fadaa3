"""One wave: ids, tasks, and a commit for each stream (rule 5: done, refused or unknown).

A wave whose run failed does not say whose fault it was, so its streams are run again one by one, under new ids:
attempts of the first run may still be writing.
"""

import logging
from collections.abc import Iterator, Sequence

import msgspec

from siltstone.maintenance.bucket_owner import refuse_bucket_of_another_store
from siltstone.maintenance.committing import commit
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.key_compaction.planning.binding import Attempt, outputs_max, unit_of
from siltstone.maintenance.key_compaction.planning.staleness import why_stale
from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan
from siltstone.maintenance.key_compaction.reporting import done, failed, not_needed
from siltstone.maintenance.key_compaction.settings import KeyCompactionSettings
from siltstone.maintenance.key_compaction.unit import (
    KeyCompactionResult,
    KeyCompactionUnit,
    decode_result,
    encode_unit,
)
from siltstone.maintenance.pipeline.kind import StartRunner, UnitReport
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.runner import RunFailed, Task
from siltstone.metadata.commands import CommitKeyCompaction, NewObject, PrepareObjects
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import (
    CompactedObjectsNotFound,
    JobNotRunning,
    Refusal,
    StreamNotExist,
    TopicConfiguredOtherwise,
)
from siltstone.model.limits import HOUR_MS

log = logging.getLogger(__name__)

OVERTAKEN = (CompactedObjectsNotFound, StreamNotExist, TopicConfiguredOtherwise)
"""Refusals that say others have been there: what is left to do, the next plan tells."""

COMMIT_MARGIN_MS = 1 * HOUR_MS
"""Prepared ids outlive the last moment at which a commit is taken by this (GC23)."""


class _Bound(msgspec.Struct, frozen=True):
    """A plan with what was prepared for it."""

    plan: StreamPlan
    unit: KeyCompactionUnit
    latest_ms: int


class CarryingOut:
    """Of one job. ``has_remaining``: a map was full."""

    def __init__(
        self,
        context: MaintenanceContext,
        start_runner: StartRunner,
        job_id: int,
        settings: KeyCompactionSettings,
        task: Task,
        watch: Watch,
    ) -> None:
        self._context = context
        self._start_runner = start_runner
        self._job_id = job_id
        self._settings = settings
        self._task = task
        self._watch = watch
        self._bucket_id = context.buckets.default_bucket_id
        self.has_remaining = False

    def carry_out(self, wave: Sequence[StreamPlan]) -> Iterator[UnitReport]:
        """Raises as ``KindPlan.carry_out``."""
        self._watch.check()
        image = self._context.metadata.refresh()
        refuse_bucket_of_another_store(self._context, self._bucket_id)
        bound: list[_Bound] = []
        for plan in wave:
            stale = why_stale(image, plan)
            if stale is None:
                bound.append(self._bind(image, plan))
            else:
                yield not_needed(plan, stale)
        yield from self._carry_out_bound(bound)

    def _carry_out_bound(self, bound: Sequence[_Bound]) -> Iterator[UnitReport]:
        if not bound:
            return
        try:
            results = self._run(bound)
        except RunFailed as failure:
            if len(bound) == 1:
                yield failed(bound[0].plan, str(failure))
                return
            log.warning(
                "%d streams are compacted one by one, since together it failed: %s", len(bound), failure
            )
            for each in bound:
                yield from self.carry_out([each.plan])
            return
        for each, result in zip(bound, results, strict=True):
            yield self._settle(each, result)

    def _bind(self, image: MetadataImage, plan: StreamPlan) -> _Bound:
        """The outcome of the task follows from what is fixed here."""
        count = outputs_max(plan, self._settings.object_bytes)
        time_limit_ms = self._settings.allowance_ms + COMMIT_MARGIN_MS
        prepare = PrepareObjects(count, time_limit_ms, self._bucket_id, job_id=self._job_id)
        first_object_id = self._context.metadata.execute(prepare)
        now_ms = self._context.clock.now_ms()
        attempt = Attempt(
            start_offset=image.streams[plan.stream_id].start_offset,
            now_ms=now_ms,
            latest_ms=now_ms + self._settings.allowance_ms,
            first_object_id=first_object_id,
            object_count_max=count,
            output_bucket_id=self._bucket_id,
            bucket_urls=self._context.buckets.urls,
            hash_key=self._context.rng.getrandbits(128).to_bytes(16, "big"),
        )
        return _Bound(plan, unit_of(plan, attempt, self._settings), attempt.latest_ms)

    def _run(self, bound: Sequence[_Bound]) -> list[KeyCompactionResult]:
        told = self._watch.steps("compact keys", sum(each.plan.bytes_read for each in bound))
        units = [encode_unit(each.unit) for each in bound]
        return [decode_result(each) for each in self._start_runner().run(self._task, units, told)]

    def _settle(self, bound: _Bound, result: KeyCompactionResult) -> UnitReport:
        """What a task of a failure wrote is left to the sweep: an attempt that still runs could write it again."""
        if result.failure:
            return failed(bound.plan, result.failure)
        unit = bound.unit
        assert unit.dirty_offset <= result.cleaned_offset <= unit.bound, f"{result} of {unit.name}"
        try:
            commit(self._context, self._command(bound, result), self._context.buckets.store(self._bucket_id))
        except JobNotRunning:
            raise
        except OVERTAKEN as refusal:
            return not_needed(bound.plan, str(refusal))
        except Refusal as refusal:
            return failed(bound.plan, str(refusal))
        self.has_remaining |= result.map_was_full
        return done(bound.plan, result)

    def _command(self, bound: _Bound, result: KeyCompactionResult) -> CommitKeyCompaction:
        unit, plan = bound.unit, bound.plan
        new = () if result.is_unchanged else result.objects
        used = {each.object_id for each in new}
        prepared = range(unit.first_object_id, unit.first_object_id + unit.object_count_max)
        return CommitKeyCompaction(
            job_id=self._job_id,
            stream_id=plan.stream_id,
            topic_id=plan.topic_id,
            configs=plan.configs,
            compacted=() if result.is_unchanged else tuple(source.object_id for source in plan.sources),
            stream_objects=tuple(NewObject(each.object_id, each.size_bytes, (each.held,)) for each in new),
            cleaned_offset=result.cleaned_offset,
            latest_ms=bound.latest_ms,
            released=tuple(object_id for object_id in prepared if object_id not in used),
        )
