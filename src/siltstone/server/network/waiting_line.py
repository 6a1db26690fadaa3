"""A queue of connections that wait for the same resource, in the order of their arrival."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar


class Waiter(Protocol):
    def go_on(self) -> None:
        """Called when it is the waiter's turn. The waiter may join the line again, at the end."""
        ...


W = TypeVar("W", bound=Waiter)


class WaitingLine(Generic[W]):
    """``places`` returns how many waiters may continue now. While waiters and places remain, it is called again after
    the admitted waiters have had a turn of the event loop to read, because only then it reflects the memory they
    took."""

    def __init__(self, places: Callable[[], int]) -> None:
        self._places = places
        self._waiting: OrderedDict[W, None] = OrderedDict()
        self._first: W | None = None
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[W]:
        return iter(self._waiting)

    def admits(self, waiter: W) -> bool:
        """Returns whether the waiter may continue at once. If not, the waiter joins the line, or keeps its place in
        it."""
        if self._places() and (not self._waiting or waiter is self._first):
            return True
        self._waiting[waiter] = None
        return False

    def leave(self, waiter: W) -> None:
        self._waiting.pop(waiter, None)

    def room_made(self) -> None:
        """Lets waiters continue, if there are places. They do so in the next turn of the event loop, so that they do
        not run in the middle of the caller's work."""
        if self._waiting and not self._is_scheduled and self._places():
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._let_through)

    def _let_through(self) -> None:
        places = self._places()
        while places > 0 and self._waiting:
            self._first, _ = self._waiting.popitem(last=False)
            self._first.go_on()
            places = min(places - 1, self._places())
        self._first = None
        asyncio.get_running_loop().call_soon(self._after_their_turn)

    def _after_their_turn(self) -> None:
        self._is_scheduled = False
        self.room_made()
