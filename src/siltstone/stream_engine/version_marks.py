"""Marks the version of the metadata in the bucket: when the engine starts, from time to time, and at a clean stop.

By these marks an older copy of the metadata is refused (rule 11, ``object_store.metadata_mark``). Nothing is lost when
a mark fails: the next one replaces it, and until then an older copy is recognised by object ids alone.
"""

import logging

from siltstone.metadata.service import MetadataService
from siltstone.model.errors import SiltstoneError
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock

log = logging.getLogger(__name__)

MARK_INTERVAL_MS = 60_000
"""A mark costs two or three small requests, and only when the metadata has changed since the last one."""


class VersionMarks:
    """The marks of one node in the bucket of its new objects; without a guard it does nothing."""

    def __init__(
        self, guard: BucketGuard | None, metadata: MetadataService, calls: BlockingCalls, clock: Clock
    ) -> None:
        self._guard = guard
        self._metadata = metadata
        self._calls = calls
        self._clock = clock
        self._version_marked = -1

    async def from_time_to_time(self) -> None:
        """Marks at once, and then whenever the metadata has changed, until it is cancelled."""
        while True:
            await self.mark()
            await self._clock.sleep_ms(MARK_INTERVAL_MS)

    async def mark(self) -> None:
        """Marks the version that the metadata has now, unless it is marked already."""
        image = self._metadata.image
        if self._guard is None or image.version == self._version_marked:
            return
        try:
            await self._calls.run(self._guard.note, image.version, image.next_object_id)
        except SiltstoneError as trouble:
            log.warning("the version of the metadata could not be marked in the bucket: %s", trouble)
        else:
            self._version_marked = image.version
