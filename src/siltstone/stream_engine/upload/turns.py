"""Taking turns in a fixed order: ticket n may enter when all tickets before it have left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """A holder that fails does not pass the turn on: what comes after it must not happen."""

    def __init__(self) -> None:
        self._next_ticket = 0
        self._serving = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def next(self) -> int:
        self._next_ticket += 1
        return self._next_ticket - 1

    @asynccontextmanager
    async def turn(self, ticket: int) -> AsyncIterator[None]:
        if ticket != self._serving:
            waiting = self._waiting[ticket] = asyncio.get_running_loop().create_future()
            await waiting
        yield
        self._serving += 1
        if follower := self._waiting.pop(self._serving, None):
            follower.set_result(None)
