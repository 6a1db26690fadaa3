"""Defines the plan of one stream: which objects are compacted, up to which offset, and why. The stream's dirtiness says
how much of it is new, and decides whether it is worth compacting (G4, G5).
"""

import msgspec

from siltstone.carrying.pipeline.kind import PlannedUnit, Unplanned
from siltstone.foundation.quantity_words import count_words, seconds_words, size_words
from siltstone.maintenance.record_rewriting.values import SourceObject
from siltstone.metadata.entities import StreamMetadata
from siltstone.topic_configs.table import TopicConfig


class Dirtiness(msgspec.Struct, frozen=True):
    """The bytes of a stream below the clean offset, and the bytes from there up to the bound."""

    clean_bytes: int
    dirty_bytes: int

    @property
    def ratio(self) -> float:
        whole = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / whole if whole else 0.0

    @property
    def words(self) -> str:
        whole = self.clean_bytes + self.dirty_bytes
        return f"{size_words(self.dirty_bytes)} of {size_words(whole)} dirty, {self.ratio:.2f}"


def why_dirty_enough(dirtiness: Dirtiness, config: TopicConfig, waited_ms: int | None) -> str | None:
    """Says in a sentence why a stream is dirty enough to be compacted; None when it is not. ``waited_ms`` is the time
    for which its oldest dirty segment has waited."""
    ratio = config.min_cleanable_dirty_ratio
    if dirtiness.ratio > ratio:
        return f"{dirtiness.words}, above min.cleanable.dirty.ratio {ratio:g}"
    lag_ms = config.max_compaction_lag_ms
    if waited_ms is not None and waited_ms > lag_ms:
        waited, most = seconds_words(waited_ms / 1000), seconds_words(lag_ms / 1000)
        return f"new records have waited {waited}, longer than max.compaction.lag.ms ({most})"
    return None


def waited_ms(stream: StreamMetadata, dirty_offset: int, bound: int, now_ms: int) -> int | None:
    """Returns the time since the first append to the oldest closed segment that has dirty records; None when there is
    none."""
    opened = [
        segment.opened_ms
        for segment in stream.segments
        if segment.end_offset > dirty_offset and segment.start_offset < bound
    ]
    return now_ms - min(opened) if opened else None


class StreamPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of one stream. ``configs`` is the topic's stored configuration; the commit is refused when it has
    changed. The offsets [``dirty_offset``, ``bound``) are new; ``limit`` says why the bound is not higher.
    ``commit_markers_end``: as in ``KeyCompactionInput``."""

    name: str
    topic: str
    topic_id: str
    configs: dict[str, str]
    partition: int
    stream_id: int
    delete_retention_ms: int
    sources: tuple[SourceObject, ...]
    start_offset: int
    dirty_offset: int
    bound: int
    limit: str
    dirtiness: Dirtiness
    reason: str
    commit_markers_end: int | None = None

    @property
    def source_bytes(self) -> int:
        return sum(source.size_bytes for source in self.sources)

    @property
    def bytes_read(self) -> int:
        """The bytes that a task reads. The dirty part is read twice: to map its keys, and to copy the records that
        stay."""
        return self.source_bytes + self.dirtiness.dirty_bytes


class PlannedStreams(msgspec.Struct, frozen=True):
    """The streams to compact, the dirtiest first, and the streams that stay as they are."""

    chosen: tuple[StreamPlan, ...]
    unplanned: tuple[Unplanned, ...]


def planned_unit(plan: StreamPlan, object_bytes: int) -> PlannedUnit:
    """Makes the unit that plans show. The bytes written are an upper bound, since it is not known beforehand how much
    will be removed."""
    return PlannedUnit(
        name=plan.name,
        reason=plan.reason,
        topic=plan.topic,
        partition=plan.partition,
        stream_id=plan.stream_id,
        bytes_read=plan.bytes_read,
        bytes_written=plan.source_bytes,
        objects_before=len(plan.sources),
        objects_after=-(-plan.source_bytes // object_bytes),
        detail={
            "new": f"offsets {count_words(plan.dirty_offset)} to {count_words(plan.bound)}",
            "dirty": plan.dirtiness.words,
            "not further": plan.limit,
        },
    )
