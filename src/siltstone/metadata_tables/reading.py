"""Reads the tables of a store without a broker, now or as they were. Nothing is written and no lock is taken; the
metadata may be in SQLite or in PostgreSQL, and a broker may write to them meanwhile."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path

from siltstone.foundation.milliseconds import first_ms_at_or_after
from siltstone.metadata.history import entries_after, image_at, newest_time_ms, oldest_entry, version_at
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry
from siltstone.metadata_tables.catalog import MetadataTables, tables_of
from siltstone.metadata_tables.commits import commits_of
from siltstone.metadata_tables.moment import GroupCommit, Moment
from siltstone.model.errors import InvalidRequest
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.opening.settings import StoreSettings
from siltstone.offline.opening.store import Store, open_metadata_log, open_store
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.scanning.source import open_source, source_settings

Source = Callable[[], AbstractContextManager[MaintenanceContext]]


class MomentRefused(InvalidRequest):
    """A version and a time are given, or what is no version, or no time with a zone."""


class _StoredMoment:
    """Reads what a moment does not have at once: the entries of the log, and the positions of groups."""

    def __init__(self, settings: StoreSettings, source: Source, image: MetadataImage, clock: Clock) -> None:
        self._settings = settings
        self._source = source
        self._image = image
        self._clock = clock

    @cached_property
    def commits(self) -> list[GroupCommit]:
        with self._source() as source:
            return commits_of(source, self._image)

    def entries(self) -> Iterator[tuple[int, LogEntry]]:
        """Yields the entries up to the moment. Raises LogTruncated if a broker drops them while they are read."""
        with closing(open_metadata_log(self._settings, self._clock, create=False)) as log:
            yield from entries_after(log, oldest_entry(log) - 1, self._image.version)


def read_tables(
    settings: StoreSettings,
    source: Source,
    *,
    version: int | None = None,
    as_of_ms: int | None = None,
    clock: Clock | None = None,
) -> MetadataTables:
    """Returns the tables at a version, at a time, or now. ``source`` opens the store with its buckets, which only the
    tables of groups need. Raises MomentRefused, VersionNotHeld, TimeNotHeld, StoreNotFound, Unavailable,
    CorruptData."""
    clock = clock or SystemClock()
    if version is not None and as_of_ms is not None:
        raise MomentRefused("a version and a time are given: give one of them")
    with closing(open_metadata_log(settings, clock, create=False)) as log:
        if as_of_ms is not None:
            version = version_at(log, as_of_ms)
        image = image_at(log, version)
        now_ms = clock.now_ms() + log.clock_offset_ms()
        if version is not None and version < log.head().version:
            now_ms = as_of_ms if as_of_ms is not None else newest_time_ms(image)
    stored = _StoredMoment(settings, source, image, clock)
    return tables_of(Moment(image, now_ms, commits=lambda: stored.commits, entries=stored.entries))


@contextmanager
def _opened(settings: StoreSettings) -> Iterator[MaintenanceContext]:
    with open_store(settings) as store:
        yield store.context


def metadata(
    store: Path | str | Store,
    *,
    version: int | None = None,
    as_of: datetime | None = None,
    buckets: Mapping[int, str] | None = None,
) -> MetadataTables:
    """Returns the metadata of a store as tables, of this moment or of an earlier one.

    >>> siltstone.metadata("./siltstone-data").objects.to_polars()

    ``store`` is the folder of a store, the URL of its metadata, or an opened store. ``version`` is one of the metadata,
    ``as_of`` a time with a zone; the error for one that is too old names the oldest possible. Raises MomentRefused,
    VersionNotHeld, TimeNotHeld, StoreNotFound, SettingRefused, Unavailable, CorruptData.
    """
    as_of_ms = None
    if version is not None and not isinstance(version, int):
        raise MomentRefused(f"version={version!r} is no version of the metadata: write a number")
    if as_of is not None:
        if not isinstance(as_of, datetime):
            raise MomentRefused(f"as_of={as_of!r} is no time: write datetime(…, tzinfo=timezone.utc)")
        if as_of.tzinfo is None:
            raise MomentRefused(f"as_of={as_of!r} has no time zone: write datetime(…, tzinfo=timezone.utc)")
        as_of_ms = first_ms_at_or_after(as_of)
    if isinstance(store, Store):  # which the caller may close before asking for the rows of groups
        return read_tables(
            store.settings, partial(_opened, store.settings), version=version, as_of_ms=as_of_ms
        )
    settings = source_settings(store, buckets=buckets)
    source = partial(open_source, store, buckets=buckets)
    return read_tables(settings, source, version=version, as_of_ms=as_of_ms)
