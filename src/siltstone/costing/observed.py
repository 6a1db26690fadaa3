"""What the log still tells of the work that a store was given: the objects that were put and read, and the jobs that
ran. Pure.

Requests are counted as the programs send them: an object of at most ``PART_BYTES`` is one put, a larger one is an
upload in parts; what compaction replaces was read in ranges of at most ``READ_BYTES``, after its index. Reads of
clients leave no record.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from siltstone.metadata.history import known_time_ms
from siltstone.metadata.log_entry import LogEntry
from siltstone.metadata.records import (
    JobFinished,
    JobStarted,
    ObjectCommitted,
    ObjectsDestroyed,
    ObjectsPrepared,
    Record,
)
from siltstone.model.limits import MIB

PART_BYTES = 16 * MIB
READ_BYTES = 16 * MIB
FIRST_VERSION = 1
IDS_PER_MARK = 32
"""So many objects need one list and one put for the marks of the metadata (decision 10)."""


class ObservedWork(msgspec.Struct, frozen=True):
    """Counts between ``from_ms`` and ``until_ms``. By topic, None for streams without one: bytes that were put by
    uploads and by maintenance, and requests, which are divided by bytes. ``freed_bytes`` were destroyed without a
    replacement, ``merged_objects`` is by how many objects became fewer. ``is_whole``: the log reaches back to the
    beginning of the store."""

    from_ms: int
    until_ms: int
    put_bytes: dict[str | None, int]
    writes: dict[str | None, float]
    reads: dict[str | None, float]
    shared_writes: float
    job_seconds: dict[str, float]
    freed_bytes: int
    merged_objects: int
    is_whole: bool

    @property
    def window_ms(self) -> int:
        return max(0, self.until_ms - self.from_ms)


class _Known(msgspec.Struct, frozen=True):
    """An object as it was committed: its size and, by topic, the bytes of its ranges."""

    size_bytes: int
    of_topics: dict[str | None, int]


TopicOf = Callable[[int], str | None]


def observe(entries: Iterable[tuple[int, LogEntry]], topic_of: TopicOf, until_ms: int) -> ObservedWork:
    """Counts what the entries tell, up to ``until_ms``. ``topic_of`` returns the topic of a stream. An object that was
    committed before the first entry is counted as freed by its destruction only if its size is known."""
    counting = _Counting(topic_of)
    for version, entry in entries:
        counting.add(version, entry.records)
    return counting.result(until_ms)


class _Counting:
    def __init__(self, topic_of: TopicOf) -> None:
        self._topic_of = topic_of
        self._from_ms: int | None = None
        self._oldest: int | None = None
        self._objects: dict[int, _Known] = {}
        self._put: defaultdict[str | None, int] = defaultdict(int)
        self._writes: defaultdict[str | None, float] = defaultdict(float)
        self._reads: defaultdict[str | None, float] = defaultdict(float)
        self._started: dict[int, JobStarted] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._ids = self._freed = self._merged = 0

    def add(self, version: int, records: Sequence[Record]) -> None:
        """Counts one entry. Objects that it commits replace objects that it destroys."""
        self._oldest = version if self._oldest is None else self._oldest
        committed: list[_Known] = []
        destroyed: list[_Known] = []
        for record in records:
            if (time_ms := known_time_ms(record)) and self._from_ms is None:
                self._from_ms = time_ms
            match record:
                case ObjectCommitted():
                    committed.append(self._committed(record))
                case ObjectsDestroyed():
                    found = (self._objects.pop(each, None) for each in record.object_ids)
                    destroyed += [each for each in found if each is not None]
                case ObjectsPrepared():
                    self._ids += record.count
                case JobStarted() | JobFinished():
                    self._job(record)
        self._replaced(committed, destroyed)

    def _job(self, record: JobStarted | JobFinished) -> None:
        if isinstance(record, JobStarted):
            self._started[record.job_id] = record
        elif (started := self._started.pop(record.job_id, None)) is not None:
            self._seconds[started.kind] += (record.finished_ms - started.started_ms) / 1000

    def _replaced(self, committed: list[_Known], destroyed: list[_Known]) -> None:
        gone, new = (sum(each.size_bytes for each in some) for some in (destroyed, committed))
        self._freed += max(0, gone - new)
        if committed and destroyed:
            self._merged += len(destroyed) - len(committed)
            for each in destroyed:
                _divide(self._reads, 1 + -(-each.size_bytes // READ_BYTES), each.of_topics)

    def _committed(self, record: ObjectCommitted) -> _Known:
        of_topics: defaultdict[str | None, int] = defaultdict(int)
        for held in record.ranges:
            of_topics[self._topic_of(held.stream_id)] += held.size_bytes
        known = self._objects[record.object_id] = _Known(record.size_bytes, dict(of_topics) or {None: 0})
        for topic, size_bytes in known.of_topics.items():
            self._put[topic] += size_bytes
        parts = -(-record.size_bytes // PART_BYTES)
        _divide(self._writes, 1 if parts <= 1 else parts + 2, known.of_topics)
        return known

    def result(self, until_ms: int) -> ObservedWork:
        return ObservedWork(
            until_ms if self._from_ms is None else min(self._from_ms, until_ms),
            until_ms,
            dict(self._put),
            dict(self._writes),
            dict(self._reads),
            2 * self._ids / IDS_PER_MARK,
            dict(self._seconds),
            self._freed,
            self._merged,
            self._oldest is None or self._oldest <= FIRST_VERSION,
        )


def _divide(into: defaultdict[str | None, float], requests: float, of_topics: dict[str | None, int]) -> None:
    """Divides requests for an object among its topics, by their bytes."""
    total = sum(of_topics.values())
    for topic, size_bytes in of_topics.items():
        into[topic] += requests * size_bytes / total if total else requests / len(of_topics)
