"""Chooses the merge groups: neighbouring stream objects that are worth becoming one, from the image alone.

An *extent* is stream objects of one stream whose offsets are contiguous. It ends where a stream set object holds the
next offsets, where no object does, and where the bucket changes, because a store copies within one bucket only.
Objects without a live offset belong to no extent: the kind ``dead-objects`` destroys them unread.

``groups_of`` cuts an extent into merge groups that are worth it (T11). ``choose_groups`` takes the groups of all
streams in order of the bytes moved for each object saved, the fewest first, up to the limit of one run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, takewhile

import msgspec

from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.metadata.streams import is_live
from siltstone.model.objects import ObjectKind, ObjectRange
from siltstone.offline.settings import Level, StreamObjectCompactionSettings

Extent = tuple[ObjectMetadata, ...]


def held_by(member: ObjectMetadata) -> ObjectRange:
    """Returns the one range of a stream object."""
    (held,) = member.ranges
    return held


def extents_of(
    stream: StreamMetadata, objects: Mapping[int, ObjectMetadata], *, is_compacted: bool
) -> Iterator[Extent]:
    """Yields the extents of a stream in offset order, also those of a single object.

    When the stream's topic is compacted by key, an extent also ends at the clean offset. The next key compaction
    rewrites what lies after that offset; in one object with it, clean data would be copied now and rewritten then.
    """
    if stream.state is StreamState.DELETED:
        return
    cleaned_offset = stream.cleaned_offset if is_compacted else 0
    extent: list[ObjectMetadata] = []
    for member in _live_members(stream, objects):
        if extent and (member is None or not _joins(extent[-1], member, cleaned_offset)):
            yield tuple(extent)
            extent = []
        if member is not None:
            extent.append(member)
    if extent:
        yield tuple(extent)


def _live_members(
    stream: StreamMetadata, objects: Mapping[int, ObjectMetadata]
) -> Iterator[ObjectMetadata | None]:
    """Yields the stream objects that hold something live, in offset order; None for a live range in a stream set
    object."""
    for held in stream.ranges:
        if is_live(stream, held):
            holder = objects[held.object_id]
            yield holder if holder.kind is ObjectKind.STREAM_OBJECT else None


def _joins(before: ObjectMetadata, after: ObjectMetadata, cleaned_offset: int) -> bool:
    first, second = held_by(before), held_by(after)
    return (
        first.end_offset == second.start_offset
        and before.bucket_id == after.bucket_id
        and (first.end_offset <= cleaned_offset) == (second.end_offset <= cleaned_offset)
    )


class MergeGroup(msgspec.Struct, frozen=True):
    """Stream objects that become one. ``members`` are contiguous, in offset order, and lie in one bucket."""

    level: Level
    members: Extent

    @property
    def name(self) -> str:
        return f"stream-{self.stream_id}-{held_by(self.members[0]).start_offset}"

    @property
    def stream_id(self) -> int:
        return held_by(self.members[0]).stream_id

    @property
    def bucket_id(self) -> int:
        return self.members[0].bucket_id

    @property
    def size_bytes(self) -> int:
        return sum(map(_size, self.members))

    @property
    def largest_bytes(self) -> int:
        return max(map(_size, self.members))

    @property
    def bytes_for_each_object_less(self) -> float:
        """The bytes that are moved for each object saved: the fewer, the better."""
        return self.size_bytes / (len(self.members) - 1)

    def small_bytes(self, part_bytes_min: int) -> int:
        """Returns the bytes that are expected to pass through a task: those of members too small for a part of their
        own."""
        return sum(size for size in map(_size, self.members) if size < part_bytes_min)


def groups_of(extent: Extent, settings: StreamObjectCompactionSettings, now_ms: int) -> Iterator[MergeGroup]:
    """Yields the merge groups of an extent in offset order: major ones of members that have settled, minor ones of the
    members between those."""
    rest: list[ObjectMetadata] = []
    settled_before_ms = now_ms - settings.settled_ms
    for stretch, is_settled in _stretches(extent, lambda member: member.committed_ms <= settled_before_ms):
        if not is_settled:
            rest += stretch
            continue
        for members, is_worth_it in _cut(stretch, settings, _major_reach):
            if is_worth_it:
                yield from _minor(rest, settings)
                yield MergeGroup(Level.MAJOR, members)
                rest = []
            else:
                rest += members
    yield from _minor(rest, settings)


def minor_groups(extent: Extent, settings: StreamObjectCompactionSettings) -> list[Extent]:
    small = _stretches(extent, lambda member: _size(member) < settings.small_object_bytes)
    return [
        members
        for stretch, is_small in small
        if is_small
        for members, is_worth_it in _cut(stretch, settings, _minor_reach)
        if is_worth_it
    ]


def is_worth_it(members: Sequence[ObjectMetadata], settings: StreamObjectCompactionSettings) -> bool:
    sizes = [_size(member) for member in members]
    return len(members) >= 2 and max(sizes) <= settings.largest_share_max * sum(sizes)


def _minor(rest: Sequence[ObjectMetadata], settings: StreamObjectCompactionSettings) -> Iterator[MergeGroup]:
    for members in minor_groups(tuple(rest), settings):
        yield MergeGroup(Level.MINOR, members)


Reach = Callable[[Sequence[int], int, StreamObjectCompactionSettings], int]
"""How many of the given sizes, from number ``first`` on, fit into one group; at least one."""


def _major_reach(sizes: Sequence[int], first: int, settings: StreamObjectCompactionSettings) -> int:
    """Returns the reach of a major group. Its limit is hard: a larger object could not be written."""
    totals = accumulate(sizes[first : first + settings.group_objects_max])
    return max(1, sum(1 for _ in takewhile(lambda total: total <= settings.group_bytes_max, totals)))


def _minor_reach(sizes: Sequence[int], first: int, settings: StreamObjectCompactionSettings) -> int:
    """Returns the reach of a minor group. Its limit is soft: the member that reaches it still belongs to the group."""
    most = min(settings.group_objects_max, len(sizes) - first)
    totals = accumulate(islice(sizes, first, first + most))
    below = sum(1 for _ in takewhile(lambda total: total < settings.small_object_bytes, totals))
    return min(most, below + 1)


def _cut(
    extent: Sequence[ObjectMetadata], settings: StreamObjectCompactionSettings, reach: Reach
) -> Iterator[tuple[Extent, bool]]:
    """Cuts an extent into pieces, each with whether it is worth merging. A piece in which one member is too large is
    cut there: that member stays alone, the members before it may be worth merging by themselves, and the next piece
    begins after it."""
    sizes = [_size(member) for member in extent]
    first = 0
    while first < len(extent):
        end = first + reach(sizes, first, settings)
        piece = tuple(extent[first:end])
        if is_worth_it(piece, settings):
            yield piece, True
            first = end
            continue
        largest = max(range(first, end), key=sizes.__getitem__)
        yield from _cut(extent[first:largest], settings, reach)
        yield (extent[largest],), False
        first = largest + 1


def _stretches(
    extent: Sequence[ObjectMetadata], is_of_them: Callable[[ObjectMetadata], bool]
) -> Iterator[tuple[Extent, bool]]:
    """Yields the extent cut into stretches with the same answer of ``is_of_them``, each with that answer."""
    stretch: list[ObjectMetadata] = []
    answer = False
    for member in extent:
        if stretch and is_of_them(member) != answer:
            yield tuple(stretch), answer
            stretch = []
        answer = is_of_them(member)
        stretch.append(member)
    if stretch:
        yield tuple(stretch), answer


def _size(member: ObjectMetadata) -> int:
    """Returns the bytes of an object's blocks, trimmed ones included, as the image knows them."""
    return held_by(member).size_bytes


EXPLAINED_MAX = 1_000
"""At most this many streams are listed with the reason why they stay as they are; there may be hundreds of thousands.
"""


class StreamLeft(msgspec.Struct, frozen=True):
    """A stream with several stream objects that stays as it is, and the reason."""

    stream_id: int
    reason: str


class Choice(msgspec.Struct, frozen=True):
    """The merge groups of one run. ``has_remaining`` says that there are more groups than a run takes."""

    groups: tuple[MergeGroup, ...]
    left: tuple[StreamLeft, ...]
    has_remaining: bool


def choose_groups(
    streams: Iterable[tuple[StreamMetadata, bool]],
    objects: Mapping[int, ObjectMetadata],
    settings: StreamObjectCompactionSettings,
    now_ms: int,
) -> Choice:
    """Chooses the merge groups of one run. Each stream comes with whether its topic is compacted by key."""
    groups: list[MergeGroup] = []
    left: list[StreamLeft] = []
    for stream, is_compacted in streams:
        if len(stream.ranges) < 2:
            continue
        extents = list(extents_of(stream, objects, is_compacted=is_compacted))
        found = [group for extent in extents for group in groups_of(extent, settings, now_ms)]
        groups += found
        if not found and len(left) < EXPLAINED_MAX and sum(map(len, extents)) > 1:
            left.append(StreamLeft(stream.stream_id, _why_left(extents, settings, now_ms)))
    groups.sort(key=_worth)
    return Choice(tuple(groups[: settings.groups_max]), tuple(left), len(groups) > settings.groups_max)


def _worth(group: MergeGroup) -> tuple[float, int, int]:
    return group.bytes_for_each_object_less, group.stream_id, held_by(group.members[0]).start_offset


def _why_left(extents: Sequence[Extent], settings: StreamObjectCompactionSettings, now_ms: int) -> str:
    longest = max(extents, key=len)
    if len(longest) < 2:
        return f"its {len(extents)} stream objects are not contiguous, or lie in different buckets"
    young = sum(member.committed_ms > now_ms - settings.settled_ms for member in longest)
    if young:
        minutes = settings.settled_ms // 60_000
        return f"{young} of {len(longest)} stream objects were committed less than {minutes} minutes ago"
    sizes = [held_by(member).size_bytes for member in longest]
    return (
        f"the largest of {len(longest)} stream objects holds {max(sizes) / sum(sizes):.0%} of their bytes, more than"
        f" {settings.largest_share_max:.0%}, or they would be too large together"
    )
