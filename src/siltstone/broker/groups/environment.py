"""What all coordinators of a node share.

What all groups of this node take in memory, against its limit.
"""

import logging
from collections.abc import Callable, Collection

import msgspec

from siltstone.broker.groups.ports import KnownTopics
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.groups.timers import TimerHeap
from siltstone.runtime.clock import Clock

log = logging.getLogger(__name__)


class GroupMemory:
    def __init__(self, settings: GroupSettings) -> None:
        self._bytes_max = settings.groups_bytes_max
        self._told = False
        self.bytes_used = 0

    def charge(self, change_bytes: int) -> None:
        self.bytes_used += change_bytes

    @property
    def is_full(self) -> bool:
        """Says so once in the log, each time it becomes full."""
        is_full = self.bytes_used >= self._bytes_max
        if is_full and not self._told:
            log.warning(
                "consumer groups take %d bytes: new members and new offsets are refused; raise groups_bytes_max, or "
                "delete groups",
                self.bytes_used,
            )
        self._told = is_full
        return is_full


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
