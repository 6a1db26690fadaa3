"""Holds the buckets of one installation by id, and reads an object's index from its bucket.

An object's bucket id is part of its metadata, and every read and deletion uses that id. Buckets that are listed in the
metadata and not in the settings are opened when they are first asked for, so a bucket that is added while a process
runs is found by it. ``read_index`` takes one ranged read of the object's tail, and a second one only when the index
begins before that tail.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock, Thread
from typing import Self

from siltstone.foundation.histogram import HistogramCounts
from siltstone.model.buckets import BucketList
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.model.limits import INDEX_BYTES_MAX, TAIL_READ_BYTES
from siltstone.model.objects import DEFAULT_BUCKET_ID
from siltstone.object_formats.block_index import BlockIndex, DamagedIndex
from siltstone.object_formats.object_layout import (
    DamagedFooter,
    IndexLiesBefore,
    index_of_tail,
    verified_index,
)
from siltstone.object_store.bandwidth.limiter import Limiter, no_limit
from siltstone.object_store.copies import Copies
from siltstone.object_store.faults import BucketFaults
from siltstone.object_store.health import Breaker, probe
from siltstone.object_store.opening import open_store
from siltstone.object_store.port import ObjectStore
from siltstone.object_store.retrying import RetryingStore, RetrySettings, StoreStatistics
from siltstone.runtime.clock import SystemClock

log = logging.getLogger(__name__)

PASSED_OVER_LOGGED_MAX = 100
"""This many copies that are passed over are logged one by one; a bucket that is out may have thousands."""


class UnknownBucket(InvalidRequest):
    """The metadata names a bucket that is missing from its own list and from the settings."""

    def __init__(self, bucket_id: int) -> None:
        super().__init__(
            f"the metadata names bucket {bucket_id}, which is not in the settings; add buckets.{bucket_id}"
        )
        self.bucket_id = bucket_id


class Buckets:
    """A mapping from bucket ids to stores, which all threads share. It grows by the buckets that ``follow`` names."""

    def __init__(
        self,
        stores: Mapping[int, ObjectStore],
        settings: RetrySettings | None = None,
        faults: BucketFaults | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        """``settings`` and ``faults`` are for buckets that are opened later. The requests to all of them pass the
        ``limiter``."""
        assert stores, "at least one bucket"
        self._growing = Lock()
        self._stores = dict(
            stores
        )  # it is never changed, but replaced, because other threads iterate over it
        self._breakers: dict[int, Breaker] = {}
        self._settings = settings
        self._faults = faults
        self.limiter = limiter or no_limit(SystemClock())
        self._listed: Callable[[], BucketList] = BucketList
        self._passed_over: Counter[int] = Counter()

    @classmethod
    def open(
        cls,
        urls: Mapping[int, str],
        settings: RetrySettings | None = None,
        faults: BucketFaults | None = None,
        limiter: Limiter | None = None,
        *,
        create: bool = False,
        opened_later: Collection[int] = (),
    ) -> Self:
        """Opens the stores of the URLs, as ``open_store`` does, and raises what it raises; those ``opened_later`` by
        their first request. Missing folders are made only if ``create``."""
        opened = {
            bucket_id: open_store(
                url,
                settings=settings,
                faults=faults,
                is_opened_later=bucket_id in opened_later,
                limiter=limiter,
                create=create,
            )
            for bucket_id, url in urls.items()
        }
        return cls(opened, settings, faults, limiter)

    def follow(self, listed: Callable[[], BucketList]) -> None:
        """Adds the buckets that ``listed`` returns from now on. A bucket that is open already stays open at its own
        URL. Buckets that were removed, by the list, are no longer known, even if the settings name them."""
        self._listed = listed

    def store(self, bucket_id: int) -> ObjectStore:
        """Returns the store of a bucket. It does no I/O, so it may be called on an event loop. Raises UnknownBucket."""
        store = self._stores.get(bucket_id)
        if store is not None:
            return store
        url = self._listed().urls.get(bucket_id)
        if url is None:
            raise UnknownBucket(bucket_id)
        with self._growing:
            if bucket_id not in self._stores:
                store = open_store(
                    url,
                    settings=self._settings,
                    faults=self._faults,
                    is_opened_later=True,
                    limiter=self.limiter,
                )
                self._stores = {**self._stores, bucket_id: store}
            return self._stores[bucket_id]

    def copies(self, bucket_ids: Sequence[int], what: str) -> Copies:
        """Returns the copies of an object, which log lines call ``what``: first those in buckets that answer and take
        writes, in the order of their ids. A bucket that is not known is left out. Raises UnknownBucket if all are
        unknown."""
        if len(bucket_ids) == 1:
            return Copies([(bucket_ids[0], self.store(bucket_ids[0]))])
        stores: list[tuple[int, ObjectStore]] = []
        unknown: UnknownBucket | None = None
        for bucket_id in sorted(bucket_ids, key=lambda each: (self._is_ailing(each), each)):
            try:
                stores.append((bucket_id, self.store(bucket_id)))
            except UnknownBucket as trouble:
                unknown = trouble
        if not stores and unknown is not None:
            raise unknown
        return Copies(stores, lambda bucket_id, failure: self._note_passed_over(bucket_id, what, failure))

    def passed_over(self) -> dict[int, int]:
        """Returns, by bucket id, how often a copy there was passed over by a reader, because it was missing or damaged,
        or its bucket did not answer, and another copy was read."""
        return dict(self._passed_over)

    def _note_passed_over(self, bucket_id: int, what: str, failure: SiltstoneError) -> None:
        with self._growing:
            self._passed_over[bucket_id] += 1
            count = self._passed_over[bucket_id]
        if count <= PASSED_OVER_LOGGED_MAX:
            log.warning(
                "%s could not be read from bucket %d, and was read from another one: %s. siltstone check shows what is "
                "wrong there, the kind of maintenance copies puts missing copies back",
                what, bucket_id, failure,
            )  # fmt: skip

    def _is_ailing(self, bucket_id: int) -> bool:
        store = self._stores.get(bucket_id)
        return isinstance(store, RetryingStore) and (store.breaker.is_open or store.watch.is_silent)

    def breaker(self, bucket_id: int) -> Breaker:
        """Returns the breaker of the bucket, which says whether the bucket takes writes, as this process has seen it.
        Raises UnknownBucket."""
        store = self.store(bucket_id)
        if isinstance(store, RetryingStore):
            return store.breaker
        with self._growing:
            return self._breakers.setdefault(bucket_id, Breaker())

    def probe(self, bucket_id: int, token: str) -> None:
        """Puts, reads and deletes a small object, with one attempt each (``health.probe``). Raises UnknownBucket, and
        what the bucket raises."""
        store = self.store(bucket_id)
        probe(store.without_retries() if isinstance(store, RetryingStore) else store, token)

    @property
    def urls(self) -> dict[int, str]:
        """The URLs by which another process opens the same buckets, by id. Removed buckets have none."""
        listed = self._listed()
        opened = {bucket_id: store.url for bucket_id, store in self._stores.items()}
        return {
            bucket_id: url
            for bucket_id, url in sorted({**listed.urls, **opened}.items())
            if bucket_id not in listed.removed
        }

    @property
    def opened(self) -> frozenset[int]:
        """The ids of the buckets that were opened so far, removed ones included."""
        return frozenset(self._stores)

    @property
    def default_bucket_id(self) -> int:
        """The bucket in which new objects are put as long as the metadata lists no buckets."""
        return DEFAULT_BUCKET_ID if DEFAULT_BUCKET_ID in self._stores else min(self._stores)

    def statistics(self) -> StoreStatistics:
        """Returns the sum over all buckets that were opened by URL."""
        each = [store.statistics() for store in self._stores.values() if isinstance(store, RetryingStore)]
        return sum(each, StoreStatistics({}, 0, 0, 0))

    def requests(self) -> dict[int, tuple[StoreStatistics, dict[str, HistogramCounts]]]:
        """Returns, by bucket id, the counts of a bucket that was opened by URL, and the seconds of its requests by
        method."""
        return {
            bucket_id: (store.statistics(), store.seconds())
            for bucket_id, store in self._stores.items()
            if isinstance(store, RetryingStore)
        }

    def look(self) -> None:
        """Logs which buckets do not answer, and has silent ones asked that get no other request. The owner calls it
        once in BUCKET_LOOK_INTERVAL_MS, perhaps on an event loop, so a bucket is asked in a thread: it may hang."""
        for store in tuple(self._stores.values()):
            if isinstance(store, RetryingStore):
                store.watch.look()
                if store.watch.is_to_be_asked():
                    Thread(target=store.ask, name="ask-silent-bucket", daemon=True).start()

    def silent(self) -> dict[int, bool]:
        """Returns, by bucket id, whether a bucket that was opened by URL does not answer."""
        return {
            bucket_id: store.watch.is_silent
            for bucket_id, store in self._stores.items()
            if isinstance(store, RetryingStore)
        }

    def are_silent(self, bucket_ids: Collection[int]) -> bool:
        """Returns whether one of these buckets does not answer, as far as this is watched."""
        silent = self.silent()
        return any(silent.get(bucket_id, True) for bucket_id in bucket_ids)

    def silent_urls(self) -> list[str]:
        """Returns the URLs of the buckets that do not answer."""
        return [self._stores[bucket_id].url for bucket_id, is_silent in self.silent().items() if is_silent]

    def close(self) -> None:
        for store in self._stores.values():
            store.close()


def read_index(
    store: ObjectStore, key: str, size_bytes: int, index_bytes_max: int = INDEX_BYTES_MAX
) -> BlockIndex:
    """Reads and verifies the index of the object at ``key``; ``size_bytes`` is the object's size from the metadata.

    Raises ObjectNotFound, ObjectTruncated, DamagedFooter, DamagedIndex, and what the store raises.
    """
    tail = store.get_range(key, max(0, size_bytes - TAIL_READ_BYTES), size_bytes)
    try:
        found = index_of_tail(tail, size_bytes)
        if isinstance(found, IndexLiesBefore):
            _refuse_absurd_length(found, index_bytes_max)
            return verified_index(store.get_range(key, found.position, found.end), found.footer)
        return found
    except (DamagedFooter, DamagedIndex) as damage:
        raise type(damage)(f"{key}: {damage}") from damage


def _refuse_absurd_length(found: IndexLiesBefore, bytes_max: int) -> None:
    """Raises DamagedIndex before memory is allocated for an index of impossible size."""
    index_bytes = found.end - found.position
    if index_bytes > bytes_max:
        raise DamagedIndex(f"its footer claims an index of {index_bytes} bytes, more than {bytes_max}")
