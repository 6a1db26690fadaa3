"""The actions on a simulated node, each with what must be true of its answer (``node_simulation``)."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from msgspec.structs import replace

from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import CreateTopic, DeleteTopic
from siltstone.metadata.entities import StreamState
from siltstone.metadata.lookup import OffsetOutOfRange
from siltstone.metadata.refusals import JobNotRunning
from siltstone.model.errors import Stale, Unavailable
from siltstone.model.limits import HOUR_MS, MINUTE_MS
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, RunFailed, Task
from siltstone.runtime.randomness import random_token
from siltstone.runtime.tasks import OnProgress
from siltstone.stream_engine.components import EngineState
from siltstone.stream_engine.errors import EngineOverloaded, LogDiskFull, OffsetBeyondEnds, StreamHandleClosed
from support.engine.engine_world import Node
from support.engine.stream_model import Entry, ModelStream
from support.maintenance.compacting import carry_out, planned_round

GRACE_PERIOD_MS = 10 * MINUTE_MS
STREAMS_MAX = 6
Action = tuple[str, Coroutine[Any, Any, None]]

COMPACTION = CompactionSettings(
    split_size_bytes=3000,
    merged_block_bytes_max=2048,
    memory_bytes=12 * 1024,
    read_request_bytes_max=4096,
    part_bytes_min=1,
    time_limit_ms=HOUR_MS,
)


class FailingRunner(InProcessRunner):
    """Sometimes one of the tasks fails for good."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self._rng = rng

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None, label: str = ""
    ) -> list[bytes]:
        if inputs and self._rng.random() < 0.1:
            super().run(task, inputs[: self._rng.randint(0, len(inputs) - 1)])
            raise RunFailed("a worker was killed")
        return super().run(task, inputs, on_progress)


class Workload:
    """``simulation`` is the NodeSimulation whose streams these actions use."""

    def __init__(self, simulation: Any) -> None:
        self.simulation = simulation
        self.rng: Random = simulation.rng

    def next_action(self, node: Node) -> Action | None:
        """Draws an action. None: it takes no time, or it is not possible now."""
        weights = {
            self._append: 30, self._read: 10, self._trim: 3, self._flush: 1, self._wait: 2, self._close: 2,
            self._open_again: 3, self._delete: 3, self._create: 2, self._sweep: 0.5, self._fill_disk: 0.2,
            self._compact: 2, self._create_topic: 2, self._delete_topic: 2,
        }  # fmt: skip
        action = self.rng.choices(list(weights), list(weights.values()))[0]
        begun = action(node)
        return None if begun is None else (action.__name__.removeprefix("_"), begun)

    def _any(self, wanted: Callable[[ModelStream], bool]) -> ModelStream | None:
        found = [
            stream for stream in self.simulation.streams.values() if not stream.is_deleted and wanted(stream)
        ]
        return self.rng.choice(found) if found else None

    def _any_open(self) -> ModelStream | None:
        return self._any(
            lambda stream: stream.is_open and not stream.is_closing and not stream.may_be_deleted
        )

    def _append(self, node: Node) -> None:
        """Several at once, often. Answers are looked at when the life has ended."""
        for _ in range(self.rng.choice([1, 1, 2, 10, 30])):
            stream = self._any_open()
            if stream is None or node.engine.statistics().state != EngineState.RUNNING.name:
                return
            self._append_one(node, stream)

    def _append_one(self, node: Node, stream: ModelStream) -> None:
        number = self.simulation.counts.get("append", 0)
        self.simulation.counts["append"] = number + 1
        size = self.rng.choice([0, 10, 100, 1000, 4000])
        payload = (b"%d:%d|" % (stream.stream_id, number) * size)[:size]
        records = self.rng.choice([1, 1, 7])
        try:
            answer = node.engine.append(stream.handle, payload, records)
        except EngineOverloaded:
            self.simulation.count("overloaded")
            return
        except LogDiskFull:
            assert self.simulation.disk.was_full, "refused for no reason"
            self.simulation.count("refused for a full disk")
            return
        base = stream.next_offset
        stream.entries.append(Entry(base, base + records, payload, answer))
        if self.rng.random() < 0.02:
            answer.cancel()

    def _read(self, node: Node) -> Coroutine[Any, Any, None] | None:
        stream = self._any_open()
        return None if stream is None else self._used(stream, self._read_some(node, stream))

    async def _read_some(self, node: Node, stream: ModelStream) -> None:
        handle = stream.handle
        assert handle is not None
        confirmed = handle.confirmed_offset
        start = self.rng.randint(handle.start_offset, confirmed)
        end = self.rng.choice([None, self.rng.randint(start, confirmed + 3)])
        try:
            found = await node.engine.read(handle, start, self.rng.choice([0, 1000, 5000, 50_000]), end)
        except (OffsetBeyondEnds, OffsetOutOfRange):
            assert max(stream.starts) > start, "refused for no reason"
            return
        if start < (confirmed if end is None else min(end, confirmed)):
            assert found, f"stream {stream.stream_id}: nothing at {start}, confirmed is {confirmed}"
            stream.check_read(start, found)
            assert end is None or found[-1].base_offset < end
        else:
            assert not found

    def _wait(self, node: Node) -> Coroutine[Any, Any, None] | None:
        stream = self._any_open()
        return None if stream is None or stream.handle is None else self._wait_for(stream)

    async def _wait_for(self, stream: ModelStream) -> None:
        handle = stream.handle
        assert handle is not None
        offset = handle.confirmed_offset + self.rng.choice([-1, 0, 0, 5])
        with suppress(asyncio.TimeoutError, StreamHandleClosed):
            waiter = asyncio.ensure_future(handle.wait_for(offset))
            for _ in range(self.rng.randint(1, 200)):
                await asyncio.sleep(0)
                if waiter.done():
                    waiter.result()
                    assert offset < handle.confirmed_offset or handle.is_closed
                    return
            waiter.cancel()

    def _trim(self, node: Node) -> Coroutine[Any, Any, None] | None:
        stream = self._any_open()
        return None if stream is None else self._used(stream, self._trim_to(node, stream))

    async def _trim_to(self, node: Node, stream: ModelStream) -> None:
        assert stream.handle is not None
        target = self.rng.randint(stream.handle.start_offset, stream.handle.confirmed_offset)
        if self.rng.random() < 0.5:  # at the end of a batch, mostly soon after the start
            target = min(stream.handle.start_offset + 3, target)
        stream.may_trim(target)
        await node.engine.trim(stream.handle, target)
        stream.did_trim(target)

    def _flush(self, node: Node) -> Coroutine[Any, Any, None]:
        async def flush() -> None:
            ends = {
                stream.stream_id: stream.next_offset
                for stream in self.simulation.streams.values()
                if stream.is_open
            }
            await node.engine.flush()
            for stream_id, end in ends.items():
                metadata = node.metadata.image.streams.get(stream_id)
                gone = metadata is None or metadata.state is StreamState.DELETED
                assert gone or metadata.end_offset >= end, "flushed, and not committed"

        return flush()

    def _close(self, node: Node) -> Coroutine[Any, Any, None] | None:
        stream = self._any(lambda one: one.is_open and one.users == 0 and not one.may_be_deleted)
        if stream is None:
            return None
        stream.is_closing = True
        return self._used(stream, self._give_back(node, stream))

    async def _give_back(self, node: Node, stream: ModelStream) -> None:
        assert stream.handle is not None
        await node.engine.close_stream(stream.handle)
        assert node.metadata.image.streams[stream.stream_id].end_offset == stream.next_offset
        stream.is_open = stream.is_closing = False
        stream.handle = None

    def _open_again(self, node: Node) -> Coroutine[Any, Any, None] | None:
        stream = self._any(lambda one: not one.is_open and one.users == 0 and not one.may_be_deleted)
        return None if stream is None else self._used(stream, self._take(node, stream))

    async def _take(self, node: Node, stream: ModelStream) -> None:
        if stream.handle is None and self.rng.random() < 0.5:
            stream.epoch += 1
        stream.epoch = max(stream.epoch, 0)
        for _ in range(100):
            with suppress(Unavailable):
                stream.handle = await node.engine.open_stream(stream.stream_id, stream.epoch)
                break
            await self.simulation.world.clock.sleep_ms(100)
        assert stream.handle is not None
        assert stream.handle.confirmed_offset == max(stream.next_offset, stream.handle.start_offset)
        stream.is_open = True

    def _delete(self, node: Node) -> Coroutine[Any, Any, None] | None:
        stream = self._any(
            lambda one: not one.is_open and one.users == 0 and one.epoch >= 0 and one.topic_id is None
        )
        return None if stream is None else self._used(stream, self._drop(node, stream))

    async def _drop(self, node: Node, stream: ModelStream) -> None:
        stream.may_be_deleted = True
        await node.engine.delete_stream(stream.stream_id, stream.epoch)
        stream.is_deleted = True

    def _create(self, node: Node) -> Coroutine[Any, Any, None] | None:
        alive = sum(not stream.is_deleted for stream in self.simulation.streams.values())
        return self._create_stream(node) if alive < STREAMS_MAX else None

    async def _create_stream(self, node: Node) -> None:
        self.simulation.creations_unknown += 1
        stream_id = await node.engine.create_stream()
        self.simulation.creations_unknown -= 1
        assert stream_id not in self.simulation.streams
        self.simulation.streams[stream_id] = ModelStream(stream_id)

    def _create_topic(self, node: Node) -> Coroutine[Any, Any, None] | None:
        alive = sum(not stream.is_deleted for stream in self.simulation.streams.values())
        return self._create_partition(node) if alive < STREAMS_MAX - 1 else None

    async def _create_partition(self, node: Node) -> None:
        """A topic of one: two streams."""
        topic_id = random_token(self.rng)
        engine = node.engine
        self.simulation.creations_unknown += 2
        topic = await node.metadata.execute(
            CreateTopic(engine.node_id, engine.node_epoch, topic_id, topic_id, 1)
        )
        self.simulation.creations_unknown -= 2
        for stream_id in (topic.partitions[0].data_stream_id, topic.partitions[0].meta_stream_id):
            assert stream_id not in self.simulation.streams
            self.simulation.streams[stream_id] = ModelStream(stream_id, topic_id)

    def _delete_topic(self, node: Node) -> Coroutine[Any, Any, None] | None:
        """Open or not, with all that is on its way."""
        stream = self._any(lambda one: one.topic_id is not None and not one.may_be_deleted)
        if stream is None:
            return None
        both = [one for one in self.simulation.streams.values() if one.topic_id == stream.topic_id]
        if any(one.users or one.is_closing for one in both):
            return None
        body = self._drop_topic(node, both)
        for one in both:
            one.may_be_deleted = True  # from now on, so that nothing is begun with it before this runs
            body = self._used(one, body)
        return body

    async def _drop_topic(self, node: Node, both: list[ModelStream]) -> None:
        topic_id = both[0].topic_id
        assert topic_id is not None
        await node.metadata.execute(DeleteTopic(node.engine.node_id, node.engine.node_epoch, topic_id))
        for stream in both:
            if stream.handle is not None and stream.is_open:
                self.simulation.count("deleted while open")
                node.engine.forget_stream(stream.handle)
            stream.is_deleted, stream.is_open = True, False

    def _sweep(self, node: Node) -> None:
        """A sweep from elsewhere, while the node runs."""
        self.simulation.store._land_late()
        with suppress(Unavailable):
            sweep(self.simulation.maintenance(), GRACE_PERIOD_MS)
            self.simulation.count("swept")

    def _compact(self, node: Node) -> Coroutine[Any, Any, None]:
        """A round by a driver elsewhere; between its plan and its commit the node continues."""

        async def compact() -> None:
            context = self.simulation.maintenance()
            settings = replace(COMPACTION, force_split_age_ms=self.rng.choice([0, 2 * MINUTE_MS, HOUR_MS]))
            plan = planned_round(context, settings)
            for _ in range(self.rng.choice([0, 10, 300])):
                await asyncio.sleep(0)
            try:
                carry_out(context, FailingRunner(self.rng), plan)
            except (Stale, JobNotRunning) as overtaken:
                self.simulation.count(f"compaction overtaken: {type(overtaken).__name__}")
                return
            self.simulation.count("nothing to compact" if plan.is_empty else "compacted")

        return compact()

    def _fill_disk(self, node: Node) -> Coroutine[Any, Any, None] | None:
        """A disk that fails ends the node. A full one does not, unless the node is to end meanwhile, and somebody frees
        space after a while."""
        disk = self.simulation.disk
        self.simulation.may_fail = True
        if self.rng.random() < 0.5:
            disk.refusal = OSError(5, "Input/output error")
            self.simulation.count("disk broken")
            return None
        disk.refusal = full = OSError(28, "No space left on device")
        self.simulation.count("disk full")
        lasts_ms = self.rng.choice([100, 2_000, MINUTE_MS])

        async def emptied() -> None:
            await self.simulation.world.clock.sleep_ms(lasts_ms)
            if disk.refusal is full:
                disk.refusal = None
                self.simulation.count("disk emptied")

        return emptied()

    def _used(self, stream: ModelStream, body: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        stream.users += 1

        async def used() -> None:
            try:
                await body
            finally:
                stream.users -= 1

        return used()
