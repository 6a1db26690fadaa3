"""Objects of a store as rows: what is live, and what will be deleted when and why. Pure."""

from collections.abc import Iterable, Iterator

import msgspec

from siltstone.console.views.stream_map import dead_share
from siltstone.console.views.topics import Sees
from siltstone.metadata.entities import ObjectMetadata, ScanPin
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import is_pinned
from siltstone.model.objects import ObjectState

ROWS_MAX = 200


class ObjectRow(msgspec.Struct, frozen=True, kw_only=True):
    """``why`` says what will happen to the object next, ``due_ms`` when: 0 if nothing will."""

    object_id: int
    kind: str
    state: str
    bucket_ids: tuple[int, ...]
    size_bytes: int
    streams: int
    committed_ms: int
    dead_share: float
    why: str = ""
    due_ms: int = 0


class ObjectsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and bytes of all objects; ``by_bucket``: bucket id → objects and bytes in use."""

    stream_set_objects: int
    stream_objects: int
    live_bytes: int
    prepared: int
    waiting_objects: int
    waiting_bytes: int
    by_bucket: dict[int, tuple[int, int]]


class ObjectsTally:
    """Counts of a part of the objects. The console keeps one for each shard of the image, and counts only the shards
    that have changed. ``oldest_ms``: the time of the oldest data that is committed."""

    __slots__ = ("by_bucket", "committed", "counts", "live_bytes", "oldest_ms", "waiting_bytes")

    def __init__(self, found: Iterable[ObjectMetadata] = ()) -> None:
        self.counts = {"SSO": 0, "SO": 0}
        self.committed = self.live_bytes = self.waiting_bytes = 0
        self.oldest_ms: int | None = None
        self.by_bucket: dict[int, tuple[int, int]] = {}
        for each in found:
            self._add(each)

    def _add(self, each: ObjectMetadata) -> None:
        if each.state is ObjectState.DESTROYED:
            self.waiting_bytes += each.size_bytes
        elif each.state is ObjectState.COMMITTED:
            self.committed += 1
            time_ms = each.data_time_ms
            self.oldest_ms = time_ms if self.oldest_ms is None else min(self.oldest_ms, time_ms)
            if each.kind is not None:
                self.counts[each.kind.label] += 1
                self.live_bytes += each.size_bytes
                for bucket_id in each.bucket_ids:
                    self._add_to_bucket(bucket_id, 1, each.size_bytes)

    def _add_to_bucket(self, bucket_id: int, objects: int, size_bytes: int) -> None:
        before = self.by_bucket.get(bucket_id, (0, 0))
        self.by_bucket[bucket_id] = (before[0] + objects, before[1] + size_bytes)

    def add(self, other: "ObjectsTally") -> None:
        for kind, count in other.counts.items():
            self.counts[kind] += count
        self.committed += other.committed
        self.live_bytes += other.live_bytes
        self.waiting_bytes += other.waiting_bytes
        times = [each for each in (self.oldest_ms, other.oldest_ms) if each is not None]
        self.oldest_ms = min(times, default=None)
        for bucket_id, (objects, size_bytes) in other.by_bucket.items():
            self._add_to_bucket(bucket_id, objects, size_bytes)

    def summary(self, image: MetadataImage) -> ObjectsSummary:
        return ObjectsSummary(
            stream_set_objects=self.counts["SSO"],
            stream_objects=self.counts["SO"],
            live_bytes=self.live_bytes,
            prepared=len(image.prepared),
            waiting_objects=len(image.destroyed),
            waiting_bytes=self.waiting_bytes,
            by_bucket=dict(sorted(self.by_bucket.items())),
        )


def objects_summary(image: MetadataImage) -> ObjectsSummary:
    return ObjectsTally(image.objects.values()).summary(image)


def largest_objects(image: MetadataImage, sees: Sees, rows_max: int = ROWS_MAX) -> list[ObjectRow]:
    """Returns the largest committed objects that hold data of topics which the visitor may see."""
    found = sorted(_seen(image, sees), key=lambda each: (-each.size_bytes, each.object_id))
    return [object_row(image, each) for each in found[:rows_max]]


def objects_to_delete(
    image: MetadataImage, grace_period_ms: int, rows_max: int = ROWS_MAX
) -> list[ObjectRow]:
    """Returns the destroyed objects, the one that is deleted next first."""
    found = sorted(image.destroyed.items(), key=lambda item: (item[1], item[0]))
    return [_waiting(image, object_id, grace_period_ms) for object_id, _ in found[:rows_max]]


def object_row(image: MetadataImage, found: ObjectMetadata) -> ObjectRow:
    return ObjectRow(
        object_id=found.object_id,
        kind="-" if found.kind is None else found.kind.label,
        state=found.state.name.lower(),
        bucket_ids=found.bucket_ids,
        size_bytes=found.size_bytes,
        streams=len({each.stream_id for each in found.ranges}),
        committed_ms=found.committed_ms,
        dead_share=dead_share(image, found.object_id),
    )


def topics_in(image: MetadataImage, found: ObjectMetadata) -> list[tuple[str, int, str, int, int, int]]:
    """Returns topic, partition, kind of stream, start, end and bytes of each range of the object; a stream that
    belongs to no topic has its id as the topic."""
    rows = []
    for held in found.ranges:
        stream = image.streams.get(held.stream_id)
        tags = {} if stream is None else stream.tags
        rows.append(
            (
                tags.get("topic", f"stream {held.stream_id}"),
                int(tags.get("partition", -1)),
                tags.get("kind", ""),
                held.start_offset,
                held.end_offset,
                held.size_bytes,
            )
        )
    return sorted(rows)


def _seen(image: MetadataImage, sees: Sees) -> Iterator[ObjectMetadata]:
    for each in image.objects.values():
        if each.state is ObjectState.COMMITTED and _is_seen(image, each, sees):
            yield each


def _is_seen(image: MetadataImage, found: ObjectMetadata, sees: Sees) -> bool:
    names = (
        image.streams[each.stream_id].tags.get("topic")
        for each in found.ranges
        if each.stream_id in image.streams
    )
    return any(name is None or sees(name) for name in names)


def _waiting(image: MetadataImage, object_id: int, grace_period_ms: int) -> ObjectRow:
    found = image.objects[object_id]
    pins = _pins_on(image.pins.values(), found)
    due_ms = found.destroyed_ms + grace_period_ms
    why = "replaced or trimmed; deleted after the grace period"
    if found.committed_ms == 0:
        why = "never committed: its upload was abandoned"
    if pins:
        due_ms = max(due_ms, *(each.until_ms for each in pins))
        why = f"kept for a scan ({pins[0].holder or 'no name'})"
    return msgspec.structs.replace(object_row(image, found), why=why, due_ms=due_ms)


def _pins_on(pins: Iterable[ScanPin], found: ObjectMetadata) -> list[ScanPin]:
    return [each for each in pins if is_pinned(found, each.version)]
