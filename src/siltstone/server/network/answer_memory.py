"""The bytes of answers that their connections leave unread, of all connections together.

Counted are connections with more than ``connection_answer_bytes_max`` unread; the others hold less than that each. From
half the limit on, connections that receive much wait in line before their next request is begun; who stores records is
not held up by who reads them. At the limit whoever leaves most unread is closed: memory is bounded, and peers that
stopped reading are the first to go.
"""

from typing import Protocol

from siltstone.server.network.waiting_line import Waiter, WaitingLine


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
