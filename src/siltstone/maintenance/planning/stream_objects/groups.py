"""What of a run is worth becoming one object (T11)."""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import accumulate, islice, takewhile

import msgspec

from siltstone.maintenance.planning.stream_objects.runs import Run, held_by
from siltstone.maintenance.planning.stream_objects.settings import StreamObjectCompactionSettings
from siltstone.metadata.entities import ObjectMetadata


class Level(Enum):
    MINOR = "minor"
    MAJOR = "major"


class Group(msgspec.Struct, frozen=True):
    """``members`` touch, in offset order, and lie in one bucket."""

    level: Level
    members: Run

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
        """What is to be moved for each object that there is less afterwards: the fewer the better."""
        return self.size_bytes / (len(self.members) - 1)

    def small_bytes(self, part_bytes_min: int) -> int:
        """What is expected to pass through a process: members too small for a part of their own."""
        return sum(size for size in map(_size, self.members) if size < part_bytes_min)


def groups_of(run: Run, settings: StreamObjectCompactionSettings, now_ms: int) -> Iterator[Group]:
    """In offset order: major ones of what has settled, minor ones of what is left between those."""
    rest: list[ObjectMetadata] = []
    settled_before_ms = now_ms - settings.settled_ms
    for segment, is_settled in _segments(run, lambda member: member.committed_ms <= settled_before_ms):
        if not is_settled:
            rest += segment
            continue
        for members, is_worth_it in _cut(segment, settings, _major_reach):
            if is_worth_it:
                yield from _minor(rest, settings)
                yield Group(Level.MAJOR, members)
                rest = []
            else:
                rest += members
    yield from _minor(rest, settings)


def major_groups(run: Run, settings: StreamObjectCompactionSettings) -> list[Run]:
    """Whatever the age of the members."""
    return [members for members, is_worth_it in _cut(run, settings, _major_reach) if is_worth_it]


def minor_groups(run: Run, settings: StreamObjectCompactionSettings) -> list[Run]:
    small = _segments(run, lambda member: _size(member) < settings.small_object_bytes)
    return [
        members
        for segment, is_small in small
        if is_small
        for members, is_worth_it in _cut(segment, settings, _minor_reach)
        if is_worth_it
    ]


def is_worth_it(members: Sequence[ObjectMetadata], settings: StreamObjectCompactionSettings) -> bool:
    sizes = [_size(member) for member in members]
    return len(members) >= 2 and max(sizes) <= settings.largest_share_max * sum(sizes)


def _minor(rest: Sequence[ObjectMetadata], settings: StreamObjectCompactionSettings) -> Iterator[Group]:
    for members in minor_groups(tuple(rest), settings):
        yield Group(Level.MINOR, members)


Reach = Callable[[Sequence[int], int, StreamObjectCompactionSettings], int]
"""Of the sizes given, from one of them on, how many the limits let into one group: at least one."""


def _major_reach(sizes: Sequence[int], first: int, settings: StreamObjectCompactionSettings) -> int:
    """A hard limit: an object beyond it could not be written."""
    totals = accumulate(sizes[first : first + settings.group_objects_max])
    return max(1, sum(1 for _ in takewhile(lambda total: total <= settings.group_bytes_max, totals)))


def _minor_reach(sizes: Sequence[int], first: int, settings: StreamObjectCompactionSettings) -> int:
    """A soft one, passed at most once: what has reached it is small no more."""
    most = min(settings.group_objects_max, len(sizes) - first)
    totals = accumulate(islice(sizes, first, first + most))
    below = sum(1 for _ in takewhile(lambda total: total < settings.small_object_bytes, totals))
    return min(most, below + 1)


def _cut(
    run: Sequence[ObjectMetadata], settings: StreamObjectCompactionSettings, reach: Reach
) -> Iterator[tuple[Run, bool]]:
    """The run in pieces, in order, each a group that is worth it or not. A piece of which one member is too large a
    share is cut there: that one stays, those before it may be worth it by themselves, those behind it begin anew."""
    sizes = [_size(member) for member in run]
    first = 0
    while first < len(run):
        end = first + reach(sizes, first, settings)
        piece = tuple(run[first:end])
        if is_worth_it(piece, settings):
            yield piece, True
            first = end
            continue
        largest = max(range(first, end), key=sizes.__getitem__)
        yield from _cut(run[first:largest], settings, reach)
        yield (run[largest],), False
        first = largest + 1


def _segments(
    run: Sequence[ObjectMetadata], is_of_them: Callable[[ObjectMetadata], bool]
) -> Iterator[tuple[Run, bool]]:
    """The run cut where the answer changes."""
    segment: list[ObjectMetadata] = []
    answer = False
    for member in run:
        if segment and is_of_them(member) != answer:
            yield tuple(segment), answer
            segment = []
        answer = is_of_them(member)
        segment.append(member)
    if segment:
        yield tuple(segment), answer


def _size(member: ObjectMetadata) -> int:
    """Of its blocks, be the first of them trimmed: what the image knows."""
    return held_by(member).size_bytes
