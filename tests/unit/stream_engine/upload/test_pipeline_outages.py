"""The upload pipeline in outages: attempts, time limits, and objects that are prepared again."""

import itertools
from random import Random

import pytest

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import (
    ExpireObjects,
)
from siltstone.metadata.service import ServiceClosed
from siltstone.model.limits import DAY_MS, MINUTE_MS
from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.object_store.port import StoreDenied
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.tail.cache_block import CacheBlock, CachedBatch
from siltstone.stream_engine.upload.outage import (
    HANGING_MS,
    LOG_INTERVAL_MS,
    RETRY_INTERVAL_MS_MAX,
    RETRY_INTERVAL_MS_MIN,
)
from support.engine.batches import batch
from support.engine.engine_world import settled
from support.engine.held_pipeline import Pipeline, run


async def passing(at: Pipeline, until, step_ms: float = 1000) -> None:
    for _ in range(3600):
        await settled()
        if until():
            return
        at.clock.advance_ms(step_ms)
    raise AssertionError("an hour has passed")


def test_an_outage_longer_than_the_time_limit_ends_with_objects_that_are_prepared_anew(caplog):
    """After each limit new ids are prepared, with twice the time; nothing is put under an id that was given up."""

    async def scenario():
        at = Pipeline(time_limit_ms=MINUTE_MS)
        put, keys = at.store.put, []

        def refuse(key, buffers):
            keys.append(key)
            raise StoreDenied("the token has expired")

        at.store.put = refuse
        at.pipeline.submit(at.block(0, 100))
        await passing(at, lambda: len(set(keys)) == 3)
        assert at.clock.now_ms() - Pipeline().clock.now_ms() >= 3 * MINUTE_MS
        outage = at.pipeline.statistics().outage
        assert outage.place == at.store.url and "the token has expired" in outage.cause
        at.store.put = put
        await passing(at, lambda: at.end_of() == 1)
        assert not at.failures
        assert at.pipeline.statistics().outage is None
        assert [summary.key for summary in at.store.list()] == [keys[-1]]
        lines = [record for record in caplog.records if record.levelname == "ERROR"]
        assert len(lines) <= 1 + 4 * MINUTE_MS / LOG_INTERVAL_MS
        assert at.store.url in lines[0].message and "permission to write" in lines[0].message

    run(scenario)


@pytest.mark.parametrize("name", ["prepare 1", "put 1", "commit 1"])
def test_an_attempt_without_an_answer_is_an_outage_after_a_minute(name, caplog):
    async def scenario():
        at = Pipeline()
        at.gate.hold(name)
        at.pipeline.submit(at.block(0, 100))
        await settled()
        at.clock.advance_ms(HANGING_MS - 1)
        await settled()
        assert at.pipeline.outage is None
        at.clock.advance_ms(1)
        await settled()
        assert at.pipeline.outage is not None and "no answer for 60.0 s" in at.pipeline.outage.cause
        await at.gate.release(name)
        assert at.pipeline.outage is None and at.end_of() == 1
        assert "and tries again: no answer for 60.0 s" in caplog.text

    run(scenario)


def test_attempts_come_at_growing_intervals():
    async def scenario():
        at = Pipeline()
        times = []

        def refuse(key, buffers):
            times.append(at.clock.monotonic_ms())
            raise StoreDenied("no")

        at.store.put = refuse
        at.pipeline.submit(at.block(0, 100))
        await passing(at, lambda: len(times) == 8, step_ms=100)
        waits = [after - before for before, after in itertools.pairwise(times)]
        assert waits[:2] == [RETRY_INTERVAL_MS_MIN, 2 * RETRY_INTERVAL_MS_MIN]
        assert waits[-2:] == [RETRY_INTERVAL_MS_MAX] * 2

    run(scenario)


def test_objects_that_a_maintainer_gave_up_are_prepared_anew_and_uploaded_once_more():
    """Its clock is days ahead, so it expires what was prepared a moment ago."""

    async def scenario():
        at = Pipeline()
        at.gate.hold("commit 1")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        ahead = ManualClock(at.clock.now_ms() + 3 * DAY_MS)
        expired = MetadataClient(at.log, ahead, Random(2)).execute(ExpireObjects(count_max=10))
        assert expired == (0, 1)
        await at.gate.release("commit 1")
        await at.pipeline.drain()
        assert not at.failures
        assert at.end_of() == 2
        assert sorted(held.object_id for held in at.client.image.streams[at.streams[0]].ranges) == [2, 3]

    run(scenario)


def test_sweeps_of_a_clock_that_is_ahead_cost_uploads_and_lose_nothing():
    """However far ahead: the upload is committed by the first try that no sweep meets."""

    async def scenario():
        at = Pipeline()
        ahead = ManualClock(at.clock.now_ms() + 300 * DAY_MS)
        maintainer = MetadataClient(at.log, ahead, Random(2))
        tries = 5
        for number in range(1, tries + 1):
            at.gate.hold(f"commit {number}")
        at.pipeline.submit(at.block(0, 100))
        for number in range(1, tries + 1):
            await settled()
            assert maintainer.execute(ExpireObjects(count_max=10)) == (number - 1,)
            await at.gate.release(f"commit {number}")
        await at.pipeline.drain()
        assert not at.failures
        assert [held.object_id for held in at.client.image.streams[at.streams[0]].ranges] == [tries]
        assert at.end_of() == 1

    run(scenario)


def test_an_upload_that_took_longer_than_the_limit_is_prepared_anew_before_its_commit():
    async def scenario():
        at = Pipeline(time_limit_ms=MINUTE_MS)
        at.gate.hold("put 1")
        at.pipeline.submit(at.block(0, 100))
        await settled()
        at.clock.advance_ms(2 * MINUTE_MS)
        await at.gate.release("put 1")
        await at.pipeline.drain()
        assert at.events.count("commit 1") == 1 and "prepare 2 done" in at.events
        assert at.events.index("prepare 2") < at.events.index("commit 1")
        assert (at.end_of(), at.failures) == (1, [])

    run(scenario)


@pytest.mark.parametrize("name", ["prepare 1", "commit 1"])
def test_metadata_that_is_closed_for_good_is_not_asked_for_an_hour(name):
    """A service that has failed answers nothing any more in this process: acknowledging on would only fill the log."""

    async def scenario():
        at = Pipeline()
        at.gate.hold(name)
        at.pipeline.submit(at.block(0, 100))
        await settled()
        await at.gate.refuse(name, ServiceClosed("it failed; restart the process"))
        assert [type(failure) for failure in at.failures] == [ServiceClosed]

    run(scenario)


def test_no_more_uploads_than_allowed_are_in_flight():
    async def scenario():
        at = Pipeline(uploads_in_flight_max=2)
        at.gate.hold("put 1")
        for offset in range(4):
            at.pipeline.submit(at.block(offset, offset))
        await settled()
        assert [event for event in at.events if event.startswith("prepare") and "done" not in event] == [
            "prepare 1",
            "prepare 2",
        ]
        assert at.pipeline.statistics().blocks_in_flight == 4
        await at.gate.release("put 1")
        await at.pipeline.drain()
        assert at.end_of() == 4

    run(scenario)


def test_objects_have_the_ids_that_were_prepared_and_the_commit_names_them_all():
    async def scenario():
        at = Pipeline(split_size_bytes=1000)
        block = CacheBlock()
        for stream, payload_bytes in ((0, 100), (1, 100), (2, 2000)):
            one = batch(at.streams[stream], 0, 1, payload_bytes)
            block.put(CachedBatch(one, encode_frame_header(one)), 1)
        block.seal()
        at.pipeline.submit(block)
        await at.pipeline.drain()
        kinds = {key: at.client.image.objects[key].kind.label for key in (0, 1)}
        assert kinds == {0: "SSO", 1: "SO"}
        statistics = at.pipeline.statistics()
        assert (statistics.blocks_committed, statistics.objects_committed) == (1, 2)
        assert statistics.bytes_uploaded == sum(one.size_bytes for one in at.store.list())

    run(scenario)


def test_abort_ends_what_is_under_way():
    async def scenario():
        at = Pipeline()
        at.gate.hold("put 1")
        at.pipeline.submit(at.block(0, 100))
        await settled()
        await at.pipeline.abort()
        await at.pipeline.drain()
        assert at.pipeline.statistics().blocks_in_flight == 0
        assert not at.failures

    run(scenario)
