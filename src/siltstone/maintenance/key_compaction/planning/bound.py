"""How far a stream may be compacted, and what stands in the way of more (G1 to G3).

    start ≤ clean up to ≤ bound ≤ active segment, end of the stream objects

Nothing here is undecided: transactions are not taken, and what is in objects lies below the high watermark (G2).
"""

import msgspec

from siltstone.foundation.quantity_words import count_words, seconds_words
from siltstone.maintenance.key_compaction.planning.prefix import Prefix
from siltstone.metadata.entities import StreamMetadata
from siltstone.topic_configs.table import TopicConfig


class Bound(msgspec.Struct, frozen=True):
    """``limit`` says, in a sentence, why it is not higher."""

    offset: int
    limit: str


def bound_of(stream: StreamMetadata, config: TopicConfig, prefix: Prefix, now_ms: int) -> Bound:
    candidates = [_of_objects(prefix), _of_active_segment(stream), _of_lag(stream, config, now_ms)]
    return _least(candidates)


def bound_up_to(offset: int, prefix: Prefix) -> Bound:
    """As far as somebody asks for, whatever lags and segments say."""
    return _least(
        [_of_objects(prefix), Bound(offset, f"no more than offset {count_words(offset)} was asked for")]
    )


def clean_offset(stream: StreamMetadata) -> int:
    """Where what is dirty begins: retention may have moved the start past what was clean (G29, K23)."""
    return max(stream.cleaned_offset, stream.start_offset)


def _least(candidates: list[Bound | None]) -> Bound:
    return min((each for each in candidates if each is not None), key=lambda each: each.offset)


def _of_objects(prefix: Prefix) -> Bound:
    end = prefix.end_offset
    if prefix.blocking_object_id is not None:
        return Bound(
            end,
            f"from offset {count_words(end)} on it lies in stream set object {prefix.blocking_object_id}, which"
            " sso-compaction splits first",
        )
    return Bound(end, f"no object holds offset {count_words(end)} yet")


def _of_active_segment(stream: StreamMetadata) -> Bound:
    active = stream.active_offset
    return Bound(active, f"the active segment begins at offset {count_words(active)}")


def _of_lag(stream: StreamMetadata, config: TopicConfig, now_ms: int) -> Bound | None:
    """The first dirty segment with a record younger than min.compaction.lag.ms [Kafka: LogCleanerManager]."""
    lag_ms = config.min_compaction_lag_ms
    if lag_ms == 0:
        return None
    for segment in stream.segments:
        is_dirty = segment.end_offset > clean_offset(stream)
        if is_dirty and segment.largest_timestamp_ms > now_ms - lag_ms:
            start = max(segment.start_offset, stream.start_offset)
            return Bound(
                start,
                f"the segment at offset {count_words(start)} has records younger than min.compaction.lag.ms"
                f" ({seconds_words(lag_ms / 1000)})",
            )
    return None
