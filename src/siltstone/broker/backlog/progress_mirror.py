"""Writes what registered groups have committed into the metadata, where maintenance reads it as the groups' progress.

The mirrored progress must never be ahead of ``__consumer_offsets``: retention would delete records that a group has not
read. Therefore

- an offset is mirrored only after its commit is durable;
- a commit that moves a group back waits until the mirror, and every write to it whose outcome is unknown, is not ahead
  of the commit (``holding_back``);
- deletions of offsets wait in the same way, and so does the first commit of a group that was deleted before.

After a crash of the broker the mirror lags behind, and retention keeps more than it needs to until the broker is back.
While the metadata cannot be written, only the commits that have to wait are refused; other commits never wait for it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import msgspec

from siltstone.broker.backlog.positions import GroupPosition, Registrations, position_at_once, position_of
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.rules.requests import TopicPartition
from siltstone.broker.topics.names import OFFSETS_TOPIC
from siltstone.broker.topics.registry import Topic, Topics
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.maintenance.retention.groups import (
    KEY_PREFIX,
    DamagedGroupProgress,
    GroupProgress,
    decode_progress,
    encode_progress,
    key_of,
)
from siltstone.metadata.commands import PutKey, RemoveKey
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.turns import let_others_run

log = logging.getLogger(__name__)


class ProgressMirror:
    """``_maybe``: progress whose write had an unknown outcome; kept until a later write is known to have succeeded.
    ``Groups`` calls this object before offsets move back, and this object reads offsets from ``Groups``, which is
    therefore passed as a function."""

    def __init__(
        self,
        metadata: MetadataService,
        topics: Topics,
        registrations: Registrations,
        groups: Callable[[], Groups],
    ) -> None:
        self._metadata = metadata
        self._topics = topics
        self._registrations = registrations
        self._groups = groups
        self._locks: dict[str, asyncio.Lock] = {}
        self._maybe: dict[str, GroupProgress] = {}
        self._to_let_go: set[str] = set()
        self._decoded: dict[str, tuple[bytes, GroupProgress]] = {}
        self._last: dict[str, asyncio.Future[GroupPosition | ErrorCode]] = {}
        self._seen: Mapping[str, tuple[Topic, ...]] | None = None
        self.writes = 0

    def is_waited_for(self, group: str, topic: Topic) -> bool:
        """Returns whether retention waits for this registered group. After the group was deleted it does not, until the
        group exists again."""
        progress = self._standing(group)
        return progress is None or progress.is_waited_for(topic.id)

    # -- forward: mirrored from time to time ---------------------------------------------------------------

    async def bring_up_to_date(self) -> None:
        """Mirrors every group whose offsets have changed. A write that fails is retried by the next call."""
        by_group = self._registrations.by_group()
        if by_group is not self._seen:
            await self._forget_unregistered(by_group)
            self._seen = by_group
        if self._topics.by_name(OFFSETS_TOPIC) is None:
            return  # no group has committed anything, and asking for its offsets would create the topic
        for group in list(by_group):
            lock = self._lock_of(group)
            if not lock.locked():  # otherwise the group is being mirrored already
                async with lock:
                    await self._follow(group)
            await let_others_run()

    def note_last_positions(self) -> None:
        """Notes the offsets of all groups, for the last ``bring_up_to_date``: coordinators that are closing do not
        answer."""
        for group, topics in self._registrations.by_group().items():
            position = position_at_once(self._groups(), group, topics)
            if not isinstance(position, ErrorCode):
                self._last.setdefault(group, position)

    async def _follow(self, group: str) -> None:
        topics = self._registrations.topics_of(group)
        noted = self._last.get(group)
        position = await (position_of(self._groups(), group, topics) if noted is None else noted)
        if isinstance(position, ErrorCode):
            return
        if group in self._to_let_go and not position.is_known:
            progress: GroupProgress | None = _let_go(topics)
        else:
            progress = _progress(position, self._standing(group), topics)
        try:
            await self._write(group, progress)
        except SiltstoneError as trouble:
            log.warning("the progress of group %s was not written; retention keeps more: %s", group, trouble)

    async def _forget_unregistered(self, by_group: Mapping[str, tuple[Topic, ...]]) -> None:
        named = [key for key in self._metadata.image.keys if key.startswith(KEY_PREFIX)]
        for key in named:
            group = key.removeprefix(KEY_PREFIX)
            if group not in by_group:
                async with self._lock_of(group):
                    await self._metadata.execute(RemoveKey(key))
                    self._maybe.pop(group, None)
                    self._decoded.pop(group, None)
        for group in [group for group, lock in self._locks.items() if not lock.locked()]:
            if group not in by_group:
                del self._locks[group]

    # -- back: mirrored before the commit ------------------------------------------------------------------

    @asynccontextmanager
    async def holding_back(self, group: str, offsets: Mapping[TopicPartition, int]) -> AsyncIterator[None]:
        """Wraps a commit of these offsets; NO_OFFSET stands for a deletion. If the mirror is ahead of them, it is moved
        back first. Costs a dictionary read if the group is not registered. Raises what the write to the metadata
        raises; then the caller must not commit."""
        if not self._is_ahead(group, offsets):
            yield
            return
        async with self._lock_of(group):
            await self._write(group, self._lowered(group, offsets))
            yield

    def _is_ahead(self, group: str, offsets: Mapping[TopicPartition, int]) -> bool:
        said = (self._standing(group), self._maybe.get(group))
        if said == (None, None):
            return False
        targets = list(self._by_topic_id(offsets))
        return any(
            not progress.is_waited_for(topic_id) or progress.offset(topic_id, partition) > offset
            for progress in said
            if progress is not None
            for topic_id, partition, offset in targets
        )

    def _lowered(self, group: str, offsets: Mapping[TopicPartition, int]) -> GroupProgress:
        """Returns the mirrored progress, moved back to ``offsets``. For a group that was deleted, retention waits
        again: from the beginning, except where the group commits."""
        lowered = dict((self._standing(group) or GroupProgress()).offsets)
        for topic_id, partition, offset in self._by_topic_id(offsets):
            known = lowered.get(topic_id, ())
            if partition < len(known) and known[partition] > offset:
                lowered[topic_id] = (*known[:partition], offset, *known[partition + 1 :])
        return GroupProgress(lowered)

    def _by_topic_id(self, offsets: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
        known = (
            (self._topics.by_name(topic), partition, offset) for (topic, partition), offset in offsets.items()
        )
        return [(topic.id, partition, offset) for topic, partition, offset in known if topic is not None]

    # -- deleted groups ------------------------------------------------------------------------------------

    async def let_go(self, group: str) -> None:
        """Is called when the group was deleted: retention stops waiting for it, until it exists again. A write that
        fails is retried by ``bring_up_to_date``."""
        if not self._registrations.topics_of(group):
            return
        self._to_let_go.add(group)
        async with self._lock_of(group):
            await self._follow(group)

    def has_counted(self, group: str) -> bool:
        """Returns whether retention waits for the group because of offsets that it has committed, which are then
        mirrored."""
        progress = self._standing(group)
        return progress is not None and bool(progress.offsets)

    # -- the metadata --------------------------------------------------------------------------------------

    def _standing(self, group: str) -> GroupProgress | None:
        encoded = self._metadata.image.keys.get(key_of(group))
        if encoded is None:
            return None
        decoded = self._decoded.get(group)
        if decoded is None or decoded[0] is not encoded:
            decoded = self._decoded[group] = (encoded, _decoded(encoded))
        return decoded[1]

    async def _write(self, group: str, progress: GroupProgress | None) -> None:
        """Writes the group's progress if it has changed. The caller holds the group's lock."""
        if progress is None or (progress == self._standing(group) and group not in self._maybe):
            self._to_let_go.discard(group)
            return
        self._maybe[group] = _furthest(progress, self._maybe.get(group))
        await self._metadata.execute(PutKey(key_of(group), encode_progress(progress), overwrite=True))
        del self._maybe[group]
        self._to_let_go.discard(group)
        self.writes += 1

    def _lock_of(self, group: str) -> asyncio.Lock:
        return self._locks.setdefault(group, asyncio.Lock())


def _progress(
    position: GroupPosition, standing: GroupProgress | None, topics: tuple[Topic, ...]
) -> GroupProgress | None:
    """Returns the progress to be mirrored. A group that does not exist keeps its last progress: only after DeleteGroups
    does retention stop waiting for it."""
    if position.is_known:
        return GroupProgress(position.offsets)
    if standing is None:
        return None
    kept = {topic.id for topic in topics}
    offsets = {topic_id: offsets for topic_id, offsets in standing.offsets.items() if topic_id in kept}
    return GroupProgress(offsets, tuple(topic_id for topic_id in standing.let_go if topic_id in kept))


def _decoded(encoded: bytes) -> GroupProgress:
    try:
        return decode_progress(encoded)
    except DamagedGroupProgress as damage:
        log.warning("%s; it will be written again", damage)
        return GroupProgress()


def _let_go(topics: tuple[Topic, ...]) -> GroupProgress:
    return GroupProgress(let_go=tuple(topic.id for topic in topics))


def _furthest(progress: GroupProgress, other: GroupProgress | None) -> GroupProgress:
    """Returns for each partition the larger offset, because either value may be the one in the metadata."""
    if other is None:
        return progress
    offsets = {
        topic_id: tuple(
            max(progress.offset(topic_id, i), other.offset(topic_id, i))
            for i in range(max(len(progress.offsets.get(topic_id, ())), len(other.offsets.get(topic_id, ()))))
        )
        for topic_id in {**progress.offsets, **other.offsets}
    }
    return msgspec.structs.replace(
        progress, offsets=offsets, let_go=tuple(dict.fromkeys((*progress.let_go, *other.let_go)))
    )
