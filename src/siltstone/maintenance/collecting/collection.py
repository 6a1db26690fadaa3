"""The kinds ``minor-gc`` and ``major-gc``: objects with few live bytes are rewritten (BookKeeper's two levels).

    image → who may be worth it → their indexes → candidates, smallest ratio first → rounds, each a unit and a commit

Forced, the threshold is that of whatever holds a dead block. An object that cannot be read is left alone with its
reason; one that failed before is a unit by itself, and costs the others nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.collecting.choosing import (
    Candidate,
    Round,
    expected_ratio,
    is_worth_a_look,
    is_worth_a_round,
    judged,
    ordered,
    rounds,
)
from siltstone.maintenance.collecting.live_bytes import Estimate, estimated, live_bytes
from siltstone.maintenance.collecting.round import Failed, Rewritten, plan_of_sources, rewrite
from siltstone.maintenance.collecting.scoped import in_scope, names_of_topics
from siltstone.maintenance.collecting.settings import GcSettings, Level
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.indexes import read_indexes
from siltstone.maintenance.pipeline.kind import Outcome, PlannedUnit, StartRunner, UnitReport, Unplanned
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.set_aside import put_aside, set_aside
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.planning.plan import CompactionPlan
from siltstone.maintenance.planning.sources import SourceUnusable
from siltstone.maintenance.rewriting.unit import decode_unit
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.stream_classes import stream_classes
from siltstone.maintenance.throttle import Throttle, ThrottledRunner
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import JobNotRunning
from siltstone.model.errors import CorruptData, InvalidRequest, Stale
from siltstone.model.objects import ObjectState

EVERYTHING_DEAD = 1.0
"""The threshold of a forced run: one dead block is enough."""

RoomBytes = Callable[[], int | None]
"""How many bytes a copy may take now; None: as many as it likes (``maintenance.pressure``)."""

NO_PARTNER = "it is small, and there is no other to put it together with"
NO_FEWER = "rewriting it would free nothing and make no fewer objects"
NO_ROOM = "there is no room for a copy of what is live; delete something, or give the store more space"


class Collection:
    def __init__(
        self,
        level: Level,
        settings: GcSettings,
        compaction: CompactionSettings,
        *,
        throttle: Throttle | None = None,
        room_bytes: RoomBytes = lambda: None,
    ) -> None:
        """``throttle``: one for all kinds that copy; without it, one of its own at the rate of the settings."""
        self._level = level
        self._settings = settings
        self._compaction = compaction
        self._throttle = throttle
        self._room_bytes = room_bytes

    @property
    def name(self) -> str:
        return self._level.kind

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> "CollectionPlan":
        image = context.metadata.refresh()
        threshold = EVERYTHING_DEAD if scope.is_forced else self._settings.threshold(self._level)
        looked_at, unplanned = self._looked_at(image, scope, threshold)
        few = looked_at[: self._settings.objects_max]
        sources, left_out = read_indexes(context.buckets, few, watch.steps("read indexes"))
        unplanned += (Unplanned(object_name(each.object_id), each.reason) for each in left_out)
        candidates: list[Candidate] = []
        for source in sources:
            try:
                live = live_bytes(source, image.streams)
            except SourceUnusable as contradiction:
                unplanned.append(Unplanned(object_name(source.metadata.object_id), str(contradiction)))
                continue
            if candidate := judged(source, live, threshold, self._settings.target_size_bytes):
                candidates.append(candidate)
        units = self._units(context, image, ordered(candidates), unplanned)
        throttle = self._throttle or Throttle(self._settings.copy_bytes_per_second, context.clock)
        return CollectionPlan(
            kind=self.name,
            rounds={unit.name: members for unit, members in units},
            units=tuple(unit for unit, _ in units),
            unplanned=tuple(unplanned),
            has_remaining=len(looked_at) > len(few),
            settings=self._compaction,
            throttle=throttle,
        )

    def _looked_at(
        self, image: MetadataImage, scope: Scope, threshold: float
    ) -> tuple[list[ObjectMetadata], list[Unplanned]]:
        """The smallest expected ratio first. What is dead altogether is left to ``dead-objects``."""
        topics = names_of_topics(image, scope)
        target = self._settings.target_size_bytes
        found: list[tuple[float, ObjectMetadata]] = []
        unplanned: list[Unplanned] = []
        for metadata in image.objects.values():
            if metadata.state is not ObjectState.COMMITTED or not in_scope(metadata, topics, scope):
                continue
            try:
                estimate = estimated(metadata, image.streams)
            except SourceUnusable as contradiction:
                unplanned.append(Unplanned(object_name(metadata.object_id), str(contradiction)))
                continue
            if _is_alive(estimate) and is_worth_a_look(metadata.kind, estimate, threshold, target):
                found.append((expected_ratio(metadata, estimate, target), metadata))
        found.sort(key=lambda each: (each[0], each[1].data_time_ms, each[1].object_id))
        return [metadata for _, metadata in found], unplanned

    def _units(
        self,
        context: MaintenanceContext,
        image: MetadataImage,
        candidates: Sequence[Candidate],
        unplanned: list[Unplanned],
    ) -> list[tuple[PlannedUnit, Round]]:
        failed_before = [each for each in candidates if self._has_failed(image, each)]
        alone = {each.object_id for each in failed_before}
        together = [each for each in candidates if each.object_id not in alone]
        rounds_of_all = sorted(
            (
                *rounds(together, self._settings.round_bytes, self._compaction.sources_max),
                *((each,) for each in failed_before),
            ),
            key=lambda members: (members[0].ratio, members[0].object_id),
        )
        room = self._room_bytes()
        classes = stream_classes(image)
        units: list[tuple[PlannedUnit, Round]] = []
        for members in rounds_of_all:
            if not is_worth_a_round(members):
                unplanned += _left_alone(members, NO_PARTNER)
                continue
            try:
                plan = plan_of_sources(
                    [each.source for each in members],
                    image,
                    classes,
                    self._compaction,
                    context.clock.now_ms(),
                )
            except (CorruptData, InvalidRequest) as refused:
                unplanned += _left_alone(members, str(refused))
                continue
            if reason := _why_not(plan, members, room):
                unplanned += _left_alone(members, reason)
                continue
            unplanned += (Unplanned(object_name(each.object_id), each.reason) for each in plan.left_out)
            room = None if room is None else room - plan.live_bytes
            units.append((_unit(members, plan, is_alone=members[0].object_id in alone), members))
        return units

    def _has_failed(self, image: MetadataImage, candidate: Candidate) -> bool:
        return set_aside(image, self.name, object_name(candidate.object_id)) is not None


class CollectionPlan(msgspec.Struct, frozen=True):
    kind: str
    rounds: Mapping[str, Round]
    units: Sequence[PlannedUnit]
    unplanned: Sequence[Unplanned]
    has_remaining: bool
    settings: CompactionSettings
    throttle: Throttle

    def carry_out(
        self,
        context: MaintenanceContext,
        start_runner: StartRunner,
        job_id: int,
        names: Sequence[str],
        watch: Watch,
    ) -> Iterator[UnitReport]:
        for done, name in enumerate(names):
            if done and watch.is_over:
                return
            runner = ThrottledRunner(start_runner(), self.throttle, _bytes_of, watch.check)
            sources = [each.source for each in self.rounds[name]]
            rewriting = rewrite(context, runner, sources, self.settings, job_id, watch)
            yield self._report(context, name, rewriting)

    def _report(
        self, context: MaintenanceContext, name: str, rewriting: Iterator[Rewritten | Failed]
    ) -> UnitReport:
        rewritten: list[Rewritten] = []
        failed: list[Failed] = []
        overtaken = ""
        try:
            for each in rewriting:
                (rewritten if isinstance(each, Rewritten) else failed).append(each)  # type: ignore[arg-type]
        except JobNotRunning:
            raise
        except Stale as stale:
            overtaken = str(stale)
        if not rewritten and failed:
            return UnitReport(name=name, outcome=Outcome.FAILED, text=failed[0].reason)
        if not rewritten:
            text = overtaken or "others have compacted them"
            return UnitReport(name=name, outcome=Outcome.NOT_NEEDED, text=text)
        for each in failed:
            self._put_aside(context, each)
        return _done(name, rewritten, failed)

    def _put_aside(self, context: MaintenanceContext, failed: Failed) -> None:
        """Each by its own name: the unit itself is done, and its name another round's the next time."""
        for source in failed.sources:
            name = object_name(source.metadata.object_id)
            put_aside(context, self.kind, PlannedUnit(name=name, reason=""), failed.reason)


def _unit(members: Round, plan: CompactionPlan, *, is_alone: bool) -> PlannedUnit:
    first = members[0]
    live, dead = (sum(getattr(each.live, name) for each in members) for name in ("live_bytes", "dead_bytes"))
    reason = f"{counted(len(members), 'object')}, {live / max(1, live + dead):.0%} live: {size_words(dead)} come free"
    return PlannedUnit(
        name=object_name(first.object_id) if is_alone else _round_name(first),
        reason=reason,
        bytes_read=live,
        bytes_written=live,
        objects_before=len(members),
        objects_after=plan.object_count,
        detail={
            "live ratio": f"{first.ratio:.4f}",
            "written for each byte freed": f"{live / dead:.2f}" if dead else "nothing is freed",
        },
    )


def _round_name(first: Candidate) -> str:
    assert first.metadata.kind is not None, "committed objects have a kind"
    return f"{first.metadata.kind.label}s from {first.object_id}"


def object_name(object_id: int) -> str:
    return f"object {object_id}"


def _is_alive(estimate: Estimate) -> bool:
    return estimate.live_bytes > 0


def _why_not(plan: CompactionPlan, members: Round, room: int | None) -> str:
    """Empty when the round is to be done."""
    if plan.is_empty:
        return plan.left_out[0].reason if plan.left_out else NO_PARTNER
    frees = any(each.is_sparse for each in members)
    if not frees and plan.object_count >= len(plan.compacted_sources):
        return NO_FEWER
    return NO_ROOM if room is not None and plan.live_bytes > room else ""


def _left_alone(members: Sequence[Candidate], reason: str) -> list[Unplanned]:
    return [Unplanned(object_name(each.object_id), reason) for each in members]


def _bytes_of(unit: bytes) -> int:
    return decode_unit(unit).iteration.bytes_read


def _done(name: str, rewritten: Sequence[Rewritten], failed: Sequence[Failed]) -> UnitReport:
    results = [result for each in rewritten for result in each.outcome.results]
    before = sum(len(each.plan.compacted_sources) for each in rewritten)
    after = sum(each.plan.object_count for each in rewritten)
    bytes_after = sum(each.outcome.bytes_after for each in rewritten)
    aside = [
        f"{object_name(source.metadata.object_id)} is set aside: {each.reason}"
        for each in failed
        for source in each.sources
    ]
    return UnitReport(
        name=name,
        outcome=Outcome.DONE,
        text="; ".join((f"{counted(before, 'object')} became {after}, {size_words(bytes_after)}", *aside)),
        bytes_read=sum(result.bytes_read for result in results),
        bytes_written=sum(result.bytes_written for result in results),
        bytes_freed=sum(each.bytes_before for each in rewritten) - bytes_after,
        objects_before=before,
        objects_after=after,
        peak_memory_bytes=max((result.peak_memory_bytes for result in results), default=0),
    )
