"""Assigns the partitions of topics to the members that subscribe to them. Pure, and the same everywhere: the order of
members and partitions is that of their ids.

*range* gives each topic by itself in contiguous ranges; the first members have one partition more. *uniform* gives all
members equally many of all topics together, and lets them keep what they have.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from siltstone.broker.groups.assigned.group import Partitions
from siltstone.broker.groups.consumer_protocol.group import PartitionOfId

UNIFORM, RANGE = "uniform", "range"


class Subscriber(msgspec.Struct, frozen=True):
    """``topic_ids``: the topics that it subscribes to, which exist. ``before``: its target so far."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    before: Partitions = frozenset()


Assignor = Callable[[Sequence[Subscriber], Mapping[bytes, int]], dict[str, Partitions]]


def assign_ranges(subscribers: Sequence[Subscriber], counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """``counts``: topic id → its number of partitions. Returns the partitions of each member. Static members come
    first, by their instance ids, so that they keep their ranges when they return with new member ids."""
    ordered = sorted(subscribers, key=_static_first)
    assigned: dict[str, set[PartitionOfId]] = {subscriber.member_id: set() for subscriber in subscribers}
    for topic_id, count in counts.items():
        sharing = [subscriber for subscriber in ordered if topic_id in subscriber.topic_ids]
        first = 0
        for place, subscriber in enumerate(sharing):
            size = count // len(sharing) + (place < count % len(sharing))
            assigned[subscriber.member_id].update((topic_id, first + number) for number in range(size))
            first += size
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def assign_uniformly(subscribers: Sequence[Subscriber], counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Takes and returns what ``assign_ranges`` does. No member has more than one partition more than another with the
    same subscription."""
    if not subscribers:
        return {}
    if len({subscriber.topic_ids for subscriber in subscribers}) == 1:
        return _assign_to_equals(subscribers, counts)
    return _Balance(subscribers, counts).assigned()


ASSIGNORS: Mapping[str, Assignor] = {UNIFORM: assign_uniformly, RANGE: assign_ranges}


def _static_first(subscriber: Subscriber) -> tuple[bool, str]:
    return subscriber.instance_id is None, subscriber.instance_id or subscriber.member_id


def _partitions_of(topic_ids: Collection[bytes], counts: Mapping[bytes, int]) -> list[PartitionOfId]:
    return [(topic_id, number) for topic_id in sorted(topic_ids) for number in range(counts.get(topic_id, 0))]


def _assign_to_equals(
    subscribers: Sequence[Subscriber], counts: Mapping[bytes, int]
) -> dict[str, Partitions]:
    """Each member keeps up to its quota of what it has; the members that have most keep the one partition more."""
    free = dict.fromkeys(_partitions_of(subscribers[0].topic_ids, counts))
    quota, larger = divmod(len(free), len(subscribers))
    kept: dict[str, list[PartitionOfId]] = {}
    room: dict[str, int] = {}
    by_load = sorted(subscribers, key=lambda each: (-len(each.before & free.keys()), each.member_id))
    for place, subscriber in enumerate(by_load):
        own_quota = quota + (place < larger)
        own = [partition for partition in sorted(subscriber.before) if partition in free][:own_quota]
        for partition in own:
            del free[partition]
        kept[subscriber.member_id] = own
        room[subscriber.member_id] = own_quota - len(own)
    left = iter(free)
    for member_id, places in room.items():
        kept[member_id] += [next(left) for _ in range(places)]
    return {member_id: frozenset(partitions) for member_id, partitions in kept.items()}


class _Balance:
    """Partitions of members with different subscriptions, moved until no move makes two loads more alike."""

    def __init__(self, subscribers: Sequence[Subscriber], counts: Mapping[bytes, int]) -> None:
        self._of: dict[str, set[PartitionOfId]] = {}
        self._owner: dict[PartitionOfId, str] = {}
        self._sharing: defaultdict[bytes, list[str]] = defaultdict(list)
        self._partitions: list[PartitionOfId] = []
        ordered = sorted(subscribers, key=lambda each: each.member_id)
        for subscriber in ordered:
            self._of[subscriber.member_id] = set()
            for topic_id in subscriber.topic_ids & counts.keys():
                self._sharing[topic_id].append(subscriber.member_id)
        self._partitions = _partitions_of(self._sharing, counts)
        existing = set(self._partitions)
        for subscriber in ordered:
            for partition in sorted(subscriber.before & existing):
                if partition[0] in subscriber.topic_ids and partition not in self._owner:
                    self._give(partition, subscriber.member_id)

    def assigned(self) -> dict[str, Partitions]:
        # Topics with few subscribers first: their partitions have the least choice.
        for partition in sorted(self._partitions, key=lambda each: (len(self._sharing[each[0]]), each)):
            if partition not in self._owner:
                self._give(partition, self._least_loaded(partition))
        while self._moved_one():
            pass
        return {member_id: frozenset(partitions) for member_id, partitions in self._of.items()}

    def _moved_one(self) -> bool:
        """Each move makes the sum of the squares of the loads smaller, so they end."""
        moved = False
        for partition in self._partitions:
            owner, least = self._owner[partition], self._least_loaded(partition)
            if len(self._of[owner]) > len(self._of[least]) + 1:
                self._of[owner].remove(partition)
                self._give(partition, least)
                moved = True
        return moved

    def _least_loaded(self, partition: PartitionOfId) -> str:
        return min(self._sharing[partition[0]], key=lambda member_id: (len(self._of[member_id]), member_id))

    def _give(self, partition: PartitionOfId, member_id: str) -> None:
        self._owner[partition] = member_id
        self._of[member_id].add(partition)
