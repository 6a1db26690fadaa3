"""Opens the metadata and the buckets of a store without a node (rule 10): for scans, for maintenance and for commands.

What is opened here is closed in the opposite order, also when opening fails.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.opening import newest_beat_ms
from siltstone.metadata.store.opening import open_log, shown_url
from siltstone.metadata.store.port import LogNotFound, MetadataLog
from siltstone.metadata.store.postgres.place import is_postgres_url
from siltstone.metadata.store_id import claimed_url
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import CLOCK_ADVANCE_MS_MAX
from siltstone.object_store.bandwidth.limiter import Limiter, limiter_of_process
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.faults import BucketFaults
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.opening.settings import StoreSettings
from siltstone.offline.opening.shown import store_html, store_words
from siltstone.offline.settings import KindSettings
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import Random, system_randomness


class SparkNotOffered(InvalidRequest):
    """Maintenance is to run on a Spark, and the store was opened below it."""


class StoreNotFound(InvalidRequest):
    """There is no store at the given place. A node, the demo and ``open_store(create=True)`` create stores."""


def in_process_runner(spark: Any) -> Runner:
    """Returns the runner of a store that was opened without Spark. Raises SparkNotOffered for a session or a master."""
    if spark is not None:
        raise SparkNotOffered("this store was opened without Spark: open it by siltstone.open_store")
    return InProcessRunner()


class Store:
    """The metadata and the buckets of one store, with blocking calls, for commands and maintenance. Leaving the
    ``with`` closes it. ``open_runner`` opens the runner for maintenance tasks: on a Spark, or for None in this
    process."""

    def __init__(
        self, settings: StoreSettings, context: MaintenanceContext, open_runner: Callable[[Any], Runner]
    ) -> None:
        self.settings = settings
        self.context = context
        self.open_runner = open_runner

    @property
    def metadata(self) -> MetadataClient:
        return self.context.metadata

    @property
    def buckets(self) -> Buckets:
        return self.context.buckets

    @property
    def kind_settings(self) -> KindSettings:
        """The settings of all maintenance kinds."""
        return kind_settings_of(self.settings)

    def trust_clock(self) -> None:
        """Maintenance by this store no longer compares the machine's clock with the newest time that the store has
        seen: a person has said that it is right."""
        self.context = replace(self.context, clock_advance_ms_max=None)

    def __repr__(self) -> str:
        """Shows the folder, and how much is in the store as far as this process has read the metadata."""
        return store_words(self.settings.folder, self.metadata.image)

    def _repr_html_(self) -> str:
        """Shows the same in notebooks, and the topics."""
        return store_html(self.settings.folder, self.metadata.image)

    def close(self) -> None:
        self.metadata.close()
        self.buckets.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def kind_settings_of(settings: StoreSettings) -> KindSettings:
    """Returns the settings of all maintenance kinds. Key compaction keeps the batches that hold a producer's last
    sequence number for at least as long as a broker on this store remembers the producer."""
    keys = settings.maintenance.key_compaction
    expiration_ms = max(keys.producer_expiration_ms, settings.producer_id_expiration_ms)
    return KindSettings(
        grace_period_ms=settings.sweep.grace_period_ms,
        compaction=settings.compaction,
        maintenance=replace(
            settings.maintenance,
            key_compaction=replace(keys, producer_expiration_ms=expiration_ms),
        ),
        tables=settings.tables,
    )


def open_store(
    settings: StoreSettings,
    *,
    create: bool = False,
    clock: Clock | None = None,
    rng: Random | None = None,
    lost: int | None = None,
    open_runner: Callable[[Any], Runner] = in_process_runner,
) -> Store:
    """Opens the metadata and the buckets of a store; the folder of the bucket ``lost`` may be missing. Spark is on a
    higher floor: who offers it to ``Store.open_runner`` gives a function. Raises StoreNotFound if there is no store and
    ``create`` is false, and what the metadata log and the object stores raise."""
    clock, rng = clock or SystemClock(), rng or system_randomness()
    with ExitStack() as opened:
        metadata = open_metadata(settings, clock, rng, create=create)
        opened.callback(metadata.close)
        listed = bucket_list_of(metadata.image)
        left_out = listed.removed if lost is None else listed.removed | {lost}
        buckets = open_buckets(
            settings,
            create=create,
            removed=left_out,
            listed=listed.urls,
            claimed=lambda bucket_id: claimed_url(metadata.image, bucket_id),
        )
        buckets.follow(lambda: bucket_list_of(metadata.image))
        opened.pop_all()
    context = MaintenanceContext(
        metadata,
        buckets,
        clock,
        rng,
        settings.maintenance.gc.quota_bytes,
        rates=settings.maintenance.copy_rates,
        bandwidth=settings.bandwidth,
        clock_advance_ms_max=None if is_postgres_url(settings.metadata) else CLOCK_ADVANCE_MS_MAX,
        newest_beat_ms=partial(newest_beat_ms, settings.metadata, clock),
    )
    return Store(settings, context, open_runner)


def open_metadata(
    settings: StoreSettings, clock: Clock, rng: Random, *, create: bool, untouched: bool = False
) -> MetadataClient:
    """Reads the log to its end. ``untouched``: only to look at it, which changes no file and no mode. Raises
    StoreNotFound, and what the log raises."""
    log = open_metadata_log(settings, clock, create=create, untouched=untouched)
    try:
        return MetadataClient(log, clock, rng)
    except BaseException:
        log.close()
        raise


def open_metadata_log(
    settings: StoreSettings, clock: Clock, *, create: bool, untouched: bool = False
) -> MetadataLog:
    """Opens the log alone, without reading it. Raises StoreNotFound, and what the log raises."""
    try:
        return open_log(settings.metadata, create=create, clock=clock, untouched=untouched)
    except LogNotFound as missing:
        raise StoreNotFound(
            f"there is no store at {settings.folder}: {shown_url(settings.metadata)} is missing; "
            "name another folder (--store FOLDER), or create a store with siltstone serve or siltstone demo"
        ) from missing


def open_buckets(
    settings: StoreSettings,
    *,
    create: bool,
    faults: BucketFaults | None = None,
    removed: Collection[int] = (),
    listed: Mapping[int, str] | None = None,
    claimed: Callable[[int], str | None] = lambda _: None,
    limiter: Limiter | None = None,
) -> Buckets:
    """Opens the buckets of the settings, but none that was ``removed`` from the store; if there is none, the
    buckets that the metadata has ``listed``. Their requests pass the ``limiter``, by default that of the process.
    Creates a missing bucket folder only if ``create``. Otherwise, if the metadata has listed the bucket and others
    whose folders are there, the bucket is opened by its first request, so that the store can be used without it; in
    other cases the settings are probably wrong and StoreNotFound is raised, with the URL at which the store has
    ``claimed`` the bucket."""
    urls = {bucket_id: url for bucket_id, url in settings.buckets.items() if bucket_id not in removed}
    urls = urls or {bucket_id: url for bucket_id, url in (listed or {}).items() if bucket_id not in removed}
    if not urls:  # the operator says that the only bucket is lost
        return Buckets.open(settings.buckets, settings.retry, faults, opened_later=settings.buckets)
    missing = {} if create else {each: found for each, url in urls.items() if (found := missing_folder(url))}
    others = {
        each: url for each, url in (listed or {}).items() if each not in missing and each not in removed
    }
    has_others = any(missing_folder(url) is None for url in others.values())
    for bucket_id, folder in missing.items():
        if not (has_others and bucket_id in (listed or {})):
            used = claimed(bucket_id)
            raise StoreNotFound(
                f"bucket {bucket_id} of the store is missing: there is no folder {folder}; "
                + (
                    f"correct buckets.{bucket_id}, or restore the folder"
                    if used in (None, urls[bucket_id])
                    else f"the store used {used} last: name it with --bucket, or as buckets.{bucket_id}"
                )
            )
    limiter = limiter or limiter_of_process(settings.bandwidth)
    return Buckets.open(urls, settings.retry, faults, limiter, create=create, opened_later=missing)


def missing_folder(url: str) -> Path | None:
    """Returns the folder that the URL of a bucket names if it does not exist; None for every other bucket."""
    folder = Path(unquote(urlsplit(url).path))
    return folder if url.startswith("file:///") and not folder.is_dir() else None
