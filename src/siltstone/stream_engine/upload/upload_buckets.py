"""Chooses the buckets of a node's new objects, and another bucket after a put that failed.

    image (list, strategy) ─┐
    breakers of the buckets ─┼─▶ object_store.bucket_choice ─▶ bucket id ─▶ prepare ─▶ put ──fails──▶ another bucket id
    bytes given so far     ─┘

Only buckets that are WRITABLE in the image and that the server has checked (``guards``) are candidates. A bucket whose
breaker is open gets new objects only if the breakers of all candidates are open. Probes close it again. Replication
chooses several buckets for each object, and as long as too few of them take writes, nothing is uploaded.
"""

import logging
from collections.abc import Mapping, Sequence, Set
from enum import Enum

import msgspec

from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.lookup import bytes_by_bucket
from siltstone.metadata.service import MetadataService
from siltstone.model.buckets import BucketList, StrategyType
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.model.limits import MINUTE_MS, SECOND_MS
from siltstone.object_store.bucket_choice import (
    BucketCandidate,
    bucket_of_set,
    buckets_of_copies,
    bytes_given_at_start,
    home_of_stream,
)
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.object_store.port import StoreDenied, StoreTransient
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

log = logging.getLogger(__name__)

RETURN_AFTER_MS = MINUTE_MS
"""Under failover a bucket is preferred again this long after it takes writes again, so that writes do not move each
time when a bucket fails and recovers often."""

LOOK_INTERVAL_MS = SECOND_MS


class NoBucketReady(Unavailable):
    """This node has not checked any writable bucket yet."""


class ObjectToPut(msgspec.Struct, frozen=True):
    """An object before it has an id. ``streams`` are its streams, ``is_set`` says that it is a stream set object."""

    streams: tuple[int, ...]
    is_set: bool
    size_bytes: int


class BucketChoice(msgspec.Struct, frozen=True):
    """The bucket of each object, and the further buckets into which replication puts all of them."""

    bucket_ids: tuple[int, ...]
    copies: tuple[int, ...] = ()


class CopyOutcome(Enum):
    """The next step for an object of which some copies could not be put."""

    COMMIT = "the copies that are there are enough"
    ELSEWHERE = "other buckets take it, under another id"
    AGAIN = "the same buckets are asked again"


class UploadBuckets:
    """Makes the choices of one node, on one event loop, except for ``count_bytes``."""

    def __init__(
        self, metadata: MetadataService, buckets: Buckets, guards: Mapping[int, BucketGuard], clock: Clock
    ) -> None:
        """Without ``guards``, as in tests of the engine alone, every writable bucket is a candidate."""
        self._metadata = metadata
        self._buckets = buckets
        self._guards = guards
        self._clock = clock
        self._given: dict[int, int] = {}
        self._said_open: set[int] = set()
        self._probing: set[int] = set()

    @property
    def is_counted(self) -> bool:
        """Whether the bytes of the image's objects are counted, or need not be."""
        listed = bucket_list_of(self._metadata.image)
        return len(listed.buckets) < 2 or bool(self._given)

    def count_bytes(self) -> None:
        """Counts the bytes that each bucket has; the image may have many objects, so this is called in a thread."""
        image = self._metadata.image
        self._given = bytes_given_at_start(bucket_list_of(image).buckets, bytes_by_bucket(image))

    def choose(self, objects: Sequence[ObjectToPut]) -> BucketChoice:
        """Chooses the buckets of the objects. Raises NoBucketReady."""
        listed = bucket_list_of(self._metadata.image)
        if not listed.buckets:
            return BucketChoice((self._buckets.default_bucket_id,) * len(objects))
        if listed.strategy.is_replication:
            return self._choose_copies(listed, objects)
        return BucketChoice(tuple(self._choose(listed, each) for each in objects))

    def _choose_copies(self, listed: BucketList, objects: Sequence[ObjectToPut]) -> BucketChoice:
        """Chooses as many buckets as each object has to have copies. If some take no writes, fewer are enough, but not
        fewer than the strategy demands: if too few are left, the first buckets in order are chosen although some take
        no writes, and the puts are repeated (B13)."""
        strategy, candidates = listed.strategy, self._candidates(listed)
        if len(candidates) < strategy.copies_needed:
            raise NoBucketReady(
                f"each object has to be in {strategy.copies_needed} buckets, and this node has checked "
                f"{len(candidates)} writable ones: add another one (siltstone buckets add), or choose fewer copies "
                "(siltstone buckets strategy); the log of the node says what a bucket lacks"
            )
        chosen = buckets_of_copies(strategy, candidates)
        if len(chosen) < strategy.copies_needed:
            chosen = strategy.in_order(each.bucket_id for each in candidates)[: strategy.copies]
        for bucket_id in chosen:
            self._given[bucket_id] += sum(each.size_bytes for each in objects)
        return BucketChoice((chosen[0],) * len(objects), tuple(chosen[1:]))

    def has_enough_without(self, bucket_id: int) -> bool:
        """Returns whether enough other buckets for an object take writes, as far as this node knows."""
        listed = bucket_list_of(self._metadata.image)
        working = [each for each in self._working(listed) if each != bucket_id]
        return len(working) >= listed.strategy.copies_needed

    def after_copies_failed(self, standing: Set[int], troubles: Mapping[int, SiltstoneError]) -> CopyOutcome:
        """Decides the next step for an object that is in the buckets ``standing``, when its puts into others have
        failed or timed out. The breakers of the others are open afterwards."""
        listed = bucket_list_of(self._metadata.image)
        strategy = listed.strategy
        for bucket_id, trouble in troubles.items():
            self._buckets.breaker(bucket_id).trip(self._clock.monotonic_ms(), str(trouble))
        working = len(self._working(listed))
        if working >= strategy.copies or len(standing) < strategy.copies_needed <= working:
            result, then = CopyOutcome.ELSEWHERE, "New objects go to the other buckets until it does"
        elif len(standing) >= strategy.copies_needed:
            result, then = CopyOutcome.COMMIT, f"New objects have {len(standing)} copies until it does"
        else:
            result = CopyOutcome.AGAIN
            then = f"Nothing is uploaded until it does: each object has to be in {strategy.copies_needed} buckets"
        for bucket_id, trouble in troubles.items():
            self._say_open(bucket_id, trouble, then)
        return result

    def refused_copies(self, troubles: Mapping[int, SiltstoneError]) -> SiltstoneError:
        """Makes the error for an object of which too few copies could be put. It names the first bucket that takes no
        writes."""
        bucket_id, trouble = min(troubles.items())
        needed = bucket_list_of(self._metadata.image).strategy.copies_needed
        text = (
            f"bucket {bucket_id} ({self._buckets.store(bucket_id).url}) takes no writes, and each object has to be in "
            f"{needed} buckets before it is committed: {trouble}"
        )
        return StoreDenied(text) if isinstance(trouble, StoreDenied) else StoreTransient(text)

    def _working(self, listed: BucketList) -> list[int]:
        """Returns the candidates whose breakers are closed."""
        candidates = (each.bucket_id for each in self._candidates(listed))
        return [each for each in candidates if not self._buckets.breaker(each).is_open]

    def has_another(self, bucket_id: int) -> bool:
        """Returns whether there is another bucket that takes writes, as far as this node knows."""
        listed = bucket_list_of(self._metadata.image)
        return any(
            each.bucket_id != bucket_id and not self._buckets.breaker(each.bucket_id).is_open
            for each in self._candidates(listed)
        )

    def instead_of(self, bucket_id: int, failed: ObjectToPut, cause: SiltstoneError) -> int | None:
        """Chooses the bucket for an object whose put into ``bucket_id`` failed or timed out; None if there is no other
        bucket. The breaker of ``bucket_id`` is open afterwards."""
        self._buckets.breaker(bucket_id).trip(self._clock.monotonic_ms(), str(cause))
        if not self.has_another(bucket_id):
            return None
        chosen = self._choose(bucket_list_of(self._metadata.image), failed)
        then = f"New objects go to bucket {chosen} until it does; what is in the bucket is read from there"
        self._say_open(bucket_id, cause, then)
        return chosen

    def _say_open(self, bucket_id: int, cause: SiltstoneError, then: str) -> None:
        """Logs once that the bucket takes no writes, until it does again."""
        if bucket_id not in self._said_open:
            self._said_open.add(bucket_id)
            log.error(
                "bucket %d (%s) takes no writes: %s. %s. Check that the bucket can be reached and that this node may "
                "write to it",
                bucket_id, self._buckets.store(bucket_id).url, cause, then,
            )  # fmt: skip

    async def probe_from_time_to_time(self, calls: BlockingCalls, node_id: int, tasks: TaskGroup) -> None:
        """Probes the buckets whose breakers are open, until it is cancelled. Each probe is a task of its own, because a
        bucket that hangs must not keep another one from being used again."""
        while True:
            await self._clock.sleep_ms(LOOK_INTERVAL_MS)
            now_ms = self._clock.monotonic_ms()
            for each in bucket_list_of(self._metadata.image).writable:
                if each.id not in self._probing and self._buckets.breaker(each.id).probe_is_due(now_ms):
                    self._probing.add(each.id)
                    tasks.start("probe", self._probe(calls, node_id, each.id))

    async def _probe(self, calls: BlockingCalls, node_id: int, bucket_id: int) -> None:
        store, breaker = self._buckets.store(bucket_id), self._buckets.breaker(bucket_id)
        try:
            await calls.run(self._buckets.probe, bucket_id, f"node-{node_id}-{self._clock.now_ms()}")
        except SiltstoneError as trouble:
            log.debug("bucket %d still takes no writes: %s", bucket_id, trouble)
            breaker.probed(self._clock.monotonic_ms(), is_good=False)
        else:
            if breaker.probed(self._clock.monotonic_ms(), is_good=True) and bucket_id in self._said_open:
                self._said_open.discard(bucket_id)
                log.warning("bucket %d (%s) takes writes again", bucket_id, store.url)
        finally:
            self._probing.discard(bucket_id)

    def _choose(self, listed: BucketList, wanted: ObjectToPut) -> int:
        candidates = self._candidates(listed)
        if not candidates:
            raise NoBucketReady(
                "no writable bucket has been checked by this node yet; it does so by itself, and its log says what a "
                "bucket lacks"
            )
        if all(each.is_avoided for each in candidates):
            candidates = [msgspec.structs.replace(each, is_avoided=False) for each in candidates]
        if wanted.is_set:
            chosen = bucket_of_set(listed.strategy, candidates)
        else:
            chosen = home_of_stream(listed.strategy, candidates, wanted.streams[0])
        assert chosen is not None, "a candidate that is not avoided"
        self._given[chosen] = self._given.get(chosen, 0) + wanted.size_bytes
        return chosen

    def _candidates(self, listed: BucketList) -> list[BucketCandidate]:
        writable = [each for each in listed.writable if not self._guards or each.id in self._guards]
        if any(each.id not in self._given for each in writable):
            self._given = bytes_given_at_start(listed.buckets, self._given)
        is_failover = listed.strategy.name is StrategyType.FAILOVER
        return [
            BucketCandidate(
                each.id, each.weight, self._given[each.id], self._is_avoided(each.id, is_failover)
            )
            for each in writable
        ]

    def _is_avoided(self, bucket_id: int, is_failover: bool) -> bool:
        breaker = self._buckets.breaker(bucket_id)
        if breaker.is_open or not is_failover or breaker.closed_ms is None:
            return breaker.is_open
        return self._clock.monotonic_ms() - breaker.closed_ms < RETURN_AFTER_MS
