"""A whole node in one thread, from one seed: random actions, a store and a log that fail, crashes between any two
calls to the outside, power that is lost, disks that fill up, restarts. ``stream_model`` says what must be true.

Everything random comes from the seed, so a seed that failed fails again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from msgspec.structs import replace

from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.findings import Severity
from siltstone.maintenance.compaction import carry_out, plan_round
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.in_process_runner import InProcessRunner, OnProgress
from siltstone.maintenance.rewriting import stores as tasks_stores
from siltstone.maintenance.runner import RunFailed, Task
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.sweep import sweep
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.lookup import OffsetOutOfRange
from siltstone.metadata.refusals import JobNotRunning, StreamNotExist
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import MetadataLog
from siltstone.model.errors import Stale, Unavailable
from siltstone.model.limits import HOUR_MS, MINUTE_MS
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.backoff import RetrySettings
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.retrying import RetryingStore
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.engine_state import EngineState
from siltstone.stream_engine.errors import EngineNotRunning, EngineOverloaded, OffsetBeyondEnds
from siltstone.stream_engine.settings import EngineSettings
from support.chance_log import ChanceLog
from support.engine_world import SMALL, FreezableCalls, Node, World
from support.faulty_store import FaultyStore
from support.losing_disk import LosingDisk, PowerLost
from support.stream_model import Entry, ModelStream

T = TypeVar("T")

GRACE_PERIOD_MS = 10 * MINUTE_MS
ACTIONS_AT_ONCE_MAX = 6
STREAMS_MAX = 6


COMPACTION = CompactionSettings(
    split_size_bytes=3000,
    merged_block_bytes_max=2048,
    memory_bytes=12 * 1024,
    read_request_bytes_max=4096,
    part_bytes_min=1,
    time_limit_ms=HOUR_MS,
)


class FailingRunner(InProcessRunner):
    """Sometimes one of the units fails for good."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self._rng = rng

    def run(self, task: Task, units: Sequence[bytes], on_progress: OnProgress | None = None) -> list[bytes]:
        if units and self._rng.random() < 0.1:
            super().run(task, units[: self._rng.randint(0, len(units) - 1)])
            raise RunFailed("a worker was killed")
        return super().run(task, units, on_progress)


class Crashed(Exception):
    """The node is no more."""


class NodeSimulation:
    def __init__(
        self,
        seed: int,
        folder: Path,
        disk: LosingDisk,
        *,
        lives: int = 6,
        actions_per_life: int = 60,
        log: MetadataLog | None = None,
    ) -> None:
        self.rng = Random(seed)
        self.disk = disk
        self.lives = lives
        self.actions_per_life = actions_per_life
        fault_rate = self.rng.choice([0.0, 0.02, 0.15])
        clock = ManualClock()
        self.bucket = MemoryStore(clock, f"simulation-{seed}")
        self.store = FaultyStore(self.bucket, Random(seed + 1), fault_rate=fault_rate)
        retrying = RetryingStore(
            self.store, clock, Random(seed + 2), RetrySettings(attempts_max=3, backoff_ms_max=200)
        )
        tasks_stores._opened[retrying.url] = retrying  # what a compaction's tasks open by its URL
        self.log = ChanceLog(log or MemoryLog(), Random(seed + 3), fault_rate / 2)
        self.world = World(folder, log=self.log, store=retrying, clock=clock, rng=Random(seed + 4))
        self.settings = self._settings()
        self.streams: dict[int, ModelStream] = {}
        self.creations_unknown = 0
        self.counts: dict[str, int] = {}
        self.trace: list[str] = []
        self._actions: dict[asyncio.Task[None], str] = {}
        self._calls = FreezableCalls()
        self._steps_left = self._disk_steps_left = -1
        self._may_fail = False

    def _settings(self) -> EngineSettings:
        """Sometimes with so little room that appends wait."""
        cache_bytes = self.rng.choice([16, 64]) * 1024
        capacity_bytes = self.rng.choice([18, 64]) * 1024
        return replace(
            SMALL,
            tail_cache_bytes_max=cache_bytes,
            waiting_bytes_max=32 * 1024,
            wal=replace(SMALL.wal, capacity_bytes=capacity_bytes),
        )

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        self.trace.append(f"{self.world.clock.now_ms()} {what}")

    # -- the whole ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            for _ in range(self.lives):
                await self._life()
            await self._last_look()
        finally:
            del tasks_stores._opened[self.world.store.url]

    async def _life(self) -> None:
        self._begin_life()
        try:
            node = await self._open()
            await self._verify(node)
            self._check_objects(node)
            for _ in range(self.rng.randint(0, 2 * self.actions_per_life)):
                await self._step(node)
                if node.engine.statistics().state != EngineState.RUNNING.name:
                    break
            await self._end(node)
        except Crashed:
            await self._crash()

    async def _end(self, node: Node) -> None:
        """In good order, or after a failure that was to be expected."""
        failed = node.engine.statistics().state == EngineState.FAILED.name
        assert self._may_fail or not failed, f"the engine failed: {node.engine._failure}"
        self.count("failed" if failed else "closed")
        await self._passing(node.close())
        self.disk.refusal = None
        await self._end_actions()
        for stream in self.streams.values():
            stream.check_answers()

    async def _crash(self) -> None:
        self._calls.is_frozen = True
        await self._end_actions()
        self.count("crashed")
        if self.rng.random() < 0.5:
            lost = self.disk.lose_unsynced(self.world.wal_folder)
            self.count("power lost" if lost == 0 else "power lost with sectors")
        self.disk.refusal = None
        _let_go(self.world)
        for stream in self.streams.values():
            stream.check_answers()

    async def _end_actions(self) -> None:
        """All tasks of this life end, those of the node that is no more as well."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._actions.clear()

    async def _last_look(self) -> None:
        """No more faults: everything is there, and when all time limits have passed nothing else is."""
        self.store.calm()
        self.log.calm()
        self._begin_life(immortal=True)
        node = await self._open()
        await self._verify(node)
        await self._passing(node.close())
        await self._end_actions()
        context = self._maintenance()
        for _ in range(2):
            self.world.clock.advance_ms(2 * HOUR_MS)
            sweep(context, GRACE_PERIOD_MS)
        report = check(context)
        wrong = [finding for finding in report.findings if finding.severity >= Severity.WARNING]
        assert not wrong, wrong
        image = context.metadata.refresh()
        assert len(image.streams) <= len(self.streams) + self.creations_unknown

    # -- a life ------------------------------------------------------------------------------------------

    def _begin_life(self, *, immortal: bool = False) -> None:
        self._may_fail = False
        self._calls = FreezableCalls()
        self._steps_left = self._disk_steps_left = -1
        if not immortal:
            self._choose_end()
        self._calls.before_call = lambda _: self._count_step()
        self._calls.after_call = self._count_step
        self.disk.before_call = self._count_disk_step
        for stream in self.streams.values():
            stream.handle = None
            stream.is_open = stream.is_closing = False
            stream.users = 0

    def _choose_end(self) -> None:
        """A crash at some call, or at some call to the disk, or none."""
        kind = self.rng.random()
        if kind < 0.5:
            self._steps_left = self.rng.randint(1, self.rng.choice([10, 50, 200, 1000, 3000]))
        elif kind < 0.85:
            self._disk_steps_left = self.rng.randint(1, self.rng.choice([5, 50, 200]))

    def _count_step(self) -> None:
        self._steps_left -= 1
        if self._steps_left == 0:
            self._calls.is_frozen = True

    def _count_disk_step(self) -> None:
        self._disk_steps_left -= 1
        if self._disk_steps_left == 0:
            self._calls.is_frozen = True
            raise PowerLost

    async def _open(self) -> Node:
        return await self._patiently(lambda: self.world.open(self.settings, calls=self._calls))

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for _ in range(200):
            try:
                return await self._passing(attempt())
            except (Unavailable, EngineNotRunning) as trouble:
                if isinstance(trouble, EngineNotRunning) and "recovery could not commit" not in str(trouble):
                    raise
        raise AssertionError("200 attempts failed")

    async def _passing(self, awaited: Awaitable[T]) -> T:
        """What is awaited, while time passes. Raises Crashed."""
        task = asyncio.ensure_future(awaited)
        for _ in range(20_000):
            for _ in range(20):
                await asyncio.sleep(0)
            if task.done():
                return task.result()
            if self._calls.is_frozen:
                task.cancel()
                raise Crashed
            self.world.clock.advance_ms(self.rng.choice([1, 10, 100, 500]))
        raise AssertionError("nothing comes of it")

    async def _verify(self, node: Node) -> None:
        """Open and read everything."""
        known = self.streams.keys()
        created = {stream for stream in node.metadata.image.streams if stream not in known}
        assert len(created) <= self.creations_unknown, f"streams nobody asked for: {created}"
        for stream in [one for one in self.streams.values() if not one.is_deleted]:
            await self._reopen(node, stream)
            if not stream.is_deleted:
                await self._read_all(node, stream)

    async def _reopen(self, node: Node, stream: ModelStream) -> None:
        stream.epoch += 1
        try:
            handle = await self._patiently(lambda: node.engine.open_stream(stream.stream_id, stream.epoch))
        except StreamNotExist:
            assert stream.may_be_deleted, f"stream {stream.stream_id} is gone"
            stream.is_deleted = True
            return
        stream.settle(handle.start_offset, handle.confirmed_offset)
        stream.handle, stream.is_open, stream.may_be_deleted = handle, True, False

    async def _read_all(self, node: Node, stream: ModelStream) -> None:
        assert stream.handle is not None
        at = stream.handle.start_offset
        while at < stream.handle.confirmed_offset:
            found = await self._patiently(partial(node.engine.read, stream.handle, at, 5000))
            assert found, f"stream {stream.stream_id}: nothing at {at}"
            stream.check_read(at, found)
            at = found[-1].end_offset
        self.count("read all")

    def _check_objects(self, node: Node) -> None:
        for one in node.metadata.image.objects.values():
            if one.state is ObjectState.COMMITTED:
                assert self.bucket.head(object_key(one.object_id)).size_bytes == one.size_bytes

    # -- actions -----------------------------------------------------------------------------------------

    async def _step(self, node: Node) -> None:
        if len(self._actions) < ACTIONS_AT_ONCE_MAX:
            self._start_action(node)
        for _ in range(self.rng.choice([0, 1, 3, 20])):
            await asyncio.sleep(0)
        if self.rng.random() < 0.3 or len(self._actions) == ACTIONS_AT_ONCE_MAX:
            self.world.clock.advance_ms(self.rng.choice([1, 50, 500, 5_000, 20_000]))
        if self._calls.is_frozen:
            raise Crashed
        self._reap()
        self._check_bounds(node)

    def _check_bounds(self, node: Node) -> None:
        """Rule 9."""
        statistics = node.engine.statistics()
        assert statistics.tail.bytes_used <= self.settings.tail_cache_bytes_max
        assert statistics.wal.bytes_untrimmed <= self.settings.wal.capacity_bytes
        assert statistics.bytes_waiting <= self.settings.waiting_bytes_max

    def _reap(self) -> None:
        for task in [task for task in self._actions if task.done()]:
            name = self._actions.pop(task)
            try:
                task.result()
            except Unavailable:
                self.count(f"{name} unavailable")
            except EngineNotRunning:
                assert self._may_fail, f"{name}: the engine failed for no reason"

    def _start_action(self, node: Node) -> None:
        weights = {
            self._append: 30, self._read: 10, self._trim: 3, self._flush: 1, self._wait: 2, self._close: 1,
            self._open_again: 3, self._delete: 1, self._create: 2, self._sweep: 0.5, self._fill_disk: 0.1,
            self._compact: 2,
        }  # fmt: skip
        action = self.rng.choices(list(weights), list(weights.values()))[0]
        begun = action(node)
        if begun is not None:
            name = action.__name__.removeprefix("_")
            self._actions[asyncio.ensure_future(begun)] = name
            self.count(name)

    def _any(self, wanted: Callable[[ModelStream], bool]) -> ModelStream | None:
        found = [stream for stream in self.streams.values() if not stream.is_deleted and wanted(stream)]
        return self.rng.choice(found) if found else None

    def _any_open(self) -> ModelStream | None:
        return self._any(lambda stream: stream.is_open and not stream.is_closing)

    def _append(self, node: Node) -> None:
        """Several at once, often. Answers are looked at when the life has ended."""
        for _ in range(self.rng.choice([1, 1, 2, 10, 30])):
            stream = self._any_open()
            if stream is None or node.engine.statistics().state != EngineState.RUNNING.name:
                return
            self._append_one(node, stream)

    def _append_one(self, node: Node, stream: ModelStream) -> None:
        number = self.counts.get("append", 0)
        self.counts["append"] = number + 1
        size = self.rng.choice([0, 10, 100, 1000, 4000])
        payload = (b"%d:%d|" % (stream.stream_id, number) * size)[:size]
        records = self.rng.choice([1, 1, 7])
        try:
            answer = node.engine.append(stream.handle, payload, records)
        except EngineOverloaded:
            self.count("overloaded")
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
        with suppress(asyncio.TimeoutError):
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
                stream.stream_id: stream.next_offset for stream in self.streams.values() if stream.is_open
            }
            await node.engine.flush()
            for stream_id, end in ends.items():
                metadata = node.metadata.image.streams.get(stream_id)
                assert metadata is None or metadata.end_offset >= end, "flushed, and not committed"

        return flush()

    def _close(self, node: Node) -> Coroutine[Any, Any, None] | None:
        stream = self._any(lambda one: one.is_open and one.users == 0)
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
            await self.world.clock.sleep_ms(100)
        assert stream.handle is not None
        assert stream.handle.confirmed_offset == max(stream.next_offset, stream.handle.start_offset)
        stream.is_open = True

    def _delete(self, node: Node) -> Coroutine[Any, Any, None] | None:
        stream = self._any(lambda one: not one.is_open and one.users == 0 and one.epoch >= 0)
        return None if stream is None else self._used(stream, self._drop(node, stream))

    async def _drop(self, node: Node, stream: ModelStream) -> None:
        stream.may_be_deleted = True
        await node.engine.delete_stream(stream.stream_id, stream.epoch)
        stream.is_deleted = True

    def _create(self, node: Node) -> Coroutine[Any, Any, None] | None:
        alive = sum(not stream.is_deleted for stream in self.streams.values())
        return self._create_stream(node) if alive < STREAMS_MAX else None

    async def _create_stream(self, node: Node) -> None:
        self.creations_unknown += 1
        stream_id = await node.engine.create_stream()
        self.creations_unknown -= 1
        assert stream_id not in self.streams
        self.streams[stream_id] = ModelStream(stream_id)

    def _sweep(self, node: Node) -> None:
        """A sweep from elsewhere, while the node runs."""
        self.store._land_late()
        with suppress(Unavailable):
            sweep(self._maintenance(), GRACE_PERIOD_MS)
            self.count("swept")

    def _compact(self, node: Node) -> Coroutine[Any, Any, None]:
        """A round by a driver elsewhere; between its plan and its commit the node goes on."""

        async def compact() -> None:
            context = self._maintenance()
            settings = replace(COMPACTION, force_split_age_ms=self.rng.choice([0, 2 * MINUTE_MS, HOUR_MS]))
            plan = plan_round(context, settings)
            for _ in range(self.rng.choice([0, 10, 300])):
                await asyncio.sleep(0)
            try:
                carry_out(context, FailingRunner(self.rng), plan)
            except (Stale, JobNotRunning) as overtaken:
                self.count(f"compaction overtaken: {type(overtaken).__name__}")
                return
            self.count("nothing to compact" if plan.is_empty else "compacted")

        return compact()

    def _fill_disk(self, node: Node) -> None:
        self.disk.refusal = OSError(28, "No space left on device")
        self._may_fail = True
        self.count("disk full")

    def _maintenance(self) -> MaintenanceContext:
        client = MetadataClient(self.log, self.world.clock, self.rng)
        return MaintenanceContext(client, Buckets({0: self.world.store}), self.world.clock, self.rng)

    def _used(self, stream: ModelStream, body: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        stream.users += 1

        async def used() -> None:
            try:
                await body
            finally:
                stream.users -= 1

        return used()


def _let_go(world: World) -> None:
    """What the operating system does when a process ends: its files are closed, its lock is free."""
    log = world.newest_log
    if log is None:
        return
    for segment in [*log._live, log._segments]:
        with suppress(OSError):
            segment.close()
    world.newest_log = None
