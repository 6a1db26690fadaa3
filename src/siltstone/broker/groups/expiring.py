"""Offsets past their retention time are looked for every so often, a thousand in each turn of the event loop."""

from collections import deque
from collections.abc import Callable

from siltstone.broker.groups.cells import GroupCells
from siltstone.broker.groups.environment import GroupEnvironment
from siltstone.broker.groups.rules.requests import ExpireOffsets
from siltstone.model.limits import OFFSETS_LOOKED_AT_PER_TURN


class OffsetExpiry:
    def __init__(
        self, groups: GroupCells, environment: GroupEnvironment, on_failure: Callable[[Exception], None]
    ) -> None:
        self._groups = groups
        self._environment = environment
        self._on_failure = on_failure
        self._left: deque[str] = deque()

    def start(self) -> None:
        interval_ms = self._environment.settings.offsets_retention_check_interval_ms
        self._environment.timers.set(self, interval_ms, self._turn)

    def stop(self) -> None:
        self._environment.timers.cancel(self)

    def _turn(self) -> None:
        try:
            self._look()
        except Exception as bug:
            self._on_failure(bug)
            return
        if self._left:
            self._environment.timers.set(self, 0, self._turn)
        else:
            self.start()

    def _look(self) -> None:
        if not self._left:
            self._left.extend(self._groups.cells)
        looked_at = 0
        while self._left and looked_at < OFFSETS_LOOKED_AT_PER_TURN:
            group_id = self._left.popleft()
            cell = self._groups.cells.get(group_id)
            if cell is not None:
                looked_at += 1 + len(cell.offsets)
                kept_topics = self._environment.keeping_topics_of(group_id)
                self._groups.tell(group_id, ExpireOffsets(cell.offsets, kept_topics))
