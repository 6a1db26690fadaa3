"""When the active cache block is closed and sent on its way: by size, by number of streams, by age, and when asked."""

from collections.abc import Callable

from siltstone.runtime.clock import Clock
from siltstone.stream_engine.settings import UploadSettings
from siltstone.stream_engine.tail.cache_block import CacheBlock
from siltstone.stream_engine.tail.tail_cache import TailCache


class Sealing:
    """``submit`` takes sealed blocks, in seal order."""

    def __init__(
        self, cache: TailCache, settings: UploadSettings, clock: Clock, submit: Callable[[CacheBlock], None]
    ) -> None:
        self._cache = cache
        self._settings = settings
        self._clock = clock
        self._submit = submit
        self._is_stopped = False

    def batch_cached(self) -> None:
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
        """After a failure nothing can be committed: what stands in the cache is read there until the end."""
        self._is_stopped = True

    async def by_age(self) -> None:
        age_ms_max = self._settings.cache_block_age_ms_max
        while True:
            first_put_ms = self._cache.active.first_put_ms
            age_ms = 0.0 if first_put_ms is None else self._clock.monotonic_ms() - first_put_ms
            if age_ms >= age_ms_max:
                self.seal()
            await self._clock.sleep_ms(max(age_ms_max - age_ms, age_ms_max / 10))
