"""All kinds of maintenance, a row for each, in the order that frees space first.

The sweep deletes what is due. Retention makes bytes dead, so it comes before ``dead-objects``; neither reads an object.
Then come the kinds that copy: erasures that are pending; table export, before key compaction removes records that the
export has not read; minor collections (few live bytes), stream set object compaction, key compaction, stream object
compaction, relocation of objects that are left in a bucket that is drained, copies that objects lack, and last major
collections, which are worth doing once a day.

The settings ``maintenance.interval.*`` and ``maintenance.rate.*``, the lanes of a service, what waits for room, and the
order of a schedule are made of these rows; ``maintenance.kinds`` makes the kinds.
"""

from enum import Enum

import msgspec

from siltstone.model import limits


class KindLane(Enum):
    """Kinds of one lane take turns in one thread. Kinds that free space have a thread of their own, so that no long
    copy delays them (GC14). So have kinds that rewrite stream set objects: one that replaced an object which another
    has been rewriting for a quarter of an hour would make that work useless."""

    FREEING = "freeing"
    REWRITING = "rewriting"
    COPYING = "copying"


class KindRow(msgspec.Struct, frozen=True, kw_only=True):
    """``interval_ms``: the default of its interval. ``has_rate``: its rate has a setting of its own; the collections'
    is in ``GcSettings``. ``waits_early``: it waits already when a disk is nearly full, not only when it is full."""

    name: str
    interval_ms: int
    lane: KindLane
    has_rate: bool = False
    waits_early: bool = False

    @property
    def setting(self) -> str:
        return self.name.replace("-", "_")

    @property
    def is_copying(self) -> bool:
        """Whether the kind writes before it frees anything. The others delete or trim, and never wait for room."""
        return self.lane is not KindLane.FREEING


def _freeing(name: str, interval_ms: int) -> KindRow:
    return KindRow(name=name, interval_ms=interval_ms, lane=KindLane.FREEING)


def _copying(name: str, interval_ms: int, lane: KindLane = KindLane.COPYING) -> KindRow:
    return KindRow(name=name, interval_ms=interval_ms, lane=lane, has_rate=True)


KIND_ROWS = (
    _freeing("sweep", limits.SWEEP_INTERVAL_MS),
    _freeing("retention", limits.RETENTION_INTERVAL_MS),
    _freeing("dead-objects", limits.DEAD_OBJECTS_INTERVAL_MS),
    _copying("erasure", limits.ERASURE_INTERVAL_MS),
    _copying("table-export", limits.TABLE_EXPORT_INTERVAL_MS),
    KindRow(name="minor-gc", interval_ms=limits.MINOR_GC_INTERVAL_MS, lane=KindLane.REWRITING),
    _copying("sso-compaction", limits.SSO_COMPACTION_INTERVAL_MS, KindLane.REWRITING),
    _copying("key-compaction", limits.KEY_COMPACTION_INTERVAL_MS),
    _copying("so-compaction", limits.SO_COMPACTION_INTERVAL_MS),
    _copying("relocation", limits.RELOCATION_INTERVAL_MS),
    _copying("copies", limits.COPIES_INTERVAL_MS),
    KindRow(
        name="major-gc", interval_ms=limits.MAJOR_GC_INTERVAL_MS, lane=KindLane.REWRITING, waits_early=True
    ),
)

KIND_NAMES = tuple(row.name for row in KIND_ROWS)
COPYING = frozenset(row.name for row in KIND_ROWS if row.is_copying)
FREEING = frozenset(KIND_NAMES) - COPYING
WAITING_EARLY = frozenset(row.name for row in KIND_ROWS if row.waits_early)


def kinds_of(lane: KindLane) -> frozenset[str]:
    return frozenset(row.name for row in KIND_ROWS if row.lane is lane)
