"""The metadata records which units failed in earlier runs, and when each kind last ran.

A unit that fails is set aside with the reason, and is tried again after a wait that doubles with each failure. This is
kept in the metadata, so every driver knows it, and it survives a restart. The count starts again when the unit
succeeds, and when its topic's configuration has changed, because that may have removed the cause.

A kind's last run is recorded when it covered all topics. Schedules start from it, so a service that restarts does not
repeat a daily run. ``why_late`` reports that no maintenance has run for long: without maintenance a store only grows,
and brokers work for weeks without it while reads slowly become slower.
"""

from collections.abc import Collection, Iterator
from zlib import crc32

import msgspec

from siltstone.carrying.pipeline.kind import PlannedUnit
from siltstone.foundation.credentials import without_credentials
from siltstone.foundation.quantity_words import counted, duration_words
from siltstone.metadata.commands import PutKey, RemoveKey
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import DAY_MS, LAST_RUN_NOTED_MS, SET_ASIDE_MS_MAX, SET_ASIDE_MS_MIN
from siltstone.model.objects import ObjectState
from siltstone.offline.context import MaintenanceContext

_PREFIX = "set-aside/"
_TEXT_CHARACTERS_MAX = 500


class SetAside(msgspec.Struct, frozen=True):
    """Unit ``name`` of ``kind`` failed ``failures`` times in a row, the last time for ``reason``. ``topic`` is None
    when the unit belongs to no topic. ``configured`` is a fingerprint of the topic and its configuration at the last
    failure."""

    kind: str
    name: str
    reason: str
    failures: int
    since_ms: int
    retry_at_ms: int
    topic: str | None = None
    configured: int = 0

    def waits(self, image: MetadataImage, now_ms: int) -> bool:
        """Returns whether the unit is not to be tried yet. A wait longer than the longest one there is means that the
        clock was set back; then the unit may be tried."""
        is_early = now_ms < self.retry_at_ms <= now_ms + SET_ASIDE_MS_MAX
        return is_early and self.configured == _fingerprint(image, self.topic)


def all_set_aside(image: MetadataImage) -> Iterator[SetAside]:
    for key, value in image.keys.items():
        if key.startswith(_PREFIX):
            yield msgspec.json.decode(value, type=SetAside)


def set_aside(image: MetadataImage, kind: str, name: str) -> SetAside | None:
    value = image.keys.get(_key(kind, name))
    return None if value is None else msgspec.json.decode(value, type=SetAside)


def put_aside(context: MaintenanceContext, kind: str, unit: PlannedUnit, reason: str) -> SetAside:
    image = context.metadata.image
    before = set_aside(image, kind, unit.name)
    now_ms = context.now_ms()
    configured = _fingerprint(image, unit.topic)
    failures = 1 if before is None or before.configured != configured else before.failures + 1
    wait_ms = min(unit.set_aside_ms_max, SET_ASIDE_MS_MIN * 2 ** min(failures - 1, 30))
    after = SetAside(
        kind=kind,
        name=unit.name,
        reason=without_credentials(reason)[:_TEXT_CHARACTERS_MAX],
        failures=failures,
        since_ms=now_ms if before is None or failures == 1 else before.since_ms,
        retry_at_ms=now_ms + wait_ms,
        topic=unit.topic,
        configured=configured,
    )
    context.metadata.execute(PutKey(_key(kind, unit.name), msgspec.json.encode(after), overwrite=True))
    return after


def take_back(context: MaintenanceContext, kind: str, name: str) -> None:
    if _key(kind, name) in context.metadata.image.keys:
        context.metadata.execute(RemoveKey(_key(kind, name)))


def forget_gone(context: MaintenanceContext, kind: str, planned: Collection[str]) -> None:
    """Removes the set-aside entries of units that are no longer in the plan. Call it after a plan that covered all
    topics; ``planned`` are the names in it."""
    image, now_ms = context.metadata.image, context.now_ms()
    for aside in list(all_set_aside(image)):
        if aside.kind == kind and aside.name not in planned and not aside.waits(image, now_ms):
            take_back(context, kind, aside.name)


def _fingerprint(image: MetadataImage, name: str | None) -> int:
    topic_id = None if name is None else image.topic_ids.get(name)
    if topic_id is None:
        return 0
    return crc32(msgspec.json.encode((topic_id, sorted(image.topics[topic_id].configs.items()))))


def _key(kind: str, name: str) -> str:
    return f"{_PREFIX}{kind}/{name}"


_LAST_RUN_PREFIX = "last-run/"


class LastRun(msgspec.Struct, frozen=True):
    """``served_ms``: the end of the last run of a service, which repeated the kind every ``every_ms``; both are 0 if no
    service has ever run it, as far as is noted. Commands run a kind once."""

    kind: str
    ended_ms: int
    report: str
    every_ms: int = 0
    served_ms: int = 0


def last_runs(image: MetadataImage) -> dict[str, LastRun]:
    """Returns the last run of each kind, by the kind's name."""
    noted = (_decoded(value) for key, value in image.keys.items() if key.startswith(_LAST_RUN_PREFIX))
    return {each.kind: each for each in noted}


def note_run(
    context: MaintenanceContext, kind: str, report: str, *, was_idle: bool, every_ms: int = 0
) -> None:
    """Notes that a kind has run, and that a service repeats it every ``every_ms``, if it is above 0. Of kinds that run
    every minute only some of the idle runs are noted, to save writes."""
    now_ms = context.now_ms()
    noted = context.metadata.image.keys.get(_LAST_RUN_PREFIX + kind)
    before = LastRun(kind, -LAST_RUN_NOTED_MS, "") if noted is None else _decoded(noted)
    is_served_anew = every_ms not in (0, before.every_ms)
    # A run in the future was noted by a clock that was ahead.
    if was_idle and not is_served_anew and 0 <= now_ms - before.ended_ms < LAST_RUN_NOTED_MS:
        return
    served = (every_ms, now_ms) if every_ms else (before.every_ms, before.served_ms)
    value = msgspec.json.encode(LastRun(kind, now_ms, report, *served))
    context.metadata.execute(PutKey(_LAST_RUN_PREFIX + kind, value, overwrite=True))


def _decoded(value: bytes) -> LastRun:
    return msgspec.json.decode(value, type=LastRun)


MAINTENANCE_LATE_MS = 2 * DAY_MS
"""A service runs every kind at least once a day, and so does a nightly run by cron, which may fail once."""

MAINTENANCE_LOOKED_AT_MS = 1 * DAY_MS
"""How often a broker looks, and logs it while it is so."""

REMEDY = (
    "The store only grows, and nothing is compacted or deleted. Run siltstone maintain serve on the store, or siltstone"
    " serve --with-maintenance; siltstone maintain status shows the last runs"
)


def why_late(image: MetadataImage, now_ms: int, oldest: tuple[int, int] | None = None) -> str | None:
    """Says that no maintenance has run for MAINTENANCE_LATE_MS, and what to do; None when it has run, or when there is
    nothing old enough to be maintained. ``oldest``: how many objects are committed, and the time of their oldest data,
    where the caller knows; otherwise all objects are looked at, if no maintenance has ever run."""
    ran_ms = max((run.ended_ms for run in last_runs(image).values()), default=None)
    if ran_ms is not None:
        late_ms = now_ms - ran_ms
        words = f"No maintenance has run on this store for {duration_words(late_ms // DAY_MS * DAY_MS)}"
        return f"{words}. {REMEDY}" if late_ms >= MAINTENANCE_LATE_MS else None
    count, oldest_ms = oldest or _oldest(image, now_ms)
    if now_ms - oldest_ms < MAINTENANCE_LATE_MS:
        return None
    return f"No maintenance has ever run on this store, which has {counted(count, 'object')}. {REMEDY}"


def _oldest(image: MetadataImage, now_ms: int) -> tuple[int, int]:
    times = [held.data_time_ms for held in image.objects.values() if held.state is ObjectState.COMMITTED]
    return len(times), min(times, default=now_ms)
