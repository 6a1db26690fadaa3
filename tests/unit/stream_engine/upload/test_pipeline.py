"""T15 and the rest of the pipeline's life, with every command and every put held until the test lets it go."""

import asyncio
import itertools
from random import Random

import pytest

from siltstone.metadata.client import CommitUnknown, MetadataClient
from siltstone.metadata.commands import (
    CommitUpload,
    CreateStream,
    ExpireObjects,
    FenceNode,
    OpenStream,
    PrepareObjects,
    RegisterNode,
    ResumeNode,
)
from siltstone.metadata.refusals import NodeEpochExpired
from siltstone.metadata.service import ServiceClosed
from siltstone.metadata.store.memory import MemoryLog
from siltstone.model.limits import DAY_MS, MINUTE_MS
from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectTruncated, StoreDenied, StoreTransient
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.settings import UploadSettings
from siltstone.stream_engine.tail.cache_block import CacheBlock, CachedBatch
from siltstone.stream_engine.upload.outage import (
    HANGING_MS,
    LOG_INTERVAL_MS,
    RETRY_INTERVAL_MS_MAX,
    RETRY_INTERVAL_MS_MIN,
)
from siltstone.stream_engine.upload.pipeline import UploadPipeline
from support.engine.batches import batch
from support.engine.engine_world import settled

NODE = 0


class Gate:
    """Events by name, in order; those of a held name wait."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._held: dict[str, asyncio.Future[None]] = {}

    def hold(self, *names: str) -> None:
        for name in names:
            self._held[name] = asyncio.get_running_loop().create_future()

    async def release(self, name: str) -> None:
        self._held.pop(name).set_result(None)
        await settled()

    async def refuse(self, name: str, error: Exception) -> None:
        self._held.pop(name).set_exception(error)
        await settled()

    async def passes(self, name: str) -> None:
        self.events.append(name)
        if name in self._held:
            await self._held[name]


class Pipeline:
    """The pipeline with its surroundings. Commands are numbered as they are sent, puts by the id of the object."""

    def __init__(self, **settings: int) -> None:
        self.gate = Gate()
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.client = MetadataClient(self.log, self.clock, Random(1))
        self.store = MemoryStore(self.clock)
        self.epoch = self.client.execute(RegisterNode(NODE, "a", "here")).node_epoch
        self.streams = [self._open_stream() for _ in range(3)]
        self.failures: list[BaseException] = []
        self._numbers = {"prepare": 0, "commit": 0, "put": 0}
        self.pipeline = UploadPipeline(
            self, Buckets({0: self.store}), self, self.clock, UploadSettings(**settings),
            node_id=NODE, node_epoch=self.epoch, on_committed=self._committed, on_failure=self.failures.append,
        )  # fmt: skip

    @property
    def events(self) -> list[str]:
        return self.gate.events

    @property
    def image(self):
        return self.client.image

    async def refresh(self):
        return self.client.refresh()

    def _open_stream(self) -> int:
        stream_id = self.client.execute(CreateStream(NODE, self.epoch))
        self.client.execute(OpenStream(NODE, self.epoch, stream_id, 0))
        return stream_id

    async def execute(self, command):
        kind = {PrepareObjects: "prepare", CommitUpload: "commit"}[type(command)]
        self._numbers[kind] += 1
        name = f"{kind} {self._numbers[kind]}"
        await self.gate.passes(name)
        answer = self.client.execute(command)
        self.events.append(f"{name} done")
        return answer

    async def run(self, call, *args):
        if getattr(call, "__name__", "") == "put":
            self._numbers["put"] += 1
            await self.gate.passes(f"put {self._numbers['put']}")
        await asyncio.sleep(0)
        return call(*args)

    async def _committed(self, block: CacheBlock) -> None:
        await self.gate.passes(f"trim {block.end_position}")
        block.commit()

    def block(self, offset: int, position: int, stream: int = 0, payload_bytes: int = 100) -> CacheBlock:
        block = CacheBlock()
        one = batch(self.streams[stream], offset, 1, payload_bytes)
        block.put(CachedBatch(one, encode_frame_header(one)), position)
        block.seal()
        return block

    def end_of(self, stream: int = 0) -> int:
        return self.client.image.streams[self.streams[stream]].end_offset


def run(scenario) -> None:
    async def main() -> None:
        await asyncio.wait_for(scenario(), 60)

    asyncio.run(main())


def test_t15_upload_pipeline_order_of_prepares():
    async def scenario():
        at = Pipeline()
        at.gate.hold("prepare 1")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        assert at.events == ["prepare 1"]
        await at.gate.release("prepare 1")
        assert at.events.index("prepare 1 done") < at.events.index("prepare 2")
        await at.pipeline.drain()
        assert at.end_of() == 2

    run(scenario)


def test_t15_upload_pipeline_order_of_commits_when_the_second_upload_ends_first():
    async def scenario():
        at = Pipeline()
        at.gate.hold("put 1", "commit 1")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        assert "put 2" in at.events, "uploads run side by side"
        assert at.store.list().__next__().key, "the second is uploaded"
        assert not any(event.startswith("commit") for event in at.events)
        await at.gate.release("put 1")
        assert at.events[-1] == "commit 1"
        assert at.end_of() == 0
        await at.gate.release("commit 1")
        await at.pipeline.drain()
        commits = [event for event in at.events if event.startswith("commit")]
        assert commits == ["commit 1", "commit 1 done", "commit 2", "commit 2 done"]
        assert at.end_of() == 2

    run(scenario)


def test_t15_upload_pipeline_order_of_trims():
    async def scenario():
        at = Pipeline()
        at.gate.hold("commit 1", "trim 100")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        assert not any(event.startswith("trim") for event in at.events), (
            "nothing is trimmed before its commit"
        )
        await at.gate.release("commit 1")
        assert at.events[-1] == "trim 100"
        assert "commit 2" not in at.events, "a commit waits for the trim before it, so trims are in order"
        await at.gate.release("trim 100")
        await at.pipeline.drain()
        assert [event for event in at.events if event.startswith("trim")] == ["trim 100", "trim 200"]

    run(scenario)


def test_t15_upload_pipeline_order_when_a_prepare_is_refused():
    async def scenario():
        at = Pipeline()
        at.gate.hold("put 1", "prepare 2")
        for offset in range(3):
            at.pipeline.submit(at.block(offset, 100 * (offset + 1)))
        await settled()
        await at.gate.refuse("prepare 2", NodeEpochExpired("stop"))
        assert isinstance(at.failures[0], NodeEpochExpired)
        assert len(at.failures) == 1
        await at.gate.release("put 1")
        await asyncio.wait_for(at.pipeline.drain(), 60)
        assert at.end_of() == 1, "what was before the refused block still goes its way"
        assert "prepare 3" not in at.events, "what was after it does not"
        assert at.pipeline.statistics().blocks_in_flight == 0

    run(scenario)


def test_a_refused_commit_ends_those_after_it_and_deletes_nothing():
    async def scenario():
        at = Pipeline()
        at.gate.hold("commit 1")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        await at.gate.refuse("commit 1", NodeEpochExpired("stop"))
        await asyncio.wait_for(at.pipeline.drain(), 60)
        assert at.end_of() == 0
        assert "commit 2" not in at.events and "trim 100" not in at.events
        assert len(list(at.store.list())) == 2, "orphans wait for their time limit"
        assert len(at.failures) == 1

    run(scenario)


def test_an_upload_that_is_damaged_ends_the_pipeline():
    async def scenario():
        at = Pipeline()
        at.gate.hold("put 1")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        await at.gate.refuse("put 1", ObjectTruncated("no"))
        await asyncio.wait_for(at.pipeline.drain(), 60)
        assert isinstance(at.failures[0], ObjectTruncated)
        assert at.end_of() == 0

    run(scenario)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("prepare 1", CommitUnknown("?")),
        ("put 1", StoreTransient("?")),
        ("put 1", StoreDenied("the token has expired")),
        ("commit 1", CommitUnknown("?")),
    ],
)
def test_what_is_unavailable_is_asked_again_later(name, error):
    async def scenario():
        at = Pipeline()
        at.gate.hold(name)
        at.pipeline.submit(at.block(0, 100))
        await settled()
        await at.gate.refuse(name, error)
        assert at.end_of() == 0
        at.clock.advance_ms(RETRY_INTERVAL_MS_MIN)
        await at.pipeline.drain()
        assert at.end_of() == 1
        assert not at.failures
        assert len(list(at.store.list())) == 1

    run(scenario)


def test_n11_a_fenced_node_commits_the_same_ids_once_it_has_resumed():
    async def scenario():
        at = Pipeline()
        at.gate.hold("commit 1")
        at.pipeline.submit(at.block(0, 100))
        await settled()
        at.client.execute(FenceNode(NODE, at.epoch))
        await at.gate.release("commit 1")
        at.clock.advance_ms(10 * RETRY_INTERVAL_MS_MAX)
        await settled()
        assert at.end_of() == 0 and "trim 100" not in at.events
        assert "resumes by itself" in at.pipeline.statistics().outage.remedy
        at.client.execute(ResumeNode(NODE, at.epoch, "a"))
        at.clock.advance_ms(RETRY_INTERVAL_MS_MAX)
        await at.pipeline.drain()
        assert at.end_of() == 1 and not at.failures
        assert [event for event in at.events if event.startswith(("prepare", "put"))] == [
            "prepare 1", "prepare 1 done", "put 1",
        ]  # fmt: skip

    run(scenario)


def test_a_commit_that_was_done_and_whose_answer_was_lost_succeeds_when_asked_again():
    async def scenario():
        at = Pipeline()
        done = at.client.execute

        def lose_the_first_commit(command):
            answer = done(command)
            if isinstance(command, CommitUpload):
                at.client.execute = done
                raise CommitUnknown("the answer was lost")
            return answer

        at.client.execute = lose_the_first_commit
        at.pipeline.submit(at.block(0, 100))
        await settled()
        assert at.end_of() == 1
        assert "trim 100" not in at.events, "unknown is not done"
        at.clock.advance_ms(RETRY_INTERVAL_MS_MIN)
        await at.pipeline.drain()
        assert at.events[-1] == "trim 100"
        assert not at.failures

    run(scenario)


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
