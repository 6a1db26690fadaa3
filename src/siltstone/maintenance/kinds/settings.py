"""How often each kind runs in ``siltstone maintain serve``, and what it may do.

Every default is a limit with its reason in ``model.limits``.
"""

import msgspec

from siltstone.maintenance.collecting.settings import GcSettings
from siltstone.maintenance.key_compaction.settings import KeyCompactionSettings
from siltstone.maintenance.planning.stream_objects.settings import StreamObjectCompactionSettings
from siltstone.maintenance.settings import CompactionSettings
from siltstone.model import limits
from siltstone.model.errors import InvalidRequest


class Intervals(msgspec.Struct, frozen=True, kw_only=True):
    """From the end of one run to the beginning of the next. Shorter for what frees space first."""

    sweep_ms: int = limits.SWEEP_INTERVAL_MS
    retention_ms: int = limits.RETENTION_INTERVAL_MS
    dead_objects_ms: int = limits.DEAD_OBJECTS_INTERVAL_MS
    minor_gc_ms: int = limits.MINOR_GC_INTERVAL_MS
    sso_compaction_ms: int = limits.SSO_COMPACTION_INTERVAL_MS
    key_compaction_ms: int = limits.KEY_COMPACTION_INTERVAL_MS
    so_compaction_ms: int = limits.SO_COMPACTION_INTERVAL_MS
    major_gc_ms: int = limits.MAJOR_GC_INTERVAL_MS

    def __post_init__(self) -> None:
        """GC6."""
        if self.minor_gc_ms >= self.major_gc_ms:
            raise InvalidRequest(
                f"minor_gc_ms is {self.minor_gc_ms} and major_gc_ms {self.major_gc_ms}: a minor collection has to come "
                "more often than a major one"
            )

    def of(self, kind: str) -> int:
        """By the name of the kind: ``minor-gc``."""
        interval_ms: int = getattr(self, f"{kind.replace('-', '_')}_ms")
        return interval_ms


class MaintenanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``run_ms_max``: for how long a run begins units before the other kinds have their turn."""

    interval: Intervals = Intervals()
    run_ms_max: int = limits.MAINTENANCE_RUN_MS_MAX
    gc: GcSettings = GcSettings()
    key_compaction: KeyCompactionSettings = KeyCompactionSettings()
    so_compaction: StreamObjectCompactionSettings = StreamObjectCompactionSettings()


class KindSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the kinds are made with."""

    grace_period_ms: int = limits.GRACE_PERIOD_MS
    compaction: CompactionSettings = CompactionSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
