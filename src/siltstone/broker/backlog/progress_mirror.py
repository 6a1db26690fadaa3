"""What registered groups have committed, mirrored into the metadata, where maintenance reads it (``group_progress``).

What keeps the mirror from ever being ahead of ``__consumer_offsets``, under which data would go that nobody has read:

- what is mirrored was durable before;
- a commit below what the mirror says, or may say, waits until the mirror says no more than that (``holding_back``);
- so do offsets that are deleted, and the first commit of a group that was let go.

A broker that dies leaves a mirror that lags: more is kept than need be, until it is back. If the mirror cannot be
written, only those few commits are refused; all others never wait for it.
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
    """``maybe``: what was to be written and may have been, until something else certainly was. ``groups`` ask it, and
    are asked by it."""

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
        """Of a registered group: not after it was deleted, until it comes back."""
        progress = self._standing(group)
        return progress is None or progress.is_waited_for(topic.id)

    # -- forward, now and then -----------------------------------------------------------------------------

    async def bring_up_to_date(self) -> None:
        """All that changed. What cannot be written now is tried again the next time."""
        by_group = self._registrations.by_group()
        if by_group is not self._seen:
            await self._forget_unregistered(by_group)
            self._seen = by_group
        if (
            self._topics.by_name(OFFSETS_TOPIC) is None
        ):  # nobody has committed anything; to look would make it
            return
        for group in list(by_group):
            lock = self._lock_of(group)
            if not lock.locked():  # else somebody is at it
                async with lock:
                    await self._follow(group)
            await let_others_run()

    def note_last_positions(self) -> None:
        """Groups are about to close, and cannot be asked then: ``bring_up_to_date`` once more writes these."""
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
            log.warning("the progress of group %s is not in the metadata, more is kept: %s", group, trouble)

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

    # -- back, before it happens ---------------------------------------------------------------------------

    @asynccontextmanager
    async def holding_back(self, group: str, offsets: Mapping[TopicPartition, int]) -> AsyncIterator[None]:
        """Around a commit of these offsets, or, with NO_OFFSET, around their end. Costs a dictionary read where the
        group is not registered. Raises what writing the metadata raises, and then nothing may be committed."""
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
        """What was let go comes back with the commit: at the beginning, where nothing else is known."""
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

    # -- gone ------------------------------------------------------------------------------------------------

    async def let_go(self, group: str) -> None:
        """It was deleted: nobody waits for it any more, until it commits again. What cannot be written now is tried
        again."""
        if not self._registrations.topics_of(group):
            return
        self._to_let_go.add(group)
        async with self._lock_of(group):
            await self._follow(group)

    def has_counted(self, group: str) -> bool:
        """Whether it has committed something once, and was not let go."""
        progress = self._standing(group)
        return progress is not None and bool(progress.offsets)

    # -- the metadata ----------------------------------------------------------------------------------------

    def _standing(self, group: str) -> GroupProgress | None:
        encoded = self._metadata.image.keys.get(key_of(group))
        if encoded is None:
            return None
        decoded = self._decoded.get(group)
        if decoded is None or decoded[0] is not encoded:
            decoded = self._decoded[group] = (encoded, _decoded(encoded))
        return decoded[1]

    async def _write(self, group: str, progress: GroupProgress | None) -> None:
        """Under the group's lock."""
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
    """Of a group that is not there (any more) the last that was known stays: only DeleteGroups lets it go."""
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
        log.warning("%s; it is written anew", damage)
        return GroupProgress()


def _let_go(topics: tuple[Topic, ...]) -> GroupProgress:
    return GroupProgress(let_go=tuple(topic.id for topic in topics))


def _furthest(progress: GroupProgress, other: GroupProgress | None) -> GroupProgress:
    """At each place the one that is further: either may be what stands."""
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
