"""The kinds ``minor-gc`` and ``major-gc``: objects with few live bytes are rewritten (BookKeeper's two levels).

    image → likely candidates → their indexes → candidates, smallest ratio first → units, each with its own commit

Stream set objects are rewritten together, in rounds of bounded size. The live end of a stream object is copied inside
the store, one unit for each object. The copying is that of stream object compaction, which itself never rewrites an
object without a neighbour.

In a forced run every object with a dead block is a candidate. An object that cannot be read stays as it is, with the
reason; an object that failed before is a unit by itself, so that it does not fail a round again.
"""

from collections.abc import Iterator, Sequence

from siltstone.carrying.pipeline.kind import (
    Attempt,
    Plan,
    PlannedUnit,
    Scope,
    UnitReport,
    Unplanned,
    object_name,
)
from siltstone.carrying.pipeline.set_aside import set_aside
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.garbage_collection.carrying_out import (
    CollectionRun,
    CollectionWork,
    UnitWork,
    plan_of_sources,
)
from siltstone.maintenance.garbage_collection.looking import Look, group_unit, round_unit
from siltstone.maintenance.garbage_collection.planning import (
    CollectionCandidate,
    Round,
    is_worth_a_round,
    rounds,
)
from siltstone.maintenance.stream_object_compaction.planning import MergeGroup
from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.maintenance.stream_set_compaction.retention_class import Classes, stream_classes
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import CorruptData, InvalidRequest
from siltstone.model.objects import ObjectKind
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import (
    CompactionSettings,
    GcSettings,
    Level,
    StreamObjectCompactionSettings,
)
from siltstone.offline.topic_streams import topic_streams


def kind_name(level: Level) -> str:
    return f"{level.value}-gc"


EVERYTHING_DEAD = 1.0
"""The threshold of a forced run: one dead block makes an object a candidate."""

NO_PARTNER = "it is small, and there is no other small object to merge it with"
NO_FEWER = "rewriting it would free no bytes and not reduce the number of objects"
NO_ROOM = "there is no room for a copy of its live bytes; delete something, or give the store more space"


class Collection:
    def __init__(
        self,
        level: Level,
        settings: GcSettings,
        compaction: CompactionSettings,
        copying: StreamObjectCompactionSettings,
    ) -> None:
        """``compaction`` says how stream set objects are rewritten, ``copying`` how stream objects are."""
        self._level = level
        self._settings = settings
        self._compaction = compaction
        self._copying = copying

    @property
    def name(self) -> str:
        return kind_name(self._level)

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        image = context.metadata.refresh()
        threshold = EVERYTHING_DEAD if scope.is_forced else self._settings.threshold(self._level)
        look = Look(threshold, self._settings.target_size_bytes, self._settings.objects_max)
        looked = look.at(context, image, scope, watch)
        planning = _Planning(self._compaction, image, context.now_ms(), context.space().room_bytes)
        for members, is_alone in self._in_order(image, looked.candidates):
            planning.add(members, is_alone=is_alone)
        return Plan(
            kind=self.name,
            units=tuple(planning.units),
            unplanned=(*looked.unplanned, *planning.unplanned),
            has_remaining=looked.has_remaining and bool(planning.units),
            bytes_per_second=self._settings.copy_bytes_per_second,
            work=CollectionWork(
                units=planning.work,
                copied_bytes={unit.name: unit.bytes_written for unit in planning.units},
                compaction=self._compaction,
                copying=self._copying,
                round_bytes=self._settings.round_bytes,
            ),
        )

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        return CollectionRun(plan.work, attempt).carry_out(names)

    def _in_order(
        self, image: MetadataImage, candidates: Sequence[CollectionCandidate]
    ) -> Iterator[tuple[Round, bool]]:
        """Yields the candidates of each unit, the smallest ratio first, and whether the unit is one object that failed
        before."""
        sets = [each for each in candidates if each.metadata.kind is ObjectKind.STREAM_SET_OBJECT]
        stream_objects = [each for each in candidates if each.metadata.kind is ObjectKind.STREAM_OBJECT]
        failed = {each.object_id for each in sets if self._has_failed(image, each)}
        together = [each for each in sets if each.object_id not in failed]
        found: list[Round] = [
            *rounds(together, self._settings.round_bytes, self._compaction.sources_max),
            *((each,) for each in sets if each.object_id in failed),
            *((each,) for each in stream_objects),
        ]
        found.sort(key=lambda members: (members[0].ratio, members[0].object_id))
        return ((members, members[0].object_id in failed) for members in found)

    def _has_failed(self, image: MetadataImage, candidate: CollectionCandidate) -> bool:
        return set_aside(image, self.name, object_name(candidate.object_id)) is not None


class _Planning:
    """The units of one plan, as far as there is room for their copies."""

    def __init__(
        self, compaction: CompactionSettings, image: MetadataImage, now_ms: int, room_bytes: int | None
    ) -> None:
        self.units: list[PlannedUnit] = []
        self.unplanned: list[Unplanned] = []
        self.work: dict[str, UnitWork] = {}
        self._compaction = compaction
        self._image = image
        self._now_ms = now_ms
        self._room_bytes = room_bytes
        self._topics = topic_streams(image)
        self._classes: Classes = stream_classes(image)

    def add(self, members: Round, *, is_alone: bool) -> None:
        if members[0].metadata.kind is ObjectKind.STREAM_OBJECT:
            self._add_group(members[0])
        else:
            self._add_round(members, is_alone=is_alone)

    def _add_group(self, candidate: CollectionCandidate) -> None:
        if not self._has_room(candidate.live.live_bytes):
            self._leave((candidate,), NO_ROOM)
            return
        group = MergeGroup(Level.MAJOR, (candidate.metadata,))
        unit = group_unit(group, candidate, self._topics.get(group.stream_id))
        self._take(unit, group, candidate.live.live_bytes)

    def _add_round(self, members: Round, *, is_alone: bool) -> None:
        if not is_worth_a_round(members):
            self._leave(members, NO_PARTNER)
            return
        try:
            plan = plan_of_sources(
                [each.source for each in members], self._image, self._classes, self._compaction, self._now_ms
            )
        except (CorruptData, InvalidRequest) as refused:
            self._leave(members, str(refused), is_failure=True)
            return
        if reason := self._why_not(plan, members):
            self._leave(members, reason, is_failure=plan.is_empty and plan.left_out[0].is_failure)
            return
        self.unplanned += (
            Unplanned(object_name(each.object_id), each.reason, each.is_failure) for each in plan.left_out
        )
        self._take(round_unit(members, plan.object_count, is_alone=is_alone), members, plan.live_bytes)

    def _why_not(self, plan: CompactionPlan, members: Round) -> str:
        """Says why the round is not worth doing; empty when it is worth doing."""
        if plan.is_empty:
            return plan.left_out[0].reason
        is_freeing = any(each.is_sparse for each in members)
        if not is_freeing and plan.object_count >= len(plan.compacted_sources):
            return NO_FEWER
        return "" if self._has_room(plan.live_bytes) else NO_ROOM

    def _has_room(self, size_bytes: int) -> bool:
        return self._room_bytes is None or size_bytes <= self._room_bytes

    def _take(self, unit: PlannedUnit, work: UnitWork, size_bytes: int) -> None:
        self.units.append(unit)
        self.work[unit.name] = work
        if self._room_bytes is not None:
            self._room_bytes -= size_bytes

    def _leave(
        self, members: Sequence[CollectionCandidate], reason: str, *, is_failure: bool = False
    ) -> None:
        self.unplanned += (Unplanned(object_name(each.object_id), reason, is_failure) for each in members)
