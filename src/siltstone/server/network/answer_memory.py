"""Limits the memory of answers that clients have not read yet, of all connections together.

Only connections with more than ``connection_answer_bytes_max`` of unread answers are counted; each other one holds
less than that. From half the limit on, connections that receive large answers wait in line before their next request
is started; connections that only produce records do not wait. At the limit, the connection with the most unread bytes
is closed. So memory is bounded, and clients that have stopped reading are closed first.

``unpinned`` makes the count true. A batch that was read from the bucket is a small slice of a block of half a MiB or
more. While the slice waits to be sent, it keeps the whole block in memory, even if the cache has evicted the block. A
thousand slow readers of small batches would then hold memory that no limit counts (rule 9), so such slices are
copied.
"""

from typing import Protocol

from siltstone.model.buffers import Buffer
from siltstone.server.network.waiting_line import Waiter, WaitingLine

HELD_PER_SENT_MAX = 4
"""How many bytes of a block an answer may keep in memory per byte that it sends. A slice is copied if it is less than a
quarter of its block, so a copy is never large."""


def unpinned(answers: list[Buffer]) -> list[Buffer]:
    """Returns the same bytes; copies a slice if too little of its block is sent."""
    sent_of: dict[int, int] = {}
    whole_of: dict[int, object] = {}
    for answer in answers:
        if isinstance(answer, memoryview):
            whole = answer.obj
            number = id(whole)
            whole_of[number] = whole
            sent_of[number] = sent_of.get(number, 0) + len(answer)
    small = {
        number
        for number, sent_bytes in sent_of.items()
        if HELD_PER_SENT_MAX * sent_bytes < memoryview(whole_of[number]).nbytes  # type: ignore[arg-type]
    }
    return [_copied_if(answer, small) for answer in answers] if small else answers


def _copied_if(answer: Buffer, small: set[int]) -> Buffer:
    return bytes(answer) if isinstance(answer, memoryview) and id(answer.obj) in small else answer


class Writer(Waiter, Protocol):
    @property
    def unread_bytes(self) -> int: ...

    def close_for_unread_answers(self) -> None: ...


class AnswerMemory:
    """The unread answers of all connections that have much unread, against ``bytes_max``."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._unread: dict[Writer, int] = {}
        self.line: WaitingLine[Writer] = WaitingLine(self._places)
        self.bytes_used = 0

    def note(self, writer: Writer) -> None:
        """Counts the unread bytes of a connection that has much unread; it calls this after each of its answers."""
        self._set(writer, writer.unread_bytes)
        if self.bytes_used >= self._bytes_max:
            self._close_the_worst()

    def forget(self, writer: Writer) -> None:
        """Stops counting a connection whose client has read the answers, or that is closed."""
        self.bytes_used -= self._unread.pop(writer, 0)
        self.line.room_made()

    def refresh(self) -> None:
        """Updates the unread bytes of all counted connections: the event loop reports only when a client has read
        nearly everything."""
        for writer in self._unread:
            self._set(writer, writer.unread_bytes)
        self.line.room_made()

    def _set(self, writer: Writer, unread_bytes: int) -> None:
        self.bytes_used += unread_bytes - self._unread.get(writer, 0)
        self._unread[writer] = unread_bytes

    def _places(self) -> int:
        return 0 if 2 * self.bytes_used >= self._bytes_max else 1

    def _close_the_worst(self) -> None:
        self.refresh()
        while self._unread and self.bytes_used >= self._bytes_max:
            worst = max(self._unread, key=self._unread.__getitem__)
            self.forget(worst)
            worst.close_for_unread_answers()
