"""Carries out key compaction wave by wave: ids are prepared, tasks run, and each stream is committed by itself (rule 5:
done, refused or unknown).

When the runner fails, it does not say which stream is to blame. The streams of the wave are then compacted one by one,
under new ids, because tasks of the first run may still be writing.
"""

import logging
from collections.abc import Iterator, Sequence

import msgspec

from siltstone.foundation.quantity_words import count_words, counted, size_words
from siltstone.maintenance.committing import commit, prepare
from siltstone.maintenance.context import check_may_write
from siltstone.maintenance.key_compaction.planning.binding import Binding, input_of, outputs_max, why_stale
from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan
from siltstone.maintenance.key_compaction.task_input import (
    CODEC,
    KeyCompactionInput,
    KeyCompactionResult,
)
from siltstone.maintenance.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.maintenance.settings import KeyCompactionSettings
from siltstone.maintenance.tasks.runner import RunFailed, Task
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
"""Refusals which mean that the stream was changed meanwhile. The next plan shows what is left to do."""

COMMIT_MARGIN_MS = 1 * HOUR_MS
"""The time limit of prepared ids ends this long after the last moment at which the commit is accepted (GC23)."""


class _Bound(msgspec.Struct, frozen=True):
    """The plan of a stream, and its task input, made of the plan and the ids prepared for it."""

    plan: StreamPlan
    given: KeyCompactionInput
    latest_ms: int


class CarryingOut:
    """Carries out waves of streams in one attempt."""

    def __init__(self, attempt: Attempt, settings: KeyCompactionSettings, task: Task) -> None:
        self._attempt = attempt
        self._context = attempt.context
        self._watch = attempt.watch
        self._settings = settings
        self._task = task
        self._bucket_id = attempt.context.buckets.default_bucket_id

    def carry_out(self, wave: Sequence[StreamPlan]) -> Iterator[UnitReport]:
        """Carries out one wave, and yields a report for each stream. Raises as ``Kind.carry_out``."""
        self._watch.check()
        image = self._context.metadata.refresh()
        check_may_write(self._context, self._bucket_id)
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
            log.warning("the runner failed with %d streams, each is now tried alone: %s", len(bound), failure)
            for each in bound:
                yield from self.carry_out([each.plan])
            return
        for each, result in zip(bound, results, strict=True):
            yield self._settle(each, result)

    def _bind(self, image: MetadataImage, plan: StreamPlan) -> _Bound:
        """Prepares ids, and fixes everything on which the task's result depends."""
        count = outputs_max(plan, self._settings.object_bytes)
        time_limit_ms = self._settings.allowance_ms + COMMIT_MARGIN_MS
        command = PrepareObjects(count, time_limit_ms, self._bucket_id, job_id=self._attempt.job_id)
        first_object_id = prepare(self._context, command)
        now_ms = self._context.clock.now_ms()
        binding = Binding(
            start_offset=image.streams[plan.stream_id].start_offset,
            now_ms=now_ms,
            latest_ms=now_ms + self._settings.allowance_ms,
            first_object_id=first_object_id,
            object_count_max=count,
            output_bucket_id=self._bucket_id,
            bucket_urls=self._context.buckets.urls,
            hash_key=self._context.rng.getrandbits(128).to_bytes(16, "big"),
        )
        return _Bound(plan, input_of(plan, binding, self._settings), binding.latest_ms)

    def _run(self, bound: Sequence[_Bound]) -> list[KeyCompactionResult]:
        report_progress = self._watch.steps("compact keys", sum(each.plan.bytes_read for each in bound))
        inputs = [CODEC.encode_input(each.given) for each in bound]
        results = self._attempt.start_runner().run(self._task, inputs, report_progress)
        return [CODEC.decode_result(each) for each in results]

    def _settle(self, bound: _Bound, result: KeyCompactionResult) -> UnitReport:
        """Commits the result of a task. Outputs of a task that failed are left to the sweep, because a task that
        still runs could write them again after a deletion."""
        if result.failure is not None:
            return failed(bound.plan, result.failure.reason)
        given = bound.given
        assert given.dirty_offset <= result.cleaned_offset <= given.bound, f"{result} of {given.name}"
        try:
            commit(self._context, self._command(bound, result), self._context.buckets.store(self._bucket_id))
        except JobNotRunning:
            raise
        except OVERTAKEN as refusal:
            return not_needed(bound.plan, str(refusal))
        except Refusal as refusal:
            return failed(bound.plan, str(refusal))
        return done(bound.plan, result)

    def _command(self, bound: _Bound, result: KeyCompactionResult) -> CommitKeyCompaction:
        given, plan = bound.given, bound.plan
        new = () if result.is_unchanged else result.objects
        used = {each.object_id for each in new}
        prepared = range(given.first_object_id, given.first_object_id + given.object_count_max)
        return CommitKeyCompaction(
            job_id=self._attempt.job_id,
            stream_id=plan.stream_id,
            topic_id=plan.topic_id,
            configs=plan.configs,
            compacted=() if result.is_unchanged else tuple(source.object_id for source in plan.sources),
            stream_objects=tuple(NewObject(each.object_id, each.size_bytes, (each.held,)) for each in new),
            cleaned_offset=result.cleaned_offset,
            latest_ms=bound.latest_ms,
            released=tuple(object_id for object_id in prepared if object_id not in used),
        )


def done(plan: StreamPlan, result: KeyCompactionResult) -> UnitReport:
    is_unchanged = result.is_unchanged
    written = sum(each.size_bytes for each in result.objects)
    return UnitReport(
        name=plan.name,
        outcome=Outcome.DONE,
        text=_text(plan, result),
        bytes_read=result.bytes_read,
        bytes_written=result.bytes_written,
        bytes_freed=0 if is_unchanged else max(0, plan.source_bytes - written),
        objects_before=len(plan.sources),
        objects_after=len(plan.sources) if is_unchanged else len(result.objects),
        records_removed=result.records_read - result.records_kept,
        peak_memory_bytes=result.peak_memory_bytes,
        has_remaining=result.map_was_full,
    )


def not_needed(plan: StreamPlan, reason: str) -> UnitReport:
    return UnitReport(name=plan.name, outcome=Outcome.NOT_NEEDED, text=reason)


def failed(plan: StreamPlan, reason: str) -> UnitReport:
    return UnitReport(name=plan.name, outcome=Outcome.FAILED, text=reason)


def _text(plan: StreamPlan, result: KeyCompactionResult) -> str:
    facts = [
        f"compacted up to offset {count_words(result.cleaned_offset)}",
        f"{count_words(result.records_kept)} of {counted(result.records_read, 'record')} kept",
        "nothing could be removed" if result.is_unchanged else _sizes(plan, result),
        f"{counted(result.tombstones_kept, 'tombstone')} kept" if result.tombstones_kept else "",
        f"{counted(result.null_keys, 'record')} without key removed" if result.null_keys else "",
        f"{counted(result.batches_grown, 'batch', 'batches')} larger after compressing again"
        if result.batches_grown
        else "",
        f"the key map was full with {counted(result.keys_mapped, 'key')}: the next run continues"
        if result.map_was_full
        else "",
    ]
    return "; ".join(filter(None, facts))


def _sizes(plan: StreamPlan, result: KeyCompactionResult) -> str:
    written = sum(each.size_bytes for each in result.objects)
    return f"{size_words(plan.source_bytes)} became {size_words(written)}"
