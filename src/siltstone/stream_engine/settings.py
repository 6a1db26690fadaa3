"""Settings of the stream engine: frozen values that are checked when they are made. ``model.limits`` has the defaults
that are limits, with their reasons."""

from enum import StrEnum

import msgspec

from siltstone.model import limits
from siltstone.model.errors import InvalidRequest


class InvalidSetting(InvalidRequest):
    """A setting has a value with which the engine cannot work."""


class WalSync(StrEnum):
    """When the write-ahead log is synced to the disk, and so what the answer to an append promises."""

    EVERY_GROUP = "every-group"
    """Synced before the answer: an acknowledged record survives a power failure. The default."""

    EVERY_INTERVAL = "every-interval"
    """Synced at least every ``sync_interval_ms``: acknowledged records survive the end of the process; a power failure
    or a crash of the operating system loses those of up to that interval."""

    NEVER = "never"
    """Never synced, the operating system decides: acknowledged records survive the end of the process; a power failure
    may lose those of half a minute or more."""


FILE_LOCATION = "file"
"""The write-ahead log is in files, in the folder that the setting ``wal_folder`` names."""


class WalSettings(msgspec.Struct, frozen=True):
    """``location``: FILE_LOCATION, or ``bucket:N``. ``segment_bytes`` is the size of one log file. ``lost_epoch``: the
    node epoch whose write-ahead log is declared lost, as named by the start that was refused without that log; 0: none.
    """

    location: str = FILE_LOCATION
    sync: WalSync = WalSync.EVERY_GROUP
    sync_interval_ms: int = 50
    segment_bytes: int = limits.WAL_SEGMENT_BYTES
    capacity_bytes: int = limits.WAL_CAPACITY_BYTES
    group_bytes_max: int = limits.WAL_GROUP_BYTES_MAX
    puts_per_hour_max: int = limits.WAL_PUTS_PER_HOUR_MAX
    bulks_in_flight_max: int = limits.WAL_BULKS_IN_FLIGHT_MAX
    lost_epoch: int = 0

    def __post_init__(self) -> None:
        _refuse_below_one("wal", self, but="lost_epoch")
        if self.lost_epoch < 0:
            raise InvalidSetting(
                f"wal.lost_epoch is {self.lost_epoch}: it must be 0, or the node epoch that the refused start named"
            )
        if self.capacity_bytes < 2 * self.segment_bytes:
            raise InvalidSetting(
                f"wal.capacity_bytes ({self.capacity_bytes}) must be at least twice wal.segment_bytes "
                f"({self.segment_bytes})"
            )
        if self.location != FILE_LOCATION and self.bucket_id is None:
            raise InvalidSetting(
                f"wal.location is {self.location}: write {FILE_LOCATION}, or bucket:N with the number of a bucket"
            )

    @property
    def bucket_id(self) -> int | None:
        """The bucket that holds the log; None when it is in files."""
        kind, _, number = self.location.partition(":")
        return int(number) if kind == "bucket" and number.isascii() and number.isdigit() else None


class UploadSettings(msgspec.Struct, frozen=True):
    """``cache_block_*``: the size, age and number of streams at which a cache block is sealed. ``split_size_bytes``: a
    stream with at least this much in a block gets a stream object of its own."""

    cache_block_bytes_max: int = limits.CACHE_BLOCK_BYTES_MAX
    cache_block_age_ms_max: int = limits.CACHE_BLOCK_AGE_MS_MAX
    cache_block_streams_max: int = limits.STREAMS_PER_OBJECT_MAX
    split_size_bytes: int = limits.SPLIT_SIZE_BYTES
    block_size_bytes: int = limits.BLOCK_SIZE_BYTES
    uploads_in_flight_max: int = limits.UPLOADS_IN_FLIGHT_MAX
    time_limit_ms: int = limits.UPLOAD_TIME_LIMIT_MS

    def __post_init__(self) -> None:
        _refuse_below_one("upload", self)
        if self.cache_block_streams_max > limits.STREAMS_PER_OBJECT_MAX:
            raise InvalidSetting(
                f"upload.cache_block_streams_max ({self.cache_block_streams_max}) is more than the "
                f"{limits.STREAMS_PER_OBJECT_MAX} streams that one object may be committed with"
            )


class ReadSettings(msgspec.Struct, frozen=True):
    """The settings of reading committed objects: caches, requests, read-ahead. ``under_way_bytes_max`` limits the
    memory of concurrent GETs. ``catch_up_gives_way``: reads that catch up are slowed down while appends take longer
    because of them, to ``catch_up_bytes_per_second_min`` at the lowest."""

    block_cache_bytes_max: int = limits.BLOCK_CACHE_BYTES_MAX
    index_cache_bytes_max: int = limits.INDEX_CACHE_BYTES_MAX
    request_bytes_max: int = limits.READ_REQUEST_BYTES_MAX
    under_way_bytes_max: int = limits.READS_UNDER_WAY_BYTES_MAX
    read_ahead_bytes_min: int = limits.READ_AHEAD_BYTES_MIN
    read_ahead_bytes_max: int = limits.READ_AHEAD_BYTES_MAX
    read_ahead_pause_ms: int = limits.READ_AHEAD_PAUSE_MS
    sequential_readers_max: int = limits.SEQUENTIAL_READERS_MAX
    catch_up_gives_way: bool = True
    catch_up_bytes_per_second_min: int = limits.CATCH_UP_BYTES_PER_SECOND_MIN

    def __post_init__(self) -> None:
        if not 0 < self.read_ahead_bytes_min <= self.read_ahead_bytes_max:
            raise InvalidSetting(
                f"read.read_ahead_bytes_min ({self.read_ahead_bytes_min}) must be above 0 and not above "
                f"read_ahead_bytes_max ({self.read_ahead_bytes_max})"
            )
        if 2 * self.read_ahead_bytes_max > self.block_cache_bytes_max:
            raise InvalidSetting(
                f"read.block_cache_bytes_max ({self.block_cache_bytes_max}) must hold twice "
                f"read_ahead_bytes_max ({self.read_ahead_bytes_max}), or a reader evicts blocks fetched ahead for it"
            )


def _refuse_below_one(section: str, settings: "WalSettings | UploadSettings", but: str = "") -> None:
    """Raises InvalidSetting. With zero concurrent uploads the engine would hang; sealing at age zero would spin."""
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, int) and value < 1 and name != but:
            raise InvalidSetting(f"{section}.{name} is {value}: it must be at least 1")


class EngineSettings(msgspec.Struct, frozen=True):
    node_id: int = 0
    tail_cache_bytes_max: int = limits.TAIL_CACHE_BYTES_MAX
    append_bytes_max: int = limits.APPEND_BYTES_MAX
    waiting_bytes_max: int = limits.WAITING_APPENDS_BYTES_MAX
    close_time_limit_ms: int = limits.COMMIT_AT_CLOSE_STALLED_MS_MAX
    wal: WalSettings = WalSettings()
    upload: UploadSettings = UploadSettings()

    def __post_init__(self) -> None:
        if self.upload.cache_block_bytes_max > self.tail_cache_bytes_max:
            raise InvalidSetting(
                f"upload.cache_block_bytes_max ({self.upload.cache_block_bytes_max}) must fit into "
                f"tail_cache_bytes_max ({self.tail_cache_bytes_max})"
            )
        if self.close_time_limit_ms < 1:
            raise InvalidSetting(f"close_time_limit_ms is {self.close_time_limit_ms}: it must be at least 1")
        self._refuse_appends_that_would_wait_for_ever()

    def _refuse_appends_that_would_wait_for_ever(self) -> None:
        charged_bytes = self.append_bytes_max + limits.TAIL_CACHE_RECORD_OVERHEAD_BYTES
        if charged_bytes > min(self.tail_cache_bytes_max, self.wal.capacity_bytes):
            raise InvalidSetting(
                f"append_bytes_max ({self.append_bytes_max}) plus {limits.TAIL_CACHE_RECORD_OVERHEAD_BYTES} must fit "
                f"into tail_cache_bytes_max ({self.tail_cache_bytes_max}) and wal.capacity_bytes "
                f"({self.wal.capacity_bytes})"
            )
