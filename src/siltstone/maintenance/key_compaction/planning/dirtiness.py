"""How much of what may be compacted is new, and whether that is enough (G4, G5)."""

import msgspec

from siltstone.foundation.quantity_words import seconds_words, size_words
from siltstone.metadata.entities import StreamMetadata
from siltstone.topic_configs.table import TopicConfig


class Dirtiness(msgspec.Struct, frozen=True):
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
    """In a sentence; None when it is not. ``waited_ms``: for how long the oldest of what is dirty has."""
    ratio = config.min_cleanable_dirty_ratio
    if dirtiness.ratio > ratio:
        return f"{dirtiness.words}, above min.cleanable.dirty.ratio {ratio:g}"
    lag_ms = config.max_compaction_lag_ms
    if waited_ms is not None and waited_ms > lag_ms:
        waited, most = seconds_words(waited_ms / 1000), seconds_words(lag_ms / 1000)
        return f"what is dirty has waited {waited}, longer than max.compaction.lag.ms ({most})"
    return None


def waited_ms(stream: StreamMetadata, dirty_offset: int, bound: int, now_ms: int) -> int | None:
    """Since the first batch came of the oldest closed segment with something dirty in it."""
    opened = [
        segment.opened_ms
        for segment in stream.segments
        if segment.end_offset > dirty_offset and segment.start_offset < bound
    ]
    return now_ms - min(opened) if opened else None
