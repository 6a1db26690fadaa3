"""The metadata as they were: the image at an earlier version of the log, and the version at a time.

A log *holds* the versions from its snapshot on, or from the beginning while its first entry is there: each of them is
the snapshot with the entries after it. Reading them takes no lock and writes nothing, and a broker may append
meanwhile.

An entry has no time of its own, but many records have one: of a commit, a job, a topic. The *known time* of an entry is
the newest such time in it and in the entries before it. So the store at a time T is that of the last version whose
known time is not after T.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from siltstone.metadata.applying import apply_records
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.metadata.log_entry import LogEntry, decode_entry, next_position
from siltstone.metadata.records import (
    JobFinished,
    JobStarted,
    ObjectCommitted,
    ObjectsDestroyed,
    Record,
    TopicCreated,
)
from siltstone.metadata.snapshot import decode_snapshot
from siltstone.metadata.store.port import LogTruncated, LogUnavailable, MetadataLog
from siltstone.model.errors import InvalidRequest

ENTRIES_PER_READ = 1_000
ATTEMPTS_MAX = 8
"""How often a read begins again because a broker has saved a newer snapshot meanwhile. It does so every few minutes at
most, and a read takes seconds."""

UNKNOWN_TIME_MS = 0


class VersionNotHeld(InvalidRequest):
    """The log does not hold the version any more, or not yet."""

    def __init__(self, version: int, oldest: int, newest: int) -> None:
        super().__init__(
            f"the metadata log does not hold version {version}: the oldest possible is {oldest}, the newest {newest}"
        )
        self.version, self.oldest, self.newest = version, oldest, newest


class TimeNotHeld(InvalidRequest):
    """The log holds no version of that time any more."""

    def __init__(self, time_ms: int, oldest_ms: int, oldest: int) -> None:
        super().__init__(
            f"the metadata log does not reach back to {time_text(time_ms)}: the oldest possible time is "
            f"{time_text(oldest_ms)} (version {oldest})"
        )
        self.time_ms, self.oldest_ms, self.oldest = time_ms, oldest_ms, oldest


def time_text(time_ms: int) -> str:
    """Returns the time as ISO 8601 in UTC."""
    return (
        datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def known_time_ms(record: Record) -> int:
    """Returns the time at which the record was decided, or UNKNOWN_TIME_MS if it does not say."""
    match record:
        case ObjectCommitted():
            return record.committed_ms
        case ObjectsDestroyed():
            return record.destroyed_ms
        case JobStarted():
            return record.started_ms
        case JobFinished():
            return record.finished_ms
        case TopicCreated():
            return record.created_ms
    return UNKNOWN_TIME_MS


def newest_time_ms(image: MetadataImage) -> int:
    """Returns the newest time that the image has of anything; UNKNOWN_TIME_MS if it has none. Pure."""
    objects = (max(each.committed_ms, each.destroyed_ms) for each in image.objects.values())
    jobs = (max(each.started_ms, each.finished_ms) for each in image.jobs.values())
    topics = (each.created_ms for each in image.topics.values())
    return max(max(times, default=UNKNOWN_TIME_MS) for times in (objects, jobs, topics))


def image_at(log: MetadataLog, version: int | None = None) -> MetadataImage:
    """Returns the image at the version, or at the head of the log. Raises VersionNotHeld, Unavailable, CorruptData."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return _image_at(log, version)
        except LogTruncated:
            continue
    raise LogUnavailable(
        f"the metadata snapshot was replaced {ATTEMPTS_MAX} times while it was being read; try again later"
    )


def version_at(log: MetadataLog, time_ms: int) -> int:
    """Returns the last version whose known time is not after the time. Raises TimeNotHeld, Unavailable, CorruptData."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return _version_at(log, time_ms)
        except LogTruncated:
            continue
    raise LogUnavailable(
        f"the metadata snapshot was replaced {ATTEMPTS_MAX} times while it was being read; try again later"
    )


def refuse_before_times(log: MetadataLog, version: int, time_ms: int) -> None:
    """Refuses a time before the first that the log knows, which ``version_at`` answers by ``version``: a store of that
    time cannot be told from one before it was made. Raises TimeNotHeld, Unavailable, CorruptData."""
    if newest_time_ms(image_at(log, version)) != UNKNOWN_TIME_MS:
        return
    for number, entry in entries_after(log, version, log.head().version):
        first_ms = max(map(known_time_ms, entry.records), default=UNKNOWN_TIME_MS)
        if first_ms != UNKNOWN_TIME_MS:
            raise TimeNotHeld(time_ms, first_ms, number)


def oldest_version(log: MetadataLog) -> int:
    """Returns the oldest version that the log holds. Raises Unavailable."""
    return 0 if oldest_entry(log) <= 1 else log.snapshot_version() or 0


def oldest_entry(log: MetadataLog) -> int:
    """Returns the version of the oldest entry that the log still has. Raises Unavailable."""
    head = log.head().version
    if _has_entry(log, 1):
        return 1
    dropped, there = 1, max(head, 1)
    while there - dropped > 1:
        middle = (dropped + there) // 2
        dropped, there = (dropped, middle) if _has_entry(log, middle) else (middle, there)
    return there


def entries_after(
    log: MetadataLog, version: int, until: int, limit: int = ENTRIES_PER_READ
) -> Iterator[tuple[int, LogEntry]]:
    """Yields the entries from ``version + 1`` up to ``until``, each with its version, at most ``limit`` of each
    read. Raises LogTruncated, Unavailable, CorruptData."""
    at = version
    while at < until and (found := log.read_after(at, min(limit, until - at))):
        for at, encoded in found:
            yield at, decode_entry(encoded)


def _has_entry(log: MetadataLog, version: int) -> bool:
    try:
        log.read_after(version - 1, 1)
    except LogTruncated:
        return False
    return True


def _image_at(log: MetadataLog, version: int | None) -> MetadataImage:
    newest = log.head().version
    wanted = newest if version is None else version
    if not 0 <= wanted <= newest:
        raise VersionNotHeld(wanted, oldest_version(log), newest)
    image = _base(log, wanted)
    if image is None:
        oldest = oldest_version(log)
        if oldest <= wanted:
            raise LogTruncated("a snapshot was saved while the log was being read; read it again")
        raise VersionNotHeld(wanted, oldest, newest)
    draft, position = ImageDraft(image), image.position
    for number, entry in entries_after(log, image.version, wanted):
        draft.version = number
        position = next_position(position, entry.link)
        apply_records(draft, entry.records)
    return draft.frozen(position.version, position.append_id)


def _base(log: MetadataLog, wanted: int) -> MetadataImage | None:
    """Returns an image from which on every entry up to the version is there: that of the snapshot, or the empty one.
    None if there is none."""
    snapshot = log.load_snapshot()
    if snapshot is not None and snapshot.version <= wanted:
        return decode_snapshot(snapshot.version, snapshot.chunks)
    return MetadataImage() if _has_entry(log, 1) else None


def _version_at(log: MetadataLog, time_ms: int) -> int:
    oldest, newest = oldest_version(log), log.head().version
    if oldest and (base_ms := newest_time_ms(_image_at(log, oldest))) > time_ms:
        raise TimeNotHeld(time_ms, base_ms, oldest)
    found = oldest
    for version, entry in entries_after(log, oldest, newest):
        if any(known_time_ms(record) > time_ms for record in entry.records):
            break
        found = version
    return found
