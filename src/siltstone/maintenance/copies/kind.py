"""Copies as a kind of maintenance: a unit is one object that lacks copies, or the daily listing of one bucket."""

from collections.abc import Iterator, Sequence

from siltstone.carrying.engine import Engine
from siltstone.carrying.pipeline.kind import Attempt, Outcome, Plan, PlannedUnit, Scope, UnitReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.portions import portions
from siltstone.foundation.quantity_words import counted
from siltstone.maintenance.copies.carrying_out import replications
from siltstone.maintenance.copies.listing import withdraw_missing
from siltstone.maintenance.copies.planning import LISTED_PREFIX, ObjectShort, listings_due, objects_short
from siltstone.maintenance.garbage_collection.planning import in_scope, names_of_topics
from siltstone.metadata.commands import PutKey
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import GIB
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import StreamObjectCompactionSettings

JOB_KIND = "copies"

OBJECTS_MAX = 10_000
"""A plan has at most this many objects; the next plan has the others."""

WAVE_OBJECTS_MAX = 100
WAVE_BYTES_MAX = 4 * GIB
"""Waves are this small so that the copies are added soon."""


class CopyRepair:
    """Plans and carries out copies, with the lease of stream object compaction."""

    name = JOB_KIND

    def __init__(
        self, settings: StreamObjectCompactionSettings, *, wave_objects_max: int = WAVE_OBJECTS_MAX
    ) -> None:
        self._settings = settings
        self._wave_objects_max = wave_objects_max

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        watch.check()
        image = context.metadata.refresh()
        topics = names_of_topics(image, scope)
        short = [each for each in objects_short(image) if in_scope(each.metadata, topics, scope)]
        listings = (
            [*listings_due(image, context.now_ms(), is_forced=scope.is_forced)]
            if scope.topics is None
            else []
        )
        work: dict[str, ObjectShort | int] = {_listing_name(each): each for each in listings}
        work |= {each.name: each for each in short[:OBJECTS_MAX]}
        return Plan(
            kind=JOB_KIND,
            units=[_unit(name, each) for name, each in work.items()],
            has_remaining=len(short) > OBJECTS_MAX,
            work=work,
        )

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        """Lists the buckets, then carries the copies out wave by wave. Nothing is started after the time limit of the
        watch."""
        wanted: list[ObjectShort] = []
        for name in names:
            work = plan.work[name]
            if isinstance(work, ObjectShort):
                wanted.append(work)
            elif attempt.watch.may_begin():
                yield _listed(attempt.context, name, work)
        engine = Engine(attempt, replications(attempt))
        for wave in portions(
            wanted,
            self._wave_objects_max,
            lambda each: (each.metadata.size_bytes * len(each.targets),),
            (WAVE_BYTES_MAX,),
        ):
            if not attempt.watch.may_begin():
                return
            yield from engine.carry_out(wave)


def _listing_name(bucket_id: int) -> str:
    return f"listing of bucket {bucket_id}"


def _listed(context: MaintenanceContext, name: str, bucket_id: int) -> UnitReport:
    try:
        withdrawn = withdraw_missing(context, bucket_id)
        now_ms = context.now_ms()
        context.metadata.execute(PutKey(f"{LISTED_PREFIX}{bucket_id}", str(now_ms).encode()))
    except SiltstoneError as trouble:
        return UnitReport(name=name, outcome=Outcome.FAILED, text=str(trouble))
    text = (
        f"{counted(len(withdrawn), 'copy', 'copies')} missing or of the wrong size"
        if withdrawn
        else "all copies are there, with their sizes"
    )
    return UnitReport(name=name, outcome=Outcome.DONE, text=text, has_remaining=bool(withdrawn))


def _unit(name: str, work: ObjectShort | int) -> PlannedUnit:
    if isinstance(work, int):
        return PlannedUnit(name=name, reason=f"bucket {work} is compared with the metadata once a day")
    metadata = work.metadata
    streams = {held.stream_id for held in metadata.ranges}
    targets = " and ".join(map(str, work.targets))
    return PlannedUnit(
        name=name,
        reason=f"it is in {counted(len(metadata.bucket_ids), 'bucket')}, and gets a copy in bucket {targets}",
        stream_id=streams.pop() if len(streams) == 1 else None,
        bytes_read=metadata.size_bytes * len(work.targets),
        bytes_written=metadata.size_bytes * len(work.targets),
        objects_before=1,
        objects_after=1,
    )
