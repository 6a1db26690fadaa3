import asyncio
import gc

from siltstone.model.version import VERSION
from siltstone.runtime.clock import ManualClock
from siltstone.server.admin.process_source import LAG_INTERVAL_MS, ProcessSource
from support.engine.engine_world import settled
from support.metrics.scraping import collected_of, rows_of
from support.scenarios import in_loop


def test_the_process_is_described():
    source = ProcessSource(lambda: True, ManualClock(5_000))
    found = collected_of(source)
    source.close()
    ((version, _),) = rows_of(found, "build")
    assert version == VERSION
    assert rows_of(found, "start_time_seconds") == {(): 5.0}
    assert rows_of(found, "ready") == {(): 1}
    assert rows_of(found, "process_cpu_seconds")[()] > 0
    assert rows_of(found, "process_resident_memory_bytes")[()] > 1_000_000


@in_loop
async def test_the_lag_of_the_event_loop_is_how_late_a_timer_rings() -> None:
    clock = ManualClock()
    source = ProcessSource(lambda: True, clock)
    watching = asyncio.ensure_future(source.watch())
    await settled()
    clock.advance_ms(LAG_INTERVAL_MS)
    await settled()
    clock.advance_ms(LAG_INTERVAL_MS)
    clock.block_ms(300)  # something held the loop
    await settled()
    watching.cancel()
    source.close()
    lag = source._lag.counts()
    assert (lag.count, lag.total) == (2, 0.3)


class PassingClock(ManualClock):
    def monotonic_ms(self) -> float:
        self.block_ms(10)
        return super().monotonic_ms()


def test_collections_of_garbage_are_timed_until_the_end():
    callbacks = list(gc.callbacks)
    source = ProcessSource(lambda: True, PassingClock())
    gc.collect()
    found = rows_of(collected_of(source), "gc_seconds")[()]
    source.close()
    source.close()
    assert found == 0.01
    assert gc.callbacks == callbacks
