"""Carrying out a collection: rounds of stream set objects one by one, stream objects in waves, in the plan's order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec
import numpy as np

from siltstone.foundation.portions import portions
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.collecting.choosing import Round
from siltstone.maintenance.collecting.looking import object_name
from siltstone.maintenance.collecting.round import Failed, Rewritten, rewrite
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.pipeline.kind import Outcome, PlannedUnit, StartRunner, UnitReport, Unplanned
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.planning.columns import ENTRY
from siltstone.maintenance.planning.stream_objects.groups import Group
from siltstone.maintenance.planning.stream_objects.settings import StreamObjectCompactionSettings
from siltstone.maintenance.rewriting import unit as rewriting_unit
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.stream_object_compaction import unit as copying_unit
from siltstone.maintenance.stream_object_compaction.kind import GROUPS_PER_WAVE
from siltstone.maintenance.stream_object_compaction.wave import Wave
from siltstone.maintenance.throttle import Throttle, ThrottledRunner
from siltstone.metadata.refusals import JobNotRunning
from siltstone.model.errors import Stale

Work = Round | Group


class CollectionPlan(msgspec.Struct, frozen=True):
    """``work``: by the names of the units."""

    kind: str
    work: Mapping[str, Work]
    units: Sequence[PlannedUnit]
    unplanned: Sequence[Unplanned]
    has_remaining: bool
    compaction: CompactionSettings
    copying: StreamObjectCompactionSettings
    round_bytes: int
    throttle: Throttle

    def carry_out(
        self,
        context: MaintenanceContext,
        start_runner: StartRunner,
        job_id: int,
        names: Sequence[str],
        watch: Watch,
    ) -> Iterator[UnitReport]:
        carrying = _Carrying(self, context, start_runner, job_id, watch)
        for number, together in enumerate(self._together(names)):
            if number and watch.is_over:
                return
            yield from carrying.carry_out(together)

    def _together(self, names: Sequence[str]) -> Iterator[Sequence[tuple[str, Work]]]:
        """A round by itself; stream objects that follow each other, as far as one wave takes them."""
        work = [(name, self.work[name]) for name in names]
        for is_group, alike in groupby(work, key=lambda each: isinstance(each[1], Group)):
            if is_group:
                yield from self._waves(alike)
            else:
                yield from ([each] for each in alike)

    def _waves(self, groups: Iterable[tuple[str, Work]]) -> Iterator[Sequence[tuple[str, Work]]]:
        sizes = {unit.name: unit.bytes_written for unit in self.units}
        return portions(groups, GROUPS_PER_WAVE, lambda each: (sizes[each[0]],), (self.round_bytes,))


class _Carrying:
    def __init__(
        self,
        plan: CollectionPlan,
        context: MaintenanceContext,
        start_runner: StartRunner,
        job_id: int,
        watch: Watch,
    ) -> None:
        self._plan = plan
        self._context = context
        self._start_runner = start_runner
        self._job_id = job_id
        self._watch = watch

    def carry_out(self, together: Sequence[tuple[str, Work]]) -> Iterator[UnitReport]:
        groups = [work for _, work in together if isinstance(work, Group)]
        if groups:
            wave = Wave(self._context, self._copier, self._plan.copying, self._job_id, self._watch)
            yield from wave.carry_out(groups)
        else:
            for name, work in together:
                assert not isinstance(work, Group)
                yield from self._rewritten(name, work)

    def _copier(self) -> ThrottledRunner:
        return ThrottledRunner(self._start_runner(), self._plan.throttle, bytes_of_copy, self._watch.check)

    def _rewritten(self, name: str, members: Round) -> Iterator[UnitReport]:
        """The round's report; and, when it is done without some objects, why not, each by its own name: so it is set
        aside, and the round's name is another round's the next time."""
        runner = ThrottledRunner(
            self._start_runner(), self._plan.throttle, bytes_of_rewrite, self._watch.check
        )
        sources = [each.source for each in members]
        done: list[Rewritten] = []
        failed: list[Failed] = []
        overtaken = "others have compacted them"
        try:
            for each in rewrite(
                self._context, runner, sources, self._plan.compaction, self._job_id, self._watch
            ):
                if isinstance(each, Rewritten):
                    done.append(each)
                else:
                    failed.append(each)
        except JobNotRunning:
            raise
        except Stale as stale:
            overtaken = str(stale)
        if done:
            yield _report(name, done)
            yield from (report for each in failed for report in _failures(each))
        elif failed:
            yield UnitReport(name=name, outcome=Outcome.FAILED, text=failed[0].reason)
        else:
            yield UnitReport(name=name, outcome=Outcome.NOT_NEEDED, text=overtaken)


def bytes_of_rewrite(unit: bytes) -> int:
    return rewriting_unit.decode_unit(unit).iteration.bytes_read


def bytes_of_copy(unit: bytes) -> int:
    given = copying_unit.decode_unit(unit)
    read = np.frombuffer(given.blocks, dtype=ENTRY)["size_bytes"].sum()
    return sum(part.size_bytes for part in given.copied) + int(read)


def _report(name: str, done: Sequence[Rewritten]) -> UnitReport:
    results = [result for each in done for result in each.outcome.results]
    before = sum(len(each.plan.compacted_sources) for each in done)
    after = sum(each.plan.object_count for each in done)
    bytes_after = sum(each.outcome.bytes_after for each in done)
    text = f"{counted(before, 'stream set object')} became {after}, {size_words(bytes_after)}"
    return UnitReport(
        name=name,
        outcome=Outcome.DONE,
        text=text,
        bytes_read=sum(result.bytes_read for result in results),
        bytes_written=sum(result.bytes_written for result in results),
        bytes_freed=sum(each.bytes_before for each in done) - bytes_after,
        objects_before=before,
        objects_after=after,
        peak_memory_bytes=max((result.peak_memory_bytes for result in results), default=0),
    )


def _failures(failed: Failed) -> Iterator[UnitReport]:
    for source in failed.sources:
        name = object_name(source.metadata.object_id)
        yield UnitReport(name=name, outcome=Outcome.FAILED, text=failed.reason)
