"""A whole node in one thread, from one seed: random actions, a store and a log that fail, crashes between any two
calls to the outside, power that is lost, disks that fill up, restarts. ``stream_model`` says what must be true.

Everything random comes from the seed, so a seed that failed fails again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from msgspec.structs import replace

from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.findings import Severity
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.entities import StreamState
from siltstone.metadata.refusals import StreamNotExist
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import MetadataLog
from siltstone.model.errors import Unavailable
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.retrying import RetryingStore, RetrySettings
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.tasks import source_bytes as tasks_stores
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.components import EngineState
from siltstone.stream_engine.errors import EngineNotRunning
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog
from siltstone.stream_engine.wal.ownership import WalLost
from support.engine.engine_world import SMALL, FreezableCalls, Node, World
from support.engine.faulty_store import FaultyStore
from support.engine.losing_disk import LosingDisk, PowerLost
from support.engine.node_workload import GRACE_PERIOD_MS, Workload
from support.engine.stream_model import ModelStream
from support.metadata.chance_log import ChanceLog

T = TypeVar("T")

ACTIONS_AT_ONCE_MAX = 6


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
        wal_in_bucket: bool = False,
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
        self.world = World(
            folder,
            log=self.log,
            store=retrying,
            clock=clock,
            rng=Random(seed + 4),
            wal_in_bucket=wal_in_bucket,
        )
        self.settings = self._settings()
        self.streams: dict[int, ModelStream] = {}
        self.creations_unknown = 0
        self.counts: dict[str, int] = {}
        self.trace: list[str] = []
        self.workload = Workload(self)
        self._actions: dict[asyncio.Task[None], str] = {}
        self._calls = FreezableCalls()
        self._steps_left = self._disk_steps_left = -1
        self.may_fail = False

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
        """Ends the node in good order, or after a failure that was to be expected."""
        failed = node.engine.statistics().state == EngineState.FAILED.name
        assert self.may_fail or not failed, f"the engine failed: {node.engine._failure}"
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
        """Ends all tasks of this run, also those of the node that no longer exists."""
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
        context = self.maintenance()
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
        self.may_fail = False
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
        has_folder = not self.world.wal_in_bucket
        if (
            has_folder
            and self.rng.random() < 0.15
            and (node := await self._open_with_another_log()) is not None
        ):
            return node
        return await self._patiently(lambda: self.world.open(self.settings, calls=self._calls))

    async def _open_with_another_log(self) -> Node | None:
        """An empty folder instead of the one there was: refused as long as streams are open, and nothing is lost by it;
        after a good end it takes the place of the old one."""
        another = self.world.folder / f"another-{self.counts.get('another log', 0)}"
        self.count("another log")
        self.log.land_late(always=True)  # what the last life asked for and has not happened yet
        left_open = self._streams_are_open()
        try:
            node = await self._patiently(
                lambda: self.world.open(self.settings, calls=self._calls, wal=another)
            )
        except WalLost:
            assert left_open, "refused, and nothing is open"
            self.count("another log refused")
            return None
        assert not left_open, "streams are open, and what was acknowledged may be in the old log"
        self.world.wal_folder = another
        return node

    def _streams_are_open(self) -> bool:
        """Asked of the log itself, which does not fail."""
        image = MetadataClient(self.log.log, self.world.clock, self.rng).image
        return any(stream.state is StreamState.OPENED for stream in image.streams.values())

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for _ in range(200):
            try:
                return await self._passing(attempt())
            except (Unavailable, EngineNotRunning) as trouble:
                if isinstance(trouble, EngineNotRunning) and "recovery could not commit" not in str(trouble):
                    raise
        raise AssertionError("200 attempts failed")

    async def _passing(self, awaited: Awaitable[T]) -> T:
        """Returns the result of a coroutine, while time passes. Raises Crashed."""
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
        """A start that could not upload its log has left the streams of that log open: only their owner's epoch opens
        them again."""
        known = node.metadata.image.streams.get(stream.stream_id)
        if known is not None and known.state is StreamState.OPENED:
            stream.epoch = known.epoch
        else:
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
            self._begin_action(node)
        for _ in range(self.rng.choice([0, 1, 3, 20])):
            await asyncio.sleep(0)
        if self.rng.random() < 0.3 or len(self._actions) == ACTIONS_AT_ONCE_MAX:
            self.world.clock.advance_ms(self.rng.choice([1, 50, 500, 5_000, 20_000]))
        if self._calls.is_frozen:
            raise Crashed
        self._reap()
        self._check_bounds(node)

    def _check_bounds(self, node: Node) -> None:
        """Rule 9. A log that was carried counts from the beginning of its oldest file, whose first records may be
        committed."""
        statistics = node.engine.statistics()
        carried_bytes = self.settings.wal.segment_bytes if node.engine._carried_streams else 0
        assert statistics.tail.bytes_used <= self.settings.tail_cache_bytes_max
        assert statistics.wal.bytes_untrimmed <= self.settings.wal.capacity_bytes + carried_bytes
        assert statistics.bytes_waiting <= self.settings.waiting_bytes_max

    def _begin_action(self, node: Node) -> None:
        begun = self.workload.next_action(node)
        if begun is not None:
            name, body = begun
            self._actions[asyncio.ensure_future(body)] = name
            self.count(name)

    def _reap(self) -> None:
        for task in [task for task in self._actions if task.done()]:
            name = self._actions.pop(task)
            try:
                task.result()
            except Unavailable:
                self.count(f"{name} unavailable")
            except EngineNotRunning:
                assert self.may_fail, f"{name}: the engine failed for no reason"

    def maintenance(self) -> MaintenanceContext:
        client = MetadataClient(self.log, self.world.clock, self.rng)
        return MaintenanceContext(client, Buckets({0: self.world.store}), self.world.clock, self.rng)


def _let_go(world: World) -> None:
    """Does what the operating system does when a process ends: closes its files and releases its lock."""
    log = world.newest_log
    if not isinstance(log, FileWriteAheadLog):
        return
    for segment in [*log._live, log._directory]:
        with suppress(OSError):
            segment.close()
    world.newest_log = None
