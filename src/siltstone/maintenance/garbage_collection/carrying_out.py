"""Carries out a collection: rounds of stream set objects one by one, stream objects in waves, in the plan's order.

A round is rewritten by the planner and the carrying out of stream set object compaction. A source that cannot be read
must not fail the others: the tasks name it, and the round is planned again without it. It is set aside by its own name,
and is a unit by itself from then on.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from siltstone.carrying.engine import Engine
from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.foundation.portions import portions
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.garbage_collection.planning import Round
from siltstone.maintenance.stream_object_compaction.carrying_out import merges
from siltstone.maintenance.stream_object_compaction.kind import GROUPS_PER_WAVE
from siltstone.maintenance.stream_object_compaction.planning import MergeGroup
from siltstone.maintenance.stream_set_compaction.carrying_out import (
    CompactionRound,
    PlannedRound,
    SourcesUnusable,
    failed_object,
    rounds,
)
from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.maintenance.stream_set_compaction.planner import plan_compaction
from siltstone.maintenance.stream_set_compaction.retention_class import Classes, stream_classes
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.errors import CorruptData, InvalidRequest
from siltstone.offline.blocks.columns import Source
from siltstone.offline.settings import CompactionSettings, StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import TaskFailure

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
                yield from Engine(self._attempt, merges(self._attempt, self._work.copying)).carry_out(groups)
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
        """Plans the round from the newest image and carries it out. When tasks could not read some sources, the round
        is planned again without them. Yields the report of the round, then one FAILED report for each object that had
        to be left out: it is set aside under its own name, so the next plan leaves it out of rounds."""
        context = self._attempt.context
        failures: dict[int | None, TaskFailure] = {}
        unusable: list[TaskFailure] = []

        def note(work: CompactionRound) -> Sequence[UnitReport]:
            if isinstance(work.trouble, SourcesUnusable):
                unusable.extend(work.trouble.still_committed(context.metadata.refresh()))
            return ()

        while True:
            image = context.metadata.refresh()
            left = [each.source for each in members if each.source.metadata.object_id not in failures]
            try:
                plan = plan_of_sources(
                    left, image, stream_classes(image), self._work.compaction, context.now_ms()
                )
            except (CorruptData, InvalidRequest) as refused:
                reports = [UnitReport(name=name, outcome=Outcome.FAILED, text=str(refused))]
                break
            if plan.is_empty:
                yield _none_left(name, failures.values())
                return
            engine = Engine(self._attempt, rounds(self._attempt, _report, note))
            reports = [*engine.carry_out([PlannedRound(name, plan)])]
            if not unusable:
                break
            failures |= {each.object_id: each for each in unusable}
            unusable.clear()
        yield from reports
        yield from map(failed_object, failures.values())


def _none_left(name: str, failures: Collection[TaskFailure]) -> UnitReport:
    if not failures:
        text = "other drivers have compacted these objects"
        return UnitReport(name=name, outcome=Outcome.NOT_NEEDED, text=text)
    text = "; ".join(failure.reason for failure in failures)
    return UnitReport(name=name, outcome=Outcome.FAILED, text=text)


def _report(work: CompactionRound) -> UnitReport:
    results, plan = work.results, work.plan
    before, after = len(plan.compacted_sources), plan.object_count
    size_before = sum(source.metadata.size_bytes for source in plan.compacted_sources)
    return UnitReport(
        name=work.name,
        outcome=Outcome.DONE,
        text=f"{counted(before, 'stream set object')} became {after}, {size_words(work.bytes_after)}",
        bytes_read=sum(result.bytes_read for result in results),
        bytes_written=sum(result.bytes_written for result in results),
        bytes_freed=size_before - work.bytes_after,
        objects_before=before,
        objects_after=after,
        peak_memory_bytes=max((result.peak_memory_bytes for result in results), default=0),
    )
