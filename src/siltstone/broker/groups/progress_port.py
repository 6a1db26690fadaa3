"""The port between groups and what maintenance is told of them: it must never believe a group further than it is."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from siltstone.broker.groups.rules.requests import TopicPartition

NO_OFFSET = -1
"""Where an offset is to be no more."""


class GroupProgressPort(Protocol):
    def holding_back(
        self, group: str, offsets: Mapping[TopicPartition, int]
    ) -> AbstractAsyncContextManager[None]:
        """Around what makes these a group's offsets. Raises SiltstoneError when it may not be done now."""
        ...

    def has_counted(self, group: str) -> bool:
        """Whether somebody waits for it because of what it has committed."""
        ...

    async def let_go(self, group: str) -> None:
        """It was deleted."""
        ...
