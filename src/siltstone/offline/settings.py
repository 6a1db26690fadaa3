"""The settings of all kinds of maintenance, as frozen values. Every default is a limit with its reason in
``model.limits``.

A struct checks its values when it is made, and raises InvalidRequest with the setting's name, its value and what is
allowed.
"""

from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from siltstone.foundation.credentials import shown_properties, without_url_credentials
from siltstone.model import limits
from siltstone.model.errors import InvalidRequest
from siltstone.offline.kind_rows import KIND_ROWS

PUT_BYTES_MAX = 4 * limits.GIB
"""An iteration puts an object or a part in one request, and S3 and compatible stores take at most 5 GiB in one."""

_LARGEST = {
    "memory_bytes": PUT_BYTES_MAX,
    "part_count_max": limits.PART_COUNT_MAX,
    "streams_max": limits.STREAMS_PER_OBJECT_MAX,
    "stream_objects_max": limits.COMPACTION_STREAM_OBJECTS_MAX,
}
"""The most that a store accepts in one object, and the metadata in one commit. With larger values a round would do all
its work and then be refused."""


def _refuse_below(
    settings: msgspec.Struct, *, may_be_zero: Collection[str] = (), apart_from: Collection[str] = ()
) -> None:
    """Raises InvalidRequest unless every setting but those ``apart_from`` is at least 1, or at least 0 where it
    ``may_be_zero``."""
    for name in settings.__struct_fields__:
        value, smallest = getattr(settings, name), 0 if name in may_be_zero else 1
        if name not in apart_from and value < smallest:
            raise InvalidRequest(f"{name} is {value}; it must be at least {smallest}")


class Level(Enum):
    """Says how thorough garbage collection and stream object compaction are. Minor: work that gains much for little,
    done often. Major: work that is worth doing once a day."""

    MINOR = "minor"
    MAJOR = "major"


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of stream set object compaction. ``memory_bytes`` limits the source bytes that one iteration holds, and
    with them the size of the stream objects that are made. ``is_spread``: a scheduled run spreads its bytes over its
    interval."""

    split_size_bytes: int = limits.SPLIT_SIZE_BYTES
    merged_block_bytes_max: int = limits.MERGED_BLOCK_SIZE_BYTES
    memory_bytes: int = limits.COMPACTION_MEMORY_BYTES
    read_request_bytes_max: int = limits.READ_REQUEST_BYTES_MAX
    small_object_bytes: int = limits.SMALL_OBJECT_BYTES
    part_bytes_min: int = limits.PART_SIZE_BYTES_MIN
    part_count_max: int = limits.PART_COUNT_MAX
    sources_max: int = limits.COMPACTION_SOURCES_MAX
    streams_max: int = limits.STREAMS_PER_OBJECT_MAX
    stream_objects_max: int = limits.COMPACTION_STREAM_OBJECTS_MAX
    force_split_age_ms: int = limits.FORCE_SPLIT_AGE_MS
    is_spread: bool = True
    time_limit_ms: int = limits.COMPACTION_TIME_LIMIT_MS
    lease_ms: int = limits.JOB_LEASE_MS

    def __post_init__(self) -> None:
        _refuse_below(
            self, may_be_zero=("split_size_bytes", "small_object_bytes", "force_split_age_ms", "is_spread")
        )
        for name, largest in _LARGEST.items():
            if getattr(self, name) > largest:
                raise InvalidRequest(f"{name} is {getattr(self, name)}; it must be at most {largest}")


class GcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of garbage collection. How often each level runs is in ``Intervals``."""

    minor_threshold: float = limits.MINOR_GC_THRESHOLD
    major_threshold: float = limits.MAJOR_GC_THRESHOLD
    target_size_bytes: int = limits.GC_TARGET_SIZE_BYTES
    round_bytes: int = limits.GC_ROUND_BYTES
    objects_max: int = limits.GC_OBJECTS_MAX
    copy_bytes_per_second: int = limits.GC_COPY_BYTES_PER_SECOND
    quota_bytes: int = limits.STORE_QUOTA_BYTES
    lease_ms: int = limits.JOB_LEASE_MS

    def __post_init__(self) -> None:
        """GC6."""
        if not 0 < self.minor_threshold < self.major_threshold <= 1:
            raise InvalidRequest(
                f"minor_threshold is {self.minor_threshold} and major_threshold {self.major_threshold}: they are shares"
                " of live bytes above 0 and up to 1, and a minor collection has to take less than a major one"
            )
        _refuse_below(
            self,
            may_be_zero=("copy_bytes_per_second", "quota_bytes"),
            apart_from=("minor_threshold", "major_threshold"),
        )

    def threshold(self, level: Level) -> float:
        return self.minor_threshold if level is Level.MINOR else self.major_threshold


class KeyCompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of key compaction. ``map_bytes_max``, ``memory_bytes`` and ``object_bytes`` are limits of one task;
    ``wave_*`` limit how much is given to the runner at once. A pass over a stream has to be committed within
    ``allowance_ms`` after its ids were prepared."""

    map_bytes_max: int = limits.KEY_COMPACTION_MAP_BYTES
    memory_bytes: int = limits.KEY_COMPACTION_MEMORY_BYTES
    object_bytes: int = limits.KEY_COMPACTION_OBJECT_BYTES
    block_bytes: int = limits.BLOCK_SIZE_BYTES
    read_request_bytes_max: int = limits.READ_REQUEST_BYTES_MAX
    allowance_ms: int = limits.KEY_COMPACTION_ALLOWANCE_MS
    wave_bytes_max: int = limits.KEY_COMPACTION_WAVE_BYTES
    wave_streams_max: int = limits.KEY_COMPACTION_WAVE_STREAMS_MAX
    producer_expiration_ms: int = limits.PRODUCER_ID_EXPIRATION_MS
    lease_ms: int = limits.JOB_LEASE_MS

    def __post_init__(self) -> None:
        _refuse_below(self, may_be_zero=("allowance_ms",))


class StreamObjectCompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of stream object compaction.

    A minor merge group joins neighbours smaller than ``small_object_bytes`` until they have that many bytes together.
    A major one joins neighbours of any size that were committed at least ``settled_ms`` ago, up to
    ``group_bytes_max``. In both the largest member may be at most ``largest_share_max`` of the group: an object that
    is copied again becomes larger by at least that factor, so the number of times that a byte is copied grows only
    with the logarithm of the sizes, however often the kind runs. (At a half, two objects that differ by a byte could
    not be joined.)

    An object has at most ``part_count_max`` parts: two for each of ``group_objects_max`` members (one copied, one read
    that joins it to the member before), one for each further ``copy_bytes_max`` of a large member, and the last.
    """

    small_object_bytes: int = limits.SMALL_STREAM_OBJECT_BYTES
    settled_ms: int = limits.STREAM_OBJECT_SETTLED_MS
    largest_share_max: float = limits.STREAM_OBJECT_LARGEST_SHARE_MAX
    group_bytes_max: int = limits.STREAM_OBJECT_GROUP_BYTES_MAX
    group_objects_max: int = limits.STREAM_OBJECT_GROUP_OBJECTS_MAX
    groups_max: int = limits.STREAM_OBJECT_GROUPS_MAX
    copy_bytes_max: int = limits.COPY_REQUEST_BYTES_MAX
    read_request_bytes_max: int = limits.READ_REQUEST_BYTES_MAX
    part_bytes_min: int = limits.PART_SIZE_BYTES_MIN
    part_count_max: int = limits.PART_COUNT_MAX
    merged_block_bytes_max: int = limits.MERGED_BLOCK_SIZE_BYTES
    time_limit_ms: int = limits.COMPACTION_TIME_LIMIT_MS
    lease_ms: int = limits.JOB_LEASE_MS

    def __post_init__(self) -> None:
        _refuse_below(
            self, may_be_zero=("settled_ms", "small_object_bytes"), apart_from=("largest_share_max",)
        )
        if not 0 < self.largest_share_max <= 1:
            raise InvalidRequest(f"largest_share_max is {self.largest_share_max}; it must be in (0, 1]")
        if not 2 * self.part_bytes_min <= self.copy_bytes_max <= PUT_BYTES_MAX:
            raise InvalidRequest(
                f"copy_bytes_max is {self.copy_bytes_max}; it must be at least two parts ({2 * self.part_bytes_min})"
                f" and at most {PUT_BYTES_MAX}"
            )
        if self.part_count_max > limits.PART_COUNT_MAX or self._parts_of_largest > self.part_count_max:
            raise InvalidRequest(
                f"a group could take {self._parts_of_largest} parts, more than {limits.PART_COUNT_MAX} or than"
                f" part_count_max, {self.part_count_max}; lower group_objects_max or group_bytes_max"
            )

    @property
    def _parts_of_largest(self) -> int:
        return 2 * self.group_objects_max + self.group_bytes_max // self.copy_bytes_max + 1

    @property
    def forced(self) -> "StreamObjectCompactionSettings":
        """Returns the settings of a forced run: no object is too young, and no object too large beside its
        neighbours."""
        return msgspec.structs.replace(self, settled_ms=0, largest_share_max=1.0)


def lowest_rate(*rates: int) -> int:
    """Returns the lowest of the rates that are set; 0 when none is."""
    return min(filter(None, rates), default=0)


class CopyRates(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of kinds that copy, in bytes a second; 0: none. ``of_all`` is for each run, of whatever kind."""

    of_all: int = 0
    of_kind: dict[str, int] = {}

    def of(self, kind: str) -> int:
        return lowest_rate(self.of_all, self.of_kind.get(kind, 0))


class _Rates(msgspec.Struct, frozen=True, kw_only=True):
    """The rate of each kind that copies, in bytes read in a second; 0: none. The rate of the collections is in
    ``GcSettings``."""

    def __post_init__(self) -> None:
        _refuse_below(self, may_be_zero=self.__struct_fields__)

    @property
    def by_kind(self) -> dict[str, int]:
        return {
            row.name: getattr(self, f"{row.setting}_bytes_per_second") for row in KIND_ROWS if row.has_rate
        }


class _Intervals(msgspec.Struct, frozen=True, kw_only=True):
    """How long each kind waits from the end of one run to the start of the next. Kinds that free space wait less."""

    def __post_init__(self) -> None:
        """GC6."""
        for row in KIND_ROWS:
            if (interval_ms := self.of(row.name)) <= 0:
                raise InvalidRequest(f"{row.setting}_ms is {interval_ms}: an interval is at least 1 ms")
        minor_ms, major_ms = self.of("minor-gc"), self.of("major-gc")
        if minor_ms >= major_ms:
            raise InvalidRequest(
                f"minor_gc_ms is {minor_ms} and major_gc_ms {major_ms}: a minor collection has to come more often than"
                " a major one"
            )

    def of(self, kind: str) -> int:
        """Returns the interval of a kind, by the kind's name, such as ``minor-gc``."""
        interval_ms: int = getattr(self, f"{kind.replace('-', '_')}_ms")
        return interval_ms


if TYPE_CHECKING:

    class Rates(_Rates, frozen=True, kw_only=True): ...

    class Intervals(_Intervals, frozen=True, kw_only=True): ...

else:
    # The fields are made of the rows, so that a new kind has its settings with its row.
    Rates = msgspec.defstruct(
        "Rates",
        [
            (f"{row.setting}_bytes_per_second", int, limits.COPY_BYTES_PER_SECOND)
            for row in KIND_ROWS
            if row.has_rate
        ],
        bases=(_Rates,), frozen=True, kw_only=True, module=__name__,
    )  # fmt: skip
    Intervals = msgspec.defstruct(
        "Intervals",
        [(f"{row.setting}_ms", int, row.interval_ms) for row in KIND_ROWS],
        bases=(_Intervals,), frozen=True, kw_only=True, module=__name__,
    )  # fmt: skip


class MaintenanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """After ``run_ms_max`` a run begins no further unit, so that the other kinds have their turn. No run copies faster
    than ``copy_bytes_per_second``."""

    interval: Intervals = Intervals()
    copy_bytes_per_second: int = limits.COPY_BYTES_PER_SECOND
    rate: Rates = Rates()
    run_ms_max: int = limits.MAINTENANCE_RUN_MS_MAX
    gc: GcSettings = GcSettings()
    key_compaction: KeyCompactionSettings = KeyCompactionSettings()
    so_compaction: StreamObjectCompactionSettings = StreamObjectCompactionSettings()

    @property
    def copy_rates(self) -> CopyRates:
        return CopyRates(of_all=self.copy_bytes_per_second, of_kind=self.rate.by_kind)


class TableSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Says where tables are: ``location`` is the URL of a folder or of a bucket; ``catalog`` has the properties of the
    Iceberg catalog, as ``pyiceberg.catalog.load_catalog`` takes them; ``registry`` is the URL of the schema registry or
    of a folder of schemas, and empty if there is none."""

    location: str = ""
    registry: str = ""
    catalog: dict[str, str] = {}

    def __repr__(self) -> str:
        """Hides what may be a secret: the credentials of the catalog and of the registry."""
        location, registry = map(without_url_credentials, (self.location, self.registry))
        return f"TableSettings({location!r}, {registry!r}, {shown_properties(self.catalog)!r})"


class KindSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all kinds, from which ``maintenance.kinds`` makes them."""

    grace_period_ms: int = limits.GRACE_PERIOD_MS
    compaction: CompactionSettings = CompactionSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    tables: TableSettings = TableSettings()
