"""Marks the version of the metadata in the buckets: when the engine starts, from time to time, and at a clean stop.

By these marks an older copy of the metadata is refused (rule 11, ``object_store.metadata_mark``). Nothing is lost when
a mark fails: the next one replaces it, and until then an older copy is recognised by object ids alone.
"""

import asyncio
import logging
from collections.abc import Mapping

from siltstone.metadata.image import MetadataImage
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import SiltstoneError
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock

log = logging.getLogger(__name__)

MARK_INTERVAL_MS = 60_000
"""A mark costs two or three small requests, and only when the metadata has changed since the last one."""


class VersionMarks:
    """The marks of one node in the buckets that it has checked; without guards it does nothing."""

    def __init__(
        self,
        guards: Mapping[int, BucketGuard],
        metadata: MetadataService,
        calls: BlockingCalls,
        clock: Clock,
    ) -> None:
        self._guards = guards
        self._metadata = metadata
        self._calls = calls
        self._clock = clock
        self._versions_marked: dict[int, int] = {}

    async def from_time_to_time(self) -> None:
        """Marks at once, and then whenever the metadata has changed, until it is cancelled."""
        while True:
            await self.mark()
            await self._clock.sleep_ms(MARK_INTERVAL_MS)

    async def mark(self) -> None:
        """Marks the version that the metadata has now in each bucket, unless it is marked there already. The buckets
        are asked side by side, so one that hangs delays no other."""
        image = self._metadata.image
        await asyncio.gather(
            *(
                self._mark(bucket_id, guard, image)
                for bucket_id, guard in self._guards.items()
                if image.version != self._versions_marked.get(bucket_id)
            )
        )

    async def _mark(self, bucket_id: int, guard: BucketGuard, image: MetadataImage) -> None:
        try:
            await self._calls.run(guard.note, image)
        except SiltstoneError as trouble:
            log.warning(
                "the version of the metadata could not be marked in bucket %d: %s", bucket_id, trouble
            )
        else:
            self._versions_marked[bucket_id] = image.version
