"""What retention deletes next of each topic, and when, if nothing is written meanwhile. Pure.

The planner answers: ``walk`` says when the first segment of a stream is due that stays now, and the same walk at a
later time says what is trimmed then. A day is looked at as a whole, since people plan by days: everything that is due
until its end is counted.

Retention moves the start offset. Bytes leave the bucket later, once all of an object is dead and its grace period over.
"""

from collections.abc import Callable

import msgspec

from siltstone.carrying.pipeline.kind import Scope
from siltstone.foundation.quantity_words import counted, size_words, time_words
from siltstone.maintenance.retention.groups import bound_of
from siltstone.maintenance.retention.planning import BoundOf, plan_retention, walk
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import ImageView
from siltstone.model.limits import DAY_MS
from siltstone.offline.topic_streams import Role, TopicStream, topic_defaults
from siltstone.topic_configs.table import TopicConfig, stored_topic_config


class NextDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """``due_ms``: when the first segment is due, the present for one that is due already, None if none will be.
    ``offsets`` and ``size_bytes`` count what is due by the end of that day, in UTC. ``bytes_until``: after so many more
    bytes in one partition, size makes a segment of it due; None if no size is set. ``why_none`` says why time makes
    nothing due; empty if it does."""

    topic: str
    due_ms: int | None
    offsets: int = 0
    size_bytes: int = 0
    bytes_until: int | None = None
    why_none: str = ""

    def words(self, now_ms: int) -> str:
        """Says it in a sentence without its end, such as ``on 2026-12-06: 12 offsets, 3.1 GiB``."""
        if self.due_ms is None:
            found = f"nothing by time: {self.why_none}"
        else:
            found = f"{deletion_day(self, now_ms)}: {self._amount}"
        if self.bytes_until is None:
            return found
        return f"{found}; or once {size_words(self.bytes_until)} more are in one of its partitions"

    @property
    def _amount(self) -> str:
        return f"{counted(self.offsets, 'offset')}, {size_words(self.size_bytes)}"


def deletion_day(found: NextDeletion, now_ms: int) -> str:
    """Says when, such as ``on 2026-12-06``; what is due already waits for the next run of retention."""
    assert found.due_ms is not None
    return "with its next run" if found.due_ms <= now_ms else f"on {day_words(found.due_ms)}"


def day_words(time_ms: int) -> str:
    return time_words(time_ms).partition(" ")[0]


def next_deletion(image: ImageView, topic: TopicMetadata, now_ms: int) -> NextDeletion:
    """Returns what retention deletes next of a topic."""
    found = _deletion(
        image, topic, stored_topic_config(topic.configs, topic_defaults(image)), now_ms, bound_of(image)
    )
    if found.due_ms is not None or found.why_none:
        return found
    planned = plan_retention(image, Scope(topics=frozenset([topic.name])), now_ms, bound_of(image))
    return msgspec.structs.replace(found, why_none=planned.unplanned[0].reason)


def next_deletions(
    image: ImageView, now_ms: int, sees: Callable[[str], bool] = lambda _: True
) -> list[NextDeletion]:
    """Returns what retention deletes next of each topic that time makes due, the first one first. ``sees``: which
    topics, by name."""
    defaults, limit = topic_defaults(image), bound_of(image)
    found = [
        _deletion(image, topic, stored_topic_config(topic.configs, defaults), now_ms, limit)
        for topic in image.topics.values()
        if sees(topic.name)
    ]
    due = [(each.due_ms, each) for each in found if each.due_ms is not None]
    return [each for _, each in sorted(due, key=lambda pair: (pair[0], -pair[1].size_bytes, pair[1].topic))]


def _deletion(
    image: ImageView, topic: TopicMetadata, config: TopicConfig, now_ms: int, limit: BoundOf
) -> NextDeletion:
    if not config.is_deleted_by_age:
        return NextDeletion(topic=topic.name, due_ms=None)
    held = [
        TopicStream(each.data_stream_id, topic, number, Role.BATCHES, config)
        for number, each in enumerate(topic.partitions)
        if each.data_stream_id in image.streams
    ]
    bounded = [(image.streams[each.stream_id], limit(each)) for each in held]
    walked = [walk(stream, image.objects, config, now_ms, bound) for stream, bound in bounded]
    times = [now_ms if each.due else each.due_ms for each in walked]
    due_ms = min((each for each in times if each is not None), default=None)
    bytes_until = min((each.bytes_until for each in walked if each.bytes_until is not None), default=None)
    if due_ms is None:
        nothing = "" if any(each.segments for each in walked) else "it has no records in objects"
        return NextDeletion(topic=topic.name, due_ms=None, bytes_until=bytes_until, why_none=nothing)
    ends_ms = due_ms // DAY_MS * DAY_MS + DAY_MS - 1
    then = [(stream, walk(stream, image.objects, config, ends_ms, bound)) for stream, bound in bounded]
    return NextDeletion(
        topic=topic.name,
        due_ms=due_ms,
        offsets=sum(each.start_offset - stream.start_offset for stream, each in then),
        size_bytes=sum(each.size_bytes for _, each in then),
        bytes_until=bytes_until,
    )
