"""The answers that clients of a cluster got, and the anomalies in them: pure, so that a test can plant each anomaly and
see it found.

Values are ``writer:number``; each writer writes its numbers in order, each to the end before the next. ``Read`` is what
one client reads from the beginning in the end, when all nodes live: offset → value and leader epoch. Times are those of
the clients' clock. Nothing is trimmed in these partitions, so offset 0 is the first of each.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

NO_COMMIT = -1

Place = tuple[int, int]
"""Partition and offset."""


class Acknowledged(msgspec.Struct, frozen=True):
    """A record that node ``node_id`` said to be stored. ``is_repeated``: an earlier request with it had no good answer,
    so another node may have stored it."""

    place: Place
    value: str
    node_id: int
    begun_ms: float
    ended_ms: float
    is_repeated: bool = False


class Polled(msgspec.Struct, frozen=True):
    """An answer to a consumer that reads one partition from its position on: offsets and values."""

    consumer: str
    partition: int
    node_id: int
    records: tuple[tuple[int, str], ...]


class EndSeen(msgspec.Struct, frozen=True):
    """An answer to ListOffsets (latest)."""

    partition: int
    node_id: int
    offset: int
    begun_ms: float


class Committed(msgspec.Struct, frozen=True):
    """An OffsetCommit of the only committer of a group; ``ended_ms`` is None when it had no good answer."""

    group: str
    partition: int
    offset: int
    begun_ms: float
    ended_ms: float | None = None


class CommitSeen(msgspec.Struct, frozen=True):
    """An answer to OffsetFetch, of the group's only committer, which had no commit under way."""

    group: str
    partition: int
    offset: int
    begun_ms: float


class Read(msgspec.Struct, frozen=True):
    value: str
    leader_epoch: int


class ClusterHistory:
    def __init__(self) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.polled: list[Polled] = []
        self.ends: list[EndSeen] = []
        self.commits: list[Committed] = []
        self.commits_seen: list[CommitSeen] = []
        self.read: dict[Place, Read] = {}


def anomalies_in(history: ClusterHistory) -> list[str]:
    """Returns each anomaly, with its name in front."""
    return [
        *_lost(history),
        *_inconsistent(history),
        *_doubled(history.read),
        *_sent_out_of_order(history.read),
        *_polled_out_of_order(history),
        *_stale_ends(history),
        *_split_brain(history),
        *_commits(history),
        *_spurious_zero(history),
    ]


def _lost(history: ClusterHistory) -> Iterator[str]:
    """Holes as well: offsets are given without gaps here."""
    for one in history.acknowledged:
        if one.place not in history.read:
            yield f"lost write: {one.value} was acknowledged at {one.place} by node {one.node_id} and is not there"
    for partition, offsets in _offsets(history.read).items():
        if offsets != list(range(len(offsets))):
            yield f"lost write: partition {partition} has holes or does not begin at 0: {offsets[:20]}"


def _offsets(read: Mapping[Place, Read]) -> dict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for partition, offset in sorted(read):
        found[partition].append(offset)
    return found


def _inconsistent(history: ClusterHistory) -> Iterator[str]:
    """Two values at one offset, at any nodes and times."""
    told = [(one.place, one.value, one.node_id) for one in history.acknowledged] + [
        ((poll.partition, offset), value, poll.node_id)
        for poll in history.polled
        for offset, value in poll.records
    ]
    for place, value, node_id in told:
        there = history.read.get(place)
        if there is None and value:
            yield f"inconsistent offset: node {node_id} told {value} at {place}, where nothing is in the end"
        elif there is not None and there.value != value:
            yield f"inconsistent offset: {value} at {place} by node {node_id}, in the end {there.value}"


def _doubled(read: Mapping[Place, Read]) -> Iterator[str]:
    places: defaultdict[str, list[Place]] = defaultdict(list)
    for place, one in read.items():
        places[one.value].append(place)
    for value, found in places.items():
        if len(found) > 1:
            yield f"duplicate: {value} is at {found}"


def _sent_out_of_order(read: Mapping[Place, Read]) -> Iterator[str]:
    last: dict[tuple[int, str], int] = {}
    for (partition, offset), one in sorted(read.items()):
        writer, number = one.value.rsplit(":", 1)
        before = last.get((partition, writer), -1)
        if int(number) < before:
            yield f"send nonmonotonic: {one.value} at {(partition, offset)} comes after number {before}"
        last[partition, writer] = int(number)


def _polled_out_of_order(history: ClusterHistory) -> Iterator[str]:
    position: dict[tuple[str, int], int] = {}
    for poll in history.polled:
        for offset, value in poll.records:
            expected = position.get((poll.consumer, poll.partition), offset)
            where = f"{poll.consumer} got {value} at {(poll.partition, offset)} from node {poll.node_id}"
            if offset < expected:
                yield f"poll nonmonotonic: {where}, and was at {expected}"
            elif offset > expected:
                yield f"poll skip: {where}, and was at {expected}"
            position[poll.consumer, poll.partition] = offset + 1


def _stale_ends(history: ClusterHistory) -> Iterator[str]:
    for seen in history.ends:
        for one in history.acknowledged:
            is_before = one.place[0] == seen.partition and one.ended_ms < seen.begun_ms
            if is_before and one.place[1] >= seen.offset:
                yield (
                    f"stale end: node {seen.node_id} told {seen.offset} for partition {seen.partition} at "
                    f"{seen.begun_ms}, after {one.value} was acknowledged at {one.place[1]}"
                )
                break


def _split_brain(history: ClusterHistory) -> Iterator[str]:
    """An epoch of a partition has one leader, and epochs rise with offsets."""
    leaders: dict[tuple[int, int], int] = {}
    for one in history.acknowledged:
        if one.is_repeated or (there := history.read.get(one.place)) is None:
            continue
        epoch = (one.place[0], there.leader_epoch)
        if leaders.setdefault(epoch, one.node_id) != one.node_id:
            yield f"split brain: nodes {leaders[epoch]} and {one.node_id} acknowledged in partition, epoch {epoch}"
    highest: dict[int, int] = {}
    for (partition, offset), there in sorted(history.read.items()):
        if there.leader_epoch < highest.get(partition, -1):
            yield f"split brain: epoch {there.leader_epoch} at {(partition, offset)} after {highest[partition]}"
        highest[partition] = there.leader_epoch


def _commits(history: ClusterHistory) -> Iterator[str]:
    """A commit without an answer may count, or not, until the next one that has one; and may come late."""
    for seen in history.commits_seen:
        of_it = [one for one in history.commits if (one.group, one.partition) == (seen.group, seen.partition)]
        before = [one for one in of_it if one.begun_ms < seen.begun_ms]
        done = [one.offset for one in before if one.ended_ms is not None and one.ended_ms < seen.begun_ms]
        if done and seen.offset < max(done):
            yield f"offset commit: {seen} is older than {max(done)}, which was acknowledged"
        if seen.offset != NO_COMMIT and seen.offset not in {one.offset for one in before}:
            yield f"offset commit: {seen} was never committed"


def _spurious_zero(history: ClusterHistory) -> Iterator[str]:
    for one in history.acknowledged:
        first = history.read.get((one.place[0], 0))
        if one.place[1] == 0 and first is not None and first.value != one.value:
            yield f"spurious zero offset: {one.value} was told to be at 0 of {one.place[0]} by node {one.node_id}"
