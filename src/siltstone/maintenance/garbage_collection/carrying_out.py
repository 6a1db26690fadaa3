"""Carries out a collection: rounds of stream set objects one by one, stream objects in waves, in the plan's order.

A round is rewritten by the planner and the carrying out of stream set object compaction. A source that cannot be read
must not fail the others: the tasks name it, and the round is planned again without it. It is set aside by its own name,
and is a unit by itself from then on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport, object_name
from siltstone.foundation.portions import portions
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.garbage_collection.planning import Round
from siltstone.maintenance.stream_object_compaction.carrying_out import Wave
from siltstone.maintenance.stream_object_compaction.kind import GROUPS_PER_WAVE
from siltstone.maintenance.stream_object_compaction.planning import MergeGroup
from siltstone.maintenance.stream_set_compaction.carrying_out import (
    CompactionRound,
    RoundOutcome,
    SourcesUnusable,
)
from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.maintenance.stream_set_compaction.planner import plan_compaction
from siltstone.maintenance.stream_set_compaction.retention_class import Classes, stream_classes
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.refusals import CoverageNotMatched
from siltstone.model.errors import CorruptData, InvalidRequest, Stale
from siltstone.offline.blocks.columns import Source
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import CompactionSettings, StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import RunFailed, TaskFailure

UnitWork = Round | MergeGroup


class CollectionWork(msgspec.Struct, frozen=True):
    """The values that a collection needs to carry its plan out. ``units`` and ``copied_bytes`` have the names of units
    as keys."""

    units: Mapping[str, UnitWork]
    copied_bytes: Mapping[str, int]
    compaction: CompactionSettings
    copying: StreamObjectCompactionSettings
    round_bytes: int


def plan_of_sources(
    sources: Sequence[Source],
    image: MetadataImage,
    classes: Classes,
    settings: CompactionSettings,
    now_ms: int,
) -> CompactionPlan:
    """Plans a round for those of the sources that are still committed. Raises OverlappingSources,
    MemoryLimitTooSmall."""
    return plan_compaction(
        [source for source in sources if committed_object(image, source.metadata.object_id) is not None],
        image.streams,
        settings,
        now_ms,
        classes=classes,
        is_every_source_wanted=True,
    )


class Rewritten(msgspec.Struct, frozen=True):
    """A round that was committed."""

    plan: CompactionPlan
    outcome: RoundOutcome

    @property
    def bytes_before(self) -> int:
        return sum(source.metadata.size_bytes for source in self.plan.compacted_sources)


Failures = dict[int | None, TaskFailure]
"""The failures of tasks to read a source, by the id of the source object."""


def rewrite(
    attempt: Attempt, sources: Sequence[Source], settings: CompactionSettings, failures: Failures
) -> Rewritten | None:
    """Plans the round from the newest image and carries it out. When tasks could not read some sources, they are added
    to ``failures``, unless they were destroyed meanwhile, and the round is planned again without them. Returns None
    when no source is left.

    Raises Stale when other drivers have replaced the objects; RunFailed, CorruptData and InvalidRequest when the round
    as a whole cannot be done; Cancelled, JobNotRunning, and Unavailable.
    """
    context: MaintenanceContext = attempt.context
    while True:
        attempt.watch.check()
        readable = [source for source in sources if source.metadata.object_id not in failures]
        image = context.metadata.refresh()
        now_ms = context.now_ms()
        plan = plan_of_sources(readable, image, stream_classes(image), settings, now_ms)
        if plan.is_empty:
            return None
        try:
            return Rewritten(plan, CompactionRound(attempt, plan).carry_out())
        except SourcesUnusable as unusable:
            newest = context.metadata.refresh()
            failures |= {each.object_id: each for each in unusable.still_committed(newest)}


class CollectionRun:
    """One attempt of a collection."""

    def __init__(self, work: CollectionWork, attempt: Attempt) -> None:
        self._work = work
        self._attempt = attempt

    def carry_out(self, names: Sequence[str]) -> Iterator[UnitReport]:
        for together in self._together(names):
            if not self._attempt.watch.may_begin():
                return
            groups = [work for _, work in together if isinstance(work, MergeGroup)]
            if groups:
                yield from Wave(self._attempt, self._work.copying).carry_out(groups)
            else:
                for name, work in together:
                    assert not isinstance(work, MergeGroup)
                    yield from self._rewritten(name, work)

    def _together(self, names: Sequence[str]) -> Iterator[Sequence[tuple[str, UnitWork]]]:
        """Yields the units in order, in portions that are carried out together: each round alone, consecutive merge
        groups in waves."""
        work = [(name, self._work.units[name]) for name in names]
        for is_group, alike in groupby(work, key=lambda each: isinstance(each[1], MergeGroup)):
            if is_group:
                yield from self._waves(alike)
            else:
                yield from ([each] for each in alike)

    def _waves(self, groups: Iterable[tuple[str, UnitWork]]) -> Iterator[Sequence[tuple[str, UnitWork]]]:
        copied = self._work.copied_bytes
        return portions(groups, GROUPS_PER_WAVE, lambda each: (copied[each[0]],), (self._work.round_bytes,))

    def _rewritten(self, name: str, members: Round) -> Iterator[UnitReport]:
        """Yields the report of the round, then one FAILED report for each object that had to be left out. Such an
        object is set aside under its own name, so the next plan leaves it out of rounds."""
        attempt = self._attempt
        failures: Failures = {}
        try:
            done = rewrite(attempt, [each.source for each in members], self._work.compaction, failures)
        except CoverageNotMatched as refused:
            # Not NOT_NEEDED: the next plan may be the same, and refused again.
            yield UnitReport(name=name, outcome=Outcome.FAILED, text=str(refused))
        except Stale as overtaken:
            yield UnitReport(name=name, outcome=Outcome.NOT_NEEDED, text=str(overtaken))
        except (RunFailed, CorruptData, InvalidRequest) as failure:
            attempt.watch.check()  # a failure after a cancellation is not the fault of the objects
            yield UnitReport(name=name, outcome=Outcome.FAILED, text=str(failure))
        else:
            if done is None and failures:
                text = "; ".join(failure.reason for failure in failures.values())
                yield UnitReport(name=name, outcome=Outcome.FAILED, text=text)
                return
            yield _report(name, done)
        yield from map(_failure, failures.values())


def _report(name: str, done: Rewritten | None) -> UnitReport:
    if done is None:
        return UnitReport(
            name=name, outcome=Outcome.NOT_NEEDED, text="other drivers have compacted these objects"
        )
    results = done.outcome.results
    before, after = len(done.plan.compacted_sources), done.plan.object_count
    text = f"{counted(before, 'stream set object')} became {after}, {size_words(done.outcome.bytes_after)}"
    return UnitReport(
        name=name,
        outcome=Outcome.DONE,
        text=text,
        bytes_read=sum(result.bytes_read for result in results),
        bytes_written=sum(result.bytes_written for result in results),
        bytes_freed=done.bytes_before - done.outcome.bytes_after,
        objects_before=before,
        objects_after=after,
        peak_memory_bytes=max((result.peak_memory_bytes for result in results), default=0),
    )


def _failure(failure: TaskFailure) -> UnitReport:
    assert failure.object_id is not None
    return UnitReport(name=object_name(failure.object_id), outcome=Outcome.FAILED, text=failure.reason)
