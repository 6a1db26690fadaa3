"""Sealing: the active cache block is sealed and submitted for upload when it is large enough, has enough streams or is
old enough, and when the engine needs room or has to commit everything."""

from collections.abc import Callable

from siltstone.runtime.clock import Clock
from siltstone.stream_engine.settings import UploadSettings
from siltstone.stream_engine.tail.cache_block import CacheBlock
from siltstone.stream_engine.tail.tail_cache import TailCache


class Sealing:
    """``submit`` is called with each sealed block, in seal order."""

    def __init__(
        self, cache: TailCache, settings: UploadSettings, clock: Clock, submit: Callable[[CacheBlock], None]
    ) -> None:
        self._cache = cache
        self._settings = settings
        self._clock = clock
        self._submit = submit
        self._is_stopped = False

    def batch_cached(self) -> None:
        """Seals the active block when the batch that was just put into it makes the block large enough."""
        active = self._cache.active
        if active.first_put_ms is None:
            active.first_put_ms = self._clock.monotonic_ms()
        if (
            active.size_bytes >= self._settings.cache_block_bytes_max
            or len(active.streams) >= self._settings.cache_block_streams_max
        ):
            self.seal()

    def seal(self) -> None:
        if not self._is_stopped and not self._cache.active.is_empty:
            self._submit(self._cache.seal())

    def stop(self) -> None:
        """Seals nothing any more. After a failure nothing can be committed; readers still read what is in the cache."""
        self._is_stopped = True

    async def by_age(self) -> None:
        """Seals the active block whenever it is ``cache_block_age_ms_max`` old; runs until it is cancelled."""
        age_ms_max = self._settings.cache_block_age_ms_max
        while True:
            first_put_ms = self._cache.active.first_put_ms
            age_ms = 0.0 if first_put_ms is None else self._clock.monotonic_ms() - first_put_ms
            if age_ms >= age_ms_max:
                self.seal()
            await self._clock.sleep_ms(max(age_ms_max - age_ms, age_ms_max / 10))
