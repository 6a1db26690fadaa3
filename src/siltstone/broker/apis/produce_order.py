"""Batches of one connection are appended to a partition in the order in which they came (item 24), also when some of
the requests have to wait before they append: for a partition to be opened, for a check of many records, for a
hand-over.

A Produce that waits is overtaken by later Produces of its connection, unless they name one of its partitions: these
wait until it has appended. So one partition that is opened holds back no other, and a producer of a thousand
partitions, which sends a request for each, has them opened side by side. A request of another kind begins when all of
them have ended (``server.network.request_pipeline``): what the client sent before it has then happened.
"""

import asyncio
from collections.abc import Collection
from typing import Self

from siltstone.broker.partitions.partitions import PartitionKey
from siltstone.broker.request import ConnectionContext


def has_to_queue(connection: ConnectionContext, keys: Collection[PartitionKey]) -> bool:
    """Returns whether an earlier Produce of the connection waits for one of these partitions."""
    return not connection.produces_waiting.keys().isdisjoint(keys)


class Turn:
    """The place of a Produce in the queue of each partition that it names. Making a turn takes the place. The block of
    ``async with`` begins when the earlier turns have ended, and this turn ends with the block."""

    def __init__(self, connection: ConnectionContext, keys: Collection[PartitionKey]) -> None:
        self._waiting = connection.produces_waiting
        self._keys = keys
        self._before = {self._waiting[key] for key in keys if key in self._waiting}
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.update(dict.fromkeys(keys, self._ended))

    async def __aenter__(self) -> Self:
        if self._before:
            await asyncio.wait(self._before)
        return self

    async def __aexit__(self, *_: object) -> None:
        for key in self._keys:
            if self._waiting.get(key) is self._ended:
                del self._waiting[key]
        self._ended.set_result(None)
