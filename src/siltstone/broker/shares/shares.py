"""The share groups of the partitions that this node leads: performs steps of ``broker.deliveries`` on open partitions.

A step changes the partition's value and appends what the log does not have, in one turn of the event loop, so that
steps, values and records have the same order. A refused append leaves the value as it was. Locks end by one timer for
each group and partition; a member that waits for records is woken by a release, a lock that ends, and by the partition.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import msgspec

from siltstone.broker.coordination.timers import TimerHeap
from siltstone.broker.deliveries.progress import DeliveryState, ShareProgress
from siltstone.broker.deliveries.steps import AcknowledgeType, expire, release_all, start_at
from siltstone.broker.group_configs import EARLIEST, ShareConfig, duration_ms, key_of_group, share_config
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.partitions.share_progress import KnownShare
from siltstone.broker.partitions.time_lookup import offset_for_time
from siltstone.broker.shares.sessions import MemberKey, ShareSessions
from siltstone.broker.topics.registry import Topic
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import SECOND_MS
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock

ShareKey: TypeAlias = tuple[str, str, int]
"""Group, topic id, index."""

AGAIN_MS = SECOND_MS
"""When the end of a lock is tried again, after the log took no append."""

log = logging.getLogger(__name__)


class ShareStatistics(msgspec.Struct, frozen=True):
    """``acquired``: the records that members hold now. The others are counted since the start, a record once for each
    time: ``delivered``, ``acknowledged`` by type, and ``given_up`` at the limit of deliveries."""

    sessions: int = 0
    acquired: int = 0
    delivered: int = 0
    acknowledged: Mapping[AcknowledgeType, int] = {}
    given_up: int = 0


class _Readers:
    """``count`` members read a partition, or wait for that."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.count = 0


class Shares:
    def __init__(
        self,
        partitions: Partitions,
        metadata: MetadataService,
        settings: GroupSettings,
        clock: Clock,
        record_calls: BlockingCalls,
    ) -> None:
        self.sessions = ShareSessions(settings.group_share_max_share_sessions)
        self._partitions = partitions
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._record_calls = record_calls
        self._timers = TimerHeap(clock)
        self._reading: dict[ShareKey, _Readers] = {}
        self._waiting: dict[ShareKey, set[Callable[[], None]]] = {}
        self.are_waits_over = False
        self._ringing: set[Callable[[], None]] = set()
        self._acquired: dict[ShareKey, int] = {}
        self._delivered = self._given_up = 0
        self._acknowledged: Counter[AcknowledgeType] = Counter()

    def config_of(self, group_id: str) -> ShareConfig:
        return share_config(self._settings, self._metadata.image.keys.get(key_of_group(group_id)))

    # -- a partition -------------------------------------------------------------------------------------

    async def open(self, group_id: str, topic: Topic, index: int) -> Partition:
        """Returns the partition, in which the group has a beginning. Raises what ``Partitions.open`` raises, and what
        the search for the beginning raises."""
        partition = await self._partitions.open(topic, index)
        if partition.shares.get(group_id) is None:
            start = await self._beginning(self.config_of(group_id), partition)
            if partition.shares.get(group_id) is None:  # another request may have been faster
                durable = partition.put_share(group_id, KnownShare(ShareProgress(start)))
                if durable is not None:
                    await durable
        return partition

    async def _beginning(self, config: ShareConfig, partition: Partition) -> int:
        if config.reset == EARLIEST:
            return partition.log_start_offset
        if (back_ms := duration_ms(config.reset)) is None:
            return partition.high_watermark
        found = await offset_for_time(partition, self._clock.now_ms() - back_ms, self._record_calls)
        return partition.high_watermark if found is None else found.offset

    def progress(self, group_id: str, partition: Partition) -> ShareProgress:
        """The group has to be known there."""
        known = partition.shares.get(group_id)
        assert known is not None
        return start_at(known.progress, partition.log_start_offset)

    def put(self, key: ShareKey, partition: Partition, after: ShareProgress) -> "asyncio.Future[int] | None":
        """Takes the group's next progress. Returns when it is durable; None if it is. Raises what
        ``Partition.put_share`` raises; then nothing has changed."""
        known = partition.shares.get(key[0])
        assert known is not None
        durable = partition.put_share(key[0], KnownShare(after, known.state_epoch))
        if durable is not None:
            durable.add_done_callback(_retrieved)
        self._watch_locks(key, after)
        self._acquired[key] = after.count_of(DeliveryState.ACQUIRED)
        if not self._acquired[key]:
            del self._acquired[key]
        if after.next_offset < known.progress.next_offset or after.in_flight < known.progress.in_flight:
            self._wake(key)
        return durable

    def set_start(
        self, key: ShareKey, partition: Partition, start_offset: int
    ) -> "asyncio.Future[int] | None":
        """An administrator sets where the group begins; nothing is in flight then. Raises as ``put``."""
        known = partition.shares.get(key[0])
        epoch = 0 if known is None else known.state_epoch + 1
        durable = partition.put_share(key[0], KnownShare(ShareProgress(start_offset), epoch))
        self._timers.cancel(key)
        self._acquired.pop(key, None)
        self._wake(key)
        return durable

    @asynccontextmanager
    async def reading(self, key: ShareKey) -> AsyncIterator[None]:
        """One member of a group reads a partition at a time: a second one would read the same."""
        queue = self._reading.setdefault(key, _Readers())
        queue.count += 1
        try:
            async with queue.lock:
                yield
        finally:
            queue.count -= 1
            if not queue.count:
                del self._reading[key]

    # -- locks and sessions ------------------------------------------------------------------------------

    def lock_end_ms(self, config: ShareConfig) -> float:
        return self._clock.monotonic_ms() + config.lock_ms

    def _watch_locks(self, key: ShareKey, progress: ShareProgress) -> None:
        end_ms = progress.next_lock_end_ms
        if end_ms == float("inf"):
            self._timers.cancel(key)
        else:
            delay_ms = max(0.0, end_ms - self._clock.monotonic_ms())
            self._timers.set(key, delay_ms, lambda: self._end_locks(key))

    def _end_locks(self, key: ShareKey) -> None:
        group_id, topic_id, index = key
        partition = self._partitions.opened(topic_id, index)
        if partition is None or partition.is_closed or partition.shares.get(group_id) is None:
            self._acquired.pop(key, None)
            return  # the next leader knows of no locks
        now_ms, config = self._clock.monotonic_ms(), self.config_of(group_id)
        before = self.progress(group_id, partition)
        after = expire(before, now_ms, config.deliveries_max)
        try:
            self.put(key, partition, after)
            self._count_given_up(before, after)
        except SiltstoneError as trouble:
            log.warning(
                "locks of share group %r have ended, and the log takes no record: %s", group_id, trouble
            )
            self._timers.set(key, AGAIN_MS, lambda: self._end_locks(key))

    def end_session(self, member: MemberKey) -> None:
        """Ends the member's session, and releases what it has acquired here."""
        self.sessions.end(member)
        group_id, member_id = member
        deliveries_max = self.config_of(group_id).deliveries_max
        for (topic_id, index), partition in self._partitions.all_opened():
            if partition.is_closed or partition.shares.get(group_id) is None:
                continue
            before = self.progress(group_id, partition)
            after = release_all(before, member_id, deliveries_max)
            if after is not before:
                try:
                    self.put((group_id, topic_id, index), partition, after)
                    self._count_given_up(before, after)
                except SiltstoneError as trouble:  # the locks end by their time
                    log.warning("records of share group %r stay locked for a while: %s", group_id, trouble)

    def connection_closed(self, connection_id: int) -> None:
        for member in self.sessions.of_connection(connection_id):
            self.end_session(member)

    # -- counts ------------------------------------------------------------------------------------------

    def count_delivered(self, records: int) -> None:
        self._delivered += records

    def count_acknowledged(
        self, types: Counter[AcknowledgeType], before: ShareProgress, after: ShareProgress
    ) -> None:
        self._acknowledged.update(types)
        self._given_up += types[AcknowledgeType.RELEASE] - _more(before, after, DeliveryState.AVAILABLE)

    def _count_given_up(self, before: ShareProgress, after: ShareProgress) -> None:
        """A release makes records available that are not at the limit of deliveries."""
        released = -_more(before, after, DeliveryState.ACQUIRED)
        self._given_up += released - _more(before, after, DeliveryState.AVAILABLE)

    def statistics(self) -> ShareStatistics:
        return ShareStatistics(
            len(self.sessions),
            sum(self._acquired.values()),
            self._delivered,
            dict(self._acknowledged),
            self._given_up,
        )

    # -- waits -------------------------------------------------------------------------------------------

    def watch(self, key: ShareKey, ring: Callable[[], None]) -> None:
        self._waiting.setdefault(key, set()).add(ring)
        self._ringing.add(ring)

    def unwatch(self, key: ShareKey, ring: Callable[[], None]) -> None:
        self._ringing.discard(ring)
        waiting = self._waiting.get(key, set())
        waiting.discard(ring)
        if not waiting:
            self._waiting.pop(key, None)

    def _wake(self, key: ShareKey) -> None:
        for ring in self._waiting.get(key, ()):
            ring()

    def end_waits(self) -> None:
        self.are_waits_over = True
        for ring in list(self._ringing):
            ring()

    def close(self) -> None:
        self._timers.close()


def _more(before: ShareProgress, after: ShareProgress, state: DeliveryState) -> int:
    return after.count_of(state) - before.count_of(state)


def _retrieved(durable: "asyncio.Future[int]") -> None:
    """Nobody may wait for what a lock's end has written: the engine reports its own failures."""
    with suppress(asyncio.CancelledError):
        durable.exception()
