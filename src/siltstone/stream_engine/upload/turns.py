"""Taking turns in a fixed order: ticket n, counted from 0, may enter when all tickets before it have left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """A holder that fails does not pass the turn on: what comes after it must not happen."""

    def __init__(self) -> None:
        self._serving = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(self, ticket: int) -> AsyncIterator[None]:
        if ticket != self._serving:
            waiting = self._waiting[ticket] = asyncio.get_running_loop().create_future()
            await waiting
        yield
        self._serving += 1
        follower = self._waiting.pop(self._serving, None)
        if follower is not None and not follower.done():
            follower.set_result(None)
