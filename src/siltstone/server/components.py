"""Settings become objects: a store to look at and maintain, or a running node. The only place that knows how all the
parts fit; whatever was opened is closed in the opposite order, on failure as well.

Maintenance needs no node (rule 10): ``open_store`` opens the metadata and the buckets and nothing else.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import msgspec

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.settings import KindSettings
from siltstone.maintenance.tasks.runner import Runner
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.opening import open_log
from siltstone.metadata.store.port import LogNotFound
from siltstone.metadata.store_id import put_store_id
from siltstone.model.errors import InvalidRequest
from siltstone.object_store.buckets import Buckets
from siltstone.runtime.blocking import BlockingCalls, ThreadedCalls
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import Random, system_randomness
from siltstone.server.bucket_identity import claim_buckets
from siltstone.server.settings.store import StoreSettings
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.opening import open_engine
from siltstone.stream_engine.reading.committed_reader import CommittedReader
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog

WAL_THREADS = 1
"""The log is one file: a second writer would only wait. Nothing else may occupy this thread."""

METADATA_THREADS = 1
"""Commands are decided one batch after another."""

UPLOAD_THREADS = 4
READ_THREADS = 8
"""Requests to a bucket wait for the network more than they compute."""


class StoreNotFound(InvalidRequest):
    """There is no store in the place that was named; only a node, or the demo, makes one."""


class Store:
    """The metadata and the buckets of one store, for whoever blocks: commands and maintenance. ``with`` closes it."""

    def __init__(self, settings: StoreSettings, context: MaintenanceContext) -> None:
        self.settings = settings
        self.context = context

    @property
    def metadata(self) -> MetadataClient:
        return self.context.metadata

    @property
    def buckets(self) -> Buckets:
        return self.context.buckets

    @property
    def kind_settings(self) -> KindSettings:
        """What each kind of maintenance is configured to do here. Key compaction keeps what tells of producers for as
        long as a broker on this store knows them."""
        maintenance = self.settings.maintenance
        keys = maintenance.key_compaction
        expiration_ms = max(keys.producer_expiration_ms, self.settings.broker.producer_id_expiration_ms)
        return KindSettings(
            grace_period_ms=self.settings.sweep.grace_period_ms,
            compaction=self.settings.compaction,
            maintenance=msgspec.structs.replace(
                maintenance,
                key_compaction=msgspec.structs.replace(keys, producer_expiration_ms=expiration_ms),
            ),
        )

    def open_runner(self, spark: Any) -> Runner:
        """For the tasks of maintenance: as ``spark.choice.runner_on``."""
        from siltstone.spark.choice import runner_on  # noqa: PLC0415  most who open a store need none

        return runner_on(spark)

    def close(self) -> None:
        self.metadata.close()
        self.buckets.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_store(
    settings: StoreSettings, *, create: bool = False, clock: Clock | None = None, rng: Random | None = None
) -> Store:
    """Raises StoreNotFound unless ``create``, and what the metadata log and the object stores raise."""
    clock, rng = clock or SystemClock(), rng or system_randomness()
    with ExitStack() as opened:
        metadata = open_metadata(settings, clock, rng, create=create)
        opened.callback(metadata.close)
        buckets = open_buckets(settings, create=create)
        opened.pop_all()
    return Store(
        settings, MaintenanceContext(metadata, buckets, clock, rng, settings.maintenance.gc.quota_bytes)
    )


def open_metadata(settings: StoreSettings, clock: Clock, rng: Random, *, create: bool) -> MetadataClient:
    try:
        log = open_log(settings.metadata, create=create)
    except LogNotFound as missing:
        raise StoreNotFound(
            f"there is no store at {settings.folder}: {settings.metadata} is missing; "
            "name one with --store FOLDER; siltstone serve and siltstone demo make one"
        ) from missing
    try:
        return MetadataClient(log, clock, rng)
    except BaseException:
        log.close()
        raise


def open_buckets(settings: StoreSettings, *, create: bool) -> Buckets:
    """A folder that is not there is made only on request: elsewhere it means that the settings are wrong."""
    if not create:
        for bucket_id, url in settings.buckets.items():
            folder = Path(unquote(urlsplit(url).path))
            if url.startswith("file:///") and not folder.is_dir():
                raise StoreNotFound(
                    f"bucket {bucket_id} of the store is missing: there is no folder {folder}"
                )
    return Buckets.open(settings.buckets, settings.retry)


class Node(msgspec.Struct, frozen=True):
    """A running node, and what it is made of."""

    engine: StreamEngine
    metadata: MetadataService
    buckets: Buckets
    reader: CommittedReader


@asynccontextmanager
async def running_node(
    settings: StoreSettings, *, clock: Clock | None = None, rng: Random | None = None
) -> AsyncIterator[StreamEngine]:
    """The engine alone."""
    async with open_node(settings, clock=clock, rng=rng) as node:
        yield node.engine


@asynccontextmanager
async def open_node(
    settings: StoreSettings, *, clock: Clock | None = None, rng: Random | None = None
) -> AsyncIterator[Node]:
    """A node that has recovered. Makes the store if there is none. Leaving commits everything. Raises WalInUse,
    BucketOfAnotherStore and whatever ``open_engine`` raises."""
    clock, rng = clock or SystemClock(), rng or system_randomness()
    async with AsyncExitStack() as opened:
        metadata_calls = _pool(opened, "metadata", METADATA_THREADS)
        wal_calls = _pool(opened, "wal", WAL_THREADS)
        upload_calls = _pool(opened, "upload", UPLOAD_THREADS)
        read_calls = _pool(opened, "read", READ_THREADS)
        buckets = await upload_calls.run(lambda: open_buckets(settings, create=True))
        opened.callback(buckets.close)
        metadata = await _start_metadata(opened, settings, metadata_calls, clock, rng)
        await metadata.execute(put_store_id(rng))
        await upload_calls.run(lambda: claim_buckets(buckets, metadata.image))
        reader = CommittedReader(
            buckets, lambda: metadata.image, metadata.refresh, read_calls, clock, settings.read
        )
        opened.push_async_callback(reader.close)
        engine = await _start_engine(settings, metadata, buckets, reader, wal_calls, upload_calls, clock, rng)
        opened.push_async_callback(engine.close)
        yield Node(engine, metadata, buckets, reader)


def _pool(opened: AsyncExitStack, name: str, threads_max: int) -> ThreadedCalls:
    calls = ThreadedCalls(name, threads_max)
    opened.callback(calls.close)
    return calls


async def _start_metadata(
    opened: AsyncExitStack, settings: StoreSettings, calls: BlockingCalls, clock: Clock, rng: Random
) -> MetadataService:
    client = await calls.run(lambda: open_metadata(settings, clock, rng, create=True))
    service = MetadataService(client, calls, clock)
    opened.push_async_callback(service.close)
    await service.start()
    return service


async def _start_engine(
    settings: StoreSettings,
    metadata: MetadataService,
    buckets: Buckets,
    reader: CommittedReader,
    wal_calls: BlockingCalls,
    upload_calls: BlockingCalls,
    clock: Clock,
    rng: Random,
) -> StreamEngine:
    wal = FileWriteAheadLog(
        settings.wal_folder, settings.engine.node_id, settings.engine.wal, wal_calls, clock
    )
    components = EngineComponents(metadata, buckets, wal, reader, upload_calls, clock)
    try:
        return await open_engine(components, settings.engine, rng, settings.wal_folder.as_uri())
    except BaseException:
        await wal.close()
        raise
