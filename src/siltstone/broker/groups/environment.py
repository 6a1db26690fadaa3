"""What all coordinators of a node share."""

import msgspec

from siltstone.broker.groups.memory import GroupMemory
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.groups.timers import TimerHeap
from siltstone.runtime.clock import Clock


class GroupEnvironment(msgspec.Struct, frozen=True):
    settings: GroupSettings
    clock: Clock
    timers: TimerHeap
    memory: GroupMemory
