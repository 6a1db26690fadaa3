"""What all coordinators of a node share."""

from collections.abc import Callable, Collection

import msgspec

from siltstone.broker.groups.memory import GroupMemory
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.groups.timers import TimerHeap
from siltstone.broker.groups.topics_port import KnownTopics
from siltstone.runtime.clock import Clock


def _none(_: str) -> Collection[str]:
    return ()


class GroupEnvironment(msgspec.Struct, frozen=True):
    """``topics``: those there are. ``keeping_topics_of`` gives the names of those that a group is registered with."""

    settings: GroupSettings
    clock: Clock
    timers: TimerHeap
    memory: GroupMemory
    topics: KnownTopics
    keeping_topics_of: Callable[[str], Collection[str]] = _none
