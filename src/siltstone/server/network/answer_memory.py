"""The bytes of answers that their connections leave unread, of all connections together.

Counted are connections with more than ``connection_answer_bytes_max`` unread; the others hold less than that each. From
half the limit on, connections that receive much wait in line before their next request is begun; who stores records is
not held up by who reads them. At the limit whoever leaves most unread is closed: memory is bounded, and peers that
stopped reading are the first to go.

Answers that hold no more memory than they count for.

A batch that was read from the bucket is a slice of its block, half a MiB and more. As long as it waits to be sent it
keeps all of that, evicted from the cache or not, and is counted for its own bytes: a thousand slow readers of small
batches would hold what no limit knows of (rule 9).
"""

from typing import Protocol

from siltstone.model.buffers import Buffer
from siltstone.server.network.waiting_line import Waiter, WaitingLine

HELD_PER_SENT_MAX = 4
"""What an answer may hold for each byte of it. So what is copied is never much: a quarter of a block."""


def unpinned(answers: list[Buffer]) -> list[Buffer]:
    """The same bytes; slices of which too little of their whole is sent are copied."""
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
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._unread: dict[Writer, int] = {}
        self.line: WaitingLine[Writer] = WaitingLine(self._places)
        self.bytes_used = 0

    def note(self, writer: Writer) -> None:
        """It has much unread; said after each of its answers."""
        self._set(writer, writer.unread_bytes)
        if self.bytes_used >= self._bytes_max:
            self._close_the_worst()

    def forget(self, writer: Writer) -> None:
        """It has taken its answers, or is gone."""
        self.bytes_used -= self._unread.pop(writer, 0)
        self.line.room_made()

    def refresh(self) -> None:
        """What was taken since: the event loop tells only when nearly all is."""
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
