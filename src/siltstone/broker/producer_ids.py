"""Ids of idempotent producers: never given twice, in the whole store. Taken from the metadata in blocks, so that only
one in a thousand costs a command; what is left of a block when the broker ends is not used any more."""

import asyncio

from siltstone.metadata.commands import TakeNumbers
from siltstone.metadata.service import MetadataService

SEQUENCE = "producer-ids"
BLOCK_SIZE = 1_000
"""As many as Kafka takes at a time."""


class ProducerIds:
    def __init__(self, metadata: MetadataService) -> None:
        self._metadata = metadata
        self._left = iter(range(0))
        self._taking = asyncio.Lock()

    async def next(self) -> int:
        """Raises Unavailable. Who waits for a block waits for one."""
        async with self._taking:
            producer_id = next(self._left, None)
            if producer_id is None:
                first = await self._metadata.execute(TakeNumbers(SEQUENCE, BLOCK_SIZE))
                self._left = iter(range(first + 1, first + BLOCK_SIZE))
                return first
            return producer_id
