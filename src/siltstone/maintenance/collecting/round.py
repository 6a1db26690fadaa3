"""One commit's worth of rewriting: candidates whose live blocks move to new objects, by the planner and the round of
stream set object compaction.

An object whose blocks turn out to be damaged must not fail the others: the round is halved until it is alone. It is
set aside by its own name, and is a unit by itself from then on.
"""

from collections.abc import Iterator, Sequence

import msgspec

from siltstone.maintenance.compaction_round import CompactionRound, RoundOutcome
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.pipeline.round_telling import telling
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.planning.plan import CompactionPlan
from siltstone.maintenance.planning.planner import plan_compaction
from siltstone.maintenance.planning.retention_class import Classes
from siltstone.maintenance.planning.sources import Source
from siltstone.maintenance.runner import RunFailed, Runner
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.stream_classes import stream_classes
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.errors import CorruptData, InvalidRequest

_OF_ONE_OBJECT = ("DamagedBlock", "ObjectNotFound", "ObjectTruncated")
"""What a task's failure is named by when one of its sources is to blame, and not the store or the runner."""


class Rewritten(msgspec.Struct, frozen=True):
    plan: CompactionPlan
    outcome: RoundOutcome

    @property
    def bytes_before(self) -> int:
        return sum(source.metadata.size_bytes for source in self.plan.compacted_sources)


class Failed(msgspec.Struct, frozen=True):
    sources: tuple[Source, ...]
    reason: str


def plan_of_sources(
    sources: Sequence[Source],
    image: MetadataImage,
    classes: Classes,
    settings: CompactionSettings,
    now_ms: int,
) -> CompactionPlan:
    """Of those that are still there. Raises OverlappingSources, MemoryLimitTooSmall."""
    return plan_compaction(
        [source for source in sources if committed_object(image, source.metadata.object_id) is not None],
        image.streams,
        settings,
        now_ms,
        classes=classes,
        is_every_source_wanted=True,
    )


def rewrite(
    context: MaintenanceContext,
    runner: Runner,
    sources: Sequence[Source],
    settings: CompactionSettings,
    job_id: int,
    watch: Watch,
) -> Iterator[Rewritten | Failed]:
    """Planned anew from the image as it is now; nothing when all sources are gone. Raises Stale when others were
    faster, and what is nobody's fault: Cancelled, JobNotRunning, Unavailable."""
    watch.check()
    image = context.metadata.refresh()
    try:
        plan = plan_of_sources(sources, image, stream_classes(image), settings, context.clock.now_ms())
        if plan.is_empty:
            return
        told = telling(watch, plan.live_bytes)
        yield Rewritten(plan, CompactionRound(context, runner, plan, job_id, told).carry_out())
    except (RunFailed, CorruptData, InvalidRequest) as failure:
        watch.check()  # what fails after somebody cancelled is no fault of the objects
        if len(sources) == 1 or not _is_of_one_object(failure):
            yield Failed(tuple(sources), str(failure))
            return
        half = len(sources) // 2
        for part in (sources[:half], sources[half:]):
            yield from rewrite(context, runner, part, settings, job_id, watch)


def _is_of_one_object(failure: Exception) -> bool:
    return isinstance(failure, CorruptData) or any(name in str(failure) for name in _OF_ONE_OBJECT)
