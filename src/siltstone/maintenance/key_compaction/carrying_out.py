"""Carries out key compaction wave by wave: ids are prepared, tasks run, and each stream is committed by itself as soon
as its task has ended (rule 5: done, refused or unknown).

A wave is the first *round* of its streams. Every stream of a round has an allowance of its own, which begins when its
task can begin. A stream whose task ran late has another try in a later round, with a smaller part or with more time. A
stream whose task the runner could not run has another try alone, because a task that takes its executor down fails the
tasks beside it, too. Each try has new ids, because tasks of the try before may still be writing.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain

import msgspec

from siltstone.carrying.committing import commit, prepare, with_copies
from siltstone.carrying.engine import BucketVerdicts
from siltstone.carrying.outcomes import settled
from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.foundation.quantity_words import count_words, counted, seconds_words, size_words
from siltstone.maintenance.key_compaction.planning.allowances import (
    LONGEST,
    Allowance,
    Allowances,
    part_of,
)
from siltstone.maintenance.key_compaction.planning.binding import Binding, input_of, outputs_max, why_stale
from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan
from siltstone.maintenance.key_compaction.task_input import (
    CODEC,
    KeyCompactionInput,
    KeyCompactionResult,
)
from siltstone.metadata.commands import CommitKeyCompaction, NewObject, PrepareObjects
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import (
    CompactedObjectsNotFound,
    CompactionTooLate,
    StreamNotExist,
    TopicConfiguredOtherwise,
)
from siltstone.model.limits import HOUR_MS
from siltstone.offline.output_buckets import OutputBuckets
from siltstone.offline.settings import KeyCompactionSettings
from siltstone.offline.tasks.runner import RunFailed, Task

log = logging.getLogger(__name__)

OVERTAKEN = (CompactedObjectsNotFound, StreamNotExist, TopicConfiguredOtherwise)
"""Refusals which mean that the stream was changed meanwhile. The next plan shows what is left to do."""

COMMIT_MARGIN_MS = 1 * HOUR_MS
"""The time limit of prepared ids ends this long after the last moment at which the commit is accepted (GC23)."""


TOO_SLOW = (
    "a pass over it takes longer than {took}, which is {longest} times maintenance.key_compaction.allowance_ms: nothing"
    " was changed; set maintenance.key_compaction.allowance_ms higher"
)


class _Bound(msgspec.Struct, frozen=True):
    """One pass over a stream: its whole plan, the part of it that this pass is about, and the task input, made of the
    part and the ids prepared for it."""

    whole: StreamPlan
    plan: StreamPlan
    given: KeyCompactionInput
    allowance: Allowance
    latest_ms: int
    began_ms: float


class _Round:
    """The streams whose tasks run together. ``stale`` has the reports of the streams that were not started. ``late``
    and ``unlucky`` have to be tried again: together, because they ran late, or each alone, because the runner failed
    and may not have failed because of them."""

    def __init__(self, plans: Sequence[StreamPlan]) -> None:
        self.plans = plans
        self.bound: list[_Bound] = []
        self.stale: deque[UnitReport] = deque()
        self.late: list[StreamPlan] = []
        self.unlucky: list[StreamPlan] = []

    def stale_reports(self) -> Iterator[UnitReport]:
        while self.stale:
            yield self.stale.popleft()


class KeyCompactionRun:
    """Carries out waves of streams in one attempt."""

    def __init__(
        self, attempt: Attempt, settings: KeyCompactionSettings, task: Task, allowances: Allowances
    ) -> None:
        self._attempt = attempt
        self._context = attempt.context
        self._watch = attempt.watch
        self._settings = settings
        self._task = task
        self._allowances = allowances
        self._outputs = OutputBuckets(attempt.context)

    def carry_out(self, waves: Iterable[Sequence[StreamPlan]]) -> Iterator[UnitReport]:
        """Yields a report for each stream as soon as it is committed or has failed. Streams that have to be tried again
        come after all waves. Raises as ``Kind.carry_out``."""
        rounds = deque(_Round(wave) for wave in waves)
        while rounds:
            current = rounds.popleft()
            yield from self._carry_out(current)
            if current.late:
                rounds.append(_Round(current.late))
            rounds.extend(_Round([plan]) for plan in current.unlucky)

    def _carry_out(self, current: _Round) -> Iterator[UnitReport]:
        inputs = self._inputs(current)
        first = next(inputs, None)
        if first is not None:
            report_progress = self._watch.steps(
                "compact keys", sum(plan.bytes_read for plan in current.plans)
            )
            runner = self._attempt.start_runner()
            ended = runner.run_each(
                self._task,
                chain([first], inputs),
                self._watch.check,
                lambda at: self._attempt.label([current.bound[at].plan.name]),
            )
            with closing(ended):
                for number, (at, result) in enumerate(ended, start=1):
                    report_progress(number, len(current.plans))
                    yield from current.stale_reports()
                    yield from self._settle(current, current.bound[at], result)
        yield from current.stale_reports()

    def _inputs(self, current: _Round) -> Iterator[bytes]:
        """Yields the task inputs, each made only when its task begins, so that its allowance begins then."""
        self._watch.check()
        troubles = BucketVerdicts(self._context)
        for plan in current.plans:
            if not self._watch.may_begin():
                return
            image = self._context.metadata.refresh()
            if stale := why_stale(image, plan):
                current.stale.append(not_needed(plan, stale))
            elif trouble := troubles.why_not_into(partial(self._buckets, plan)):
                current.stale.append(failed(plan, trouble))
            else:
                current.bound.append(self._bind(image, plan))
                yield CODEC.encode_input(current.bound[-1].given)

    def _buckets(self, plan: StreamPlan) -> set[int]:
        return {self._outputs.of_stream(plan.stream_id), *self._outputs.of_copies()}

    def _bind(self, image: MetadataImage, whole: StreamPlan) -> _Bound:
        """Prepares ids, and fixes everything on which the task's result depends."""
        allowance = self._allowances.of(whole.stream_id)
        start_offset = image.streams[whole.stream_id].start_offset
        plan = part_of(whole, start_offset, allowance.offsets_max)
        count = outputs_max(plan, self._settings.object_bytes)
        time_limit_ms = allowance.allowance_ms + COMMIT_MARGIN_MS
        began_ms = self._context.clock.monotonic_ms()
        now_ms = self._context.now_ms()
        bucket_id = self._outputs.of_stream(whole.stream_id)
        command = PrepareObjects(count, time_limit_ms, bucket_id, job_id=self._attempt.job_id)
        first_object_id = prepare(self._context, command, self._outputs)
        binding = Binding(
            start_offset=start_offset,
            now_ms=now_ms,
            latest_ms=now_ms + allowance.allowance_ms,
            pass_ms_max=allowance.pass_ms_max,
            first_object_id=first_object_id,
            object_count_max=count,
            output_bucket_id=bucket_id,
            bucket_urls=self._context.buckets.urls,
            hash_key=self._context.rng.getrandbits(128).to_bytes(16, "big"),
        )
        given = input_of(plan, binding, self._settings)
        return _Bound(whole, plan, given, allowance, binding.latest_ms, began_ms)

    def _settle(self, current: _Round, bound: _Bound, result: bytes | RunFailed) -> Iterator[UnitReport]:
        if not isinstance(result, RunFailed):
            yield from self._settle_result(current, bound, CODEC.decode_result(result))
        elif len(current.plans) == 1:
            yield failed(bound.plan, str(result))
        else:
            log.warning("the task of %s failed, it is tried once more by itself: %s", bound.plan.name, result)
            current.unlucky.append(bound.whole)

    def _settle_result(
        self, current: _Round, bound: _Bound, result: KeyCompactionResult
    ) -> Iterator[UnitReport]:
        """Commits the result of a task. Outputs of a task that failed or ran late are left to the sweep, because a task
        that still runs could write them again after a deletion."""
        if result.failure is not None:
            yield failed(bound.plan, result.failure.reason)
            return
        if result.ran_late:
            yield from self._ran_late(current, bound, result.mapped_offset)
            return
        given = bound.given
        assert given.dirty_offset <= result.cleaned_offset <= given.bound, f"{result} of {given.name}"
        is_late = False

        def put() -> None:
            nonlocal is_late
            try:
                commit(self._context, self._command(bound, result))
            except CompactionTooLate:
                is_late = True
                raise

        report = settled(bound.plan.name, put, overtaken_by=OVERTAKEN)
        if is_late:
            yield from self._ran_late(current, bound, given.bound)
        elif report is not None:
            yield report
        else:
            took_ms = self._context.clock.monotonic_ms() - bound.began_ms
            self._allowances.was_in_time(bound.plan.stream_id, bound.plan, bound.whole, took_ms)
            yield done(bound.plan, result, is_part=bound.plan.bound < bound.whole.bound)

    def _ran_late(self, current: _Round, bound: _Bound, mapped_offset: int) -> Iterator[UnitReport]:
        took = seconds_words(bound.allowance.allowance_ms / 1000)
        if self._allowances.ran_late(bound.plan.stream_id, bound.plan, mapped_offset):
            log.warning("a pass over %s took longer than %s, another one is tried", bound.plan.name, took)
            current.late.append(bound.whole)
        else:
            yield failed(bound.plan, TOO_SLOW.format(took=took, longest=LONGEST))

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
            stream_objects=with_copies(
                self._attempt, [NewObject(each.object_id, each.size_bytes, (each.held,)) for each in new]
            ),
            cleaned_offset=result.cleaned_offset,
            latest_ms=bound.latest_ms,
            released=tuple(object_id for object_id in prepared if object_id not in used),
        )


def done(plan: StreamPlan, result: KeyCompactionResult, *, is_part: bool = False) -> UnitReport:
    """Makes the report of a stream that was committed. ``is_part`` says that the rest of the stream waits for the next
    pass, because an earlier pass ran late."""
    is_unchanged = result.is_unchanged
    written = sum(each.size_bytes for each in result.objects)
    return UnitReport(
        name=plan.name,
        outcome=Outcome.DONE,
        text=_text(plan, result, is_part=is_part),
        bytes_read=result.bytes_read,
        bytes_written=result.bytes_written,
        bytes_freed=0 if is_unchanged else max(0, plan.source_bytes - written),
        objects_before=len(plan.sources),
        objects_after=len(plan.sources) if is_unchanged else len(result.objects),
        records_removed=result.records_read - result.records_kept,
        peak_memory_bytes=result.peak_memory_bytes,
        has_remaining=result.map_was_full or is_part,
    )


def not_needed(plan: StreamPlan, reason: str) -> UnitReport:
    return UnitReport(name=plan.name, outcome=Outcome.NOT_NEEDED, text=reason)


def failed(plan: StreamPlan, reason: str) -> UnitReport:
    return UnitReport(name=plan.name, outcome=Outcome.FAILED, text=reason)


def _text(plan: StreamPlan, result: KeyCompactionResult, *, is_part: bool) -> str:
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
        "a longer pass ran late: the next run continues" if is_part and not result.map_was_full else "",
    ]
    return "; ".join(filter(None, facts))


def _sizes(plan: StreamPlan, result: KeyCompactionResult) -> str:
    written = sum(each.size_bytes for each in result.objects)
    return f"{size_words(plan.source_bytes)} became {size_words(written)}"
