"""Which groups of all streams a run takes: those that make the most objects fewer for the fewest bytes, first."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from siltstone.maintenance.planning.stream_objects.groups import Group, groups_of
from siltstone.maintenance.planning.stream_objects.runs import Run, held_by, runs_of
from siltstone.maintenance.planning.stream_objects.settings import StreamObjectCompactionSettings
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata

EXPLAINED_MAX = 1_000
"""Streams left as they are of which is told why: nobody reads more, and there may be hundreds of thousands."""


class StreamLeft(msgspec.Struct, frozen=True):
    """A stream of several stream objects that stays as it is, and why."""

    stream_id: int
    reason: str


class Choice(msgspec.Struct, frozen=True):
    """``has_remaining``: there are more groups than one run takes."""

    groups: tuple[Group, ...]
    left: tuple[StreamLeft, ...]
    has_remaining: bool


def choose_groups(
    streams: Iterable[tuple[StreamMetadata, bool]],
    objects: Mapping[int, ObjectMetadata],
    settings: StreamObjectCompactionSettings,
    now_ms: int,
) -> Choice:
    """``streams``: each with whether its topic is compacted by key."""
    groups: list[Group] = []
    left: list[StreamLeft] = []
    for stream, is_compacted in streams:
        if len(stream.ranges) < 2:
            continue
        runs = list(runs_of(stream, objects, is_compacted=is_compacted))
        found = [group for run in runs for group in groups_of(run, settings, now_ms)]
        groups += found
        if not found and len(left) < EXPLAINED_MAX and sum(map(len, runs)) > 1:
            left.append(StreamLeft(stream.stream_id, _why_left(runs, settings, now_ms)))
    groups.sort(key=_worth)
    return Choice(tuple(groups[: settings.groups_max]), tuple(left), len(groups) > settings.groups_max)


def _worth(group: Group) -> tuple[float, int, int]:
    return group.bytes_for_each_object_less, group.stream_id, held_by(group.members[0]).start_offset


def _why_left(runs: Sequence[Run], settings: StreamObjectCompactionSettings, now_ms: int) -> str:
    longest = max(runs, key=len)
    if len(longest) < 2:
        return f"its {len(runs)} stream objects do not touch, or lie in different buckets"
    young = sum(member.committed_ms > now_ms - settings.settled_ms for member in longest)
    if young:
        minutes = settings.settled_ms // 60_000
        return f"{young} of {len(longest)} stream objects were committed less than {minutes} minutes ago"
    sizes = [held_by(member).size_bytes for member in longest]
    return (
        f"the largest of {len(longest)} stream objects holds {max(sizes) / sum(sizes):.0%} of their bytes, more than"
        f" {settings.largest_share_max:.0%}, or they would be too large together"
    )
