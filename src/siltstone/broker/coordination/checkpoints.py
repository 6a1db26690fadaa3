"""Writes the live state of a coordinator again at the end of its log, and trims what is before it.

Requests continue meanwhile and change the state, and the log is right all the same: each record has the value of the
moment in which it is appended, and a later change comes later in the log. What is removed has its tombstone after the
start of the checkpoint or, if it was removed before, no record in it.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

Step = TypeVar("Step")


class TrimmedLog(Protocol):
    @property
    def next_offset(self) -> int: ...

    async def trim_before(self, offset: int) -> None: ...


class LogSize(msgspec.Struct):
    """The size of a log in records. ``read``: how many records were read at loading, or, below zero, how many a
    checkpoint has trimmed. ``added``: how many were appended since loading. A log is long when it has more than
    ``records_min`` records, and more than ``live_factor`` times its live ones."""

    records_min: int
    live_factor: int
    read: int = 0
    added: int = 0

    @property
    def records(self) -> int:
        """The number of records that loading would read."""
        return self.read + self.added

    def is_long(self, live_records: int) -> bool:
        return self.records > max(self.records_min, self.live_factor * live_records)


async def write_again(
    log: TrimmedLog, length: LogSize, steps: Iterable[Step], append: Callable[[Step], Awaitable[bool]]
) -> bool:
    """``steps`` yields records as they are at that moment, some milliseconds of the event loop at a time. ``append``
    returns whether they are durable. False: an append failed, and nothing was trimmed. Raises what appending and
    trimming raise. The log counts as trimmed in any case: else each new record would start the next checkpoint."""
    start_offset = log.next_offset
    length.read = -length.added
    for step in steps:
        if not await append(step):
            return False
    await log.trim_before(start_offset)
    return True
