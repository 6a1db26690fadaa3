"""Opens the store that a URL names. Only this module knows the adapters.

======================================  ===================================================
URL                                     adapter
======================================  ===================================================
``file:///absolute/folder``             ``folder``
``memory:NAME``                         ``memory``; one bucket of this process
``s3://bucket/prefix?endpoint_url=…``   ``s3``; see ``s3.location`` for the options
======================================  ===================================================
"""

from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from siltstone.model.limits import TEMPORARY_FILE_AGE_MS_MAX
from siltstone.object_store.bandwidth.limiter import Limiter
from siltstone.object_store.bandwidth.passage import UNCOUNTED, Counted
from siltstone.object_store.faults import BucketFaults, FaultBucket
from siltstone.object_store.folder.store import FolderStore
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.opened_later import StoreOpenedLater
from siltstone.object_store.port import InvalidStoreUrl, ObjectStore, StoreDenied
from siltstone.object_store.retrying import RetryingStore, RetrySettings
from siltstone.object_store.s3.location import S3Location
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import Random, system_randomness


def open_store(
    url: str,
    *,
    clock: Clock | None = None,
    rng: Random | None = None,
    settings: RetrySettings | None = None,
    faults: BucketFaults | None = None,
    is_opened_later: bool = False,
    limiter: Limiter | None = None,
    create: bool = False,
) -> RetryingStore:
    """Opens a bucket whose transient failures are retried; ``faults`` are for tests. No request is sent to S3 yet, so a
    bucket that does not exist is reported by the first request. With ``is_opened_later`` nothing at all is done before
    the first request, which then raises what this function would raise: InvalidStoreUrl, StoreDenied, and
    StoreTransient for a folder. A missing folder is made only if ``create``; otherwise FolderMissing is raised. The
    ``limiter`` counts the bytes of all requests."""
    clock = clock or SystemClock()
    rng = rng or system_randomness()
    settings = settings or RetrySettings()
    if is_opened_later:
        adapter: ObjectStore = StoreOpenedLater(url, lambda: _open_adapter(url, clock, rng, settings, create))
    else:
        adapter = _open_adapter(url, clock, rng, settings, create)
    store = adapter if faults is None else FaultBucket(adapter, faults, clock)
    # Why a folder passes the limiter, retries, watch and breaker as S3 does: it may be a network file system that
    # hangs, and what tests see with a folder should hold for every bucket.
    passage = UNCOUNTED if limiter is None else Counted(limiter)
    return RetryingStore(store, clock, rng, settings, passage)


def canonical_url(url: str) -> str:
    """Returns the one way in which the URL of each place is written: with or without a slash at the end, a URL leads to
    the same bucket. Raises InvalidStoreUrl."""
    parts = urlsplit(url)
    match parts.scheme:
        case "s3":
            return S3Location.parse(url).url
        case "file":
            return Path(normpath(unquote(parts.path))).as_uri()
    return url


def _open_adapter(url: str, clock: Clock, rng: Random, settings: RetrySettings, create: bool) -> ObjectStore:
    match urlsplit(url).scheme:
        case "file":
            return _open_folder(url, clock, rng, create)
        case "memory":
            return MemoryStore.named(url.removeprefix("memory:"), clock)
        case "s3":
            return _open_s3(url, settings)
    raise InvalidStoreUrl(f"{url!r} names no store; write file:///absolute/folder or s3://bucket/prefix")


def _open_folder(url: str, clock: Clock, rng: Random, create: bool) -> ObjectStore:
    parts = urlsplit(url)
    path = Path(unquote(parts.path))
    if parts.netloc or parts.query or not path.is_absolute():
        raise InvalidStoreUrl(f"{url!r} names no folder; write file:///absolute/folder, with three slashes")
    store = FolderStore(path, clock, rng, create=create)
    store.remove_stale(TEMPORARY_FILE_AGE_MS_MAX)
    return store


def _open_s3(url: str, settings: RetrySettings) -> ObjectStore:
    location = S3Location.parse(url)
    try:
        from siltstone.object_store.s3.store import S3Store  # noqa: PLC0415  an optional dependency
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("botocore"):
            raise
        raise StoreDenied(f"{url!r} needs botocore; install it: pip install 'siltstone[s3]'") from None
    return S3Store(location, settings.requests_in_flight_max, settings.answer_ms_max)
