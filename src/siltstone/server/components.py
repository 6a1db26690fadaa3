"""Makes objects from settings: a ``Store`` for commands and maintenance, or a running ``Node``.

Only this module knows how the parts of a node fit together. Parts are closed in the opposite order of their opening,
also when opening fails. Maintenance needs no node (rule 10): ``open_store`` opens only the metadata and the buckets.
Read next: ``kafka_node``, which adds the broker.
"""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from socket import gethostname
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec.structs import replace

from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.opening import newest_beat_ms, open_board
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.opening import open_log, shown_url
from siltstone.metadata.store.port import LogNotFound, MetadataLog
from siltstone.metadata.store.postgres.place import is_postgres_url
from siltstone.metadata.store_id import claimed_url, put_store_id, store_id_of
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import CLOCK_ADVANCE_MS_MAX
from siltstone.object_store.bandwidth.limiter import Limiter, limiter_of_process
from siltstone.object_store.bucket_identity import is_marked
from siltstone.object_store.bucket_watch import BUCKET_LOOK_INTERVAL_MS
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.faults import BucketFaults
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import KindSettings
from siltstone.offline.tasks.runner import Runner
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import Random, system_randomness
from siltstone.runtime.tasks import TaskGroup, reported_while_waiting
from siltstone.server.bucket_identity import claim_added_buckets, claim_buckets
from siltstone.server.cluster_place import ClusterPlace
from siltstone.server.failing_over import NodeFailover, wal_in_turn
from siltstone.server.file_locks import locked_places, refuse_lost_locks
from siltstone.server.metadata_reach import once_reached
from siltstone.server.settings.store import StoreSettings
from siltstone.server.store_shown import store_html, store_words
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.opening import NodeEnrolment, open_engine
from siltstone.stream_engine.reading.committed_reader import CommittedReader
from siltstone.stream_engine.reading.giving_way import GivingWay, give_way
from siltstone.stream_engine.settings import ReadSettings
from siltstone.stream_engine.wal.attached import attached_logs, prospects
from siltstone.stream_engine.wal.opening import WalPlace, open_wal, wal_threads
from siltstone.stream_engine.wal.port import WriteAheadLog

log = logging.getLogger(__name__)

METADATA_THREADS = 1
"""Metadata commands are decided one batch at a time."""

LEASE_THREADS = 1
"""Beats have a thread of their own, so that they wait for nothing else."""

BUCKET_LOG_THREADS = 4
"""Threads that list, seal and read the log of a dead node. They are started at the first failover."""

UPLOAD_THREADS = 12
"""Four blocks are uploaded side by side. When a bucket hangs, puts that have timed out keep a thread each until their
request ends, and other threads put the blocks into another bucket. Threads are started when they are needed."""

READ_THREADS = 8
"""Requests to a bucket wait for the network most of the time."""


class StoreNotFound(InvalidRequest):
    """There is no store at the given place. A node, the demo and ``open_store(create=True)`` create stores."""


class Store:
    """The metadata and the buckets of one store, with blocking calls, for commands and maintenance. Leaving the
    ``with`` closes it."""

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
        """The settings of all maintenance kinds. Key compaction keeps the batches that hold a producer's last sequence
        number for at least as long as a broker on this store remembers the producer."""
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
            tables=self.settings.tables,
        )

    def trust_clock(self) -> None:
        """Maintenance by this store no longer compares the machine's clock with the newest time that the store has
        seen: a person has said that it is right."""
        self.context = replace(self.context, clock_advance_ms_max=None)

    def open_runner(self, spark: Any) -> Runner:
        """Opens the runner for maintenance tasks; the argument is that of ``spark.choice.runner_on``."""
        from siltstone.spark.choice import runner_on  # noqa: PLC0415  most programs that open a store need no runner

        return runner_on(spark)

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


def open_store(
    settings: StoreSettings,
    *,
    create: bool = False,
    clock: Clock | None = None,
    rng: Random | None = None,
    lost: int | None = None,
) -> Store:
    """Opens the metadata and the buckets of a store; the folder of the bucket ``lost`` may be missing. Raises
    StoreNotFound if there is no store and ``create`` is false, and what the metadata log and the object stores
    raise."""
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
    return Store(settings, context)


def open_metadata(settings: StoreSettings, clock: Clock, rng: Random, *, create: bool) -> MetadataClient:
    log = open_metadata_log(settings, clock, create=create)
    try:
        return MetadataClient(log, clock, rng)
    except BaseException:
        log.close()
        raise


def open_metadata_log(settings: StoreSettings, clock: Clock, *, create: bool) -> MetadataLog:
    """Opens the log alone, without reading it. Raises StoreNotFound, and what the log raises."""
    try:
        return open_log(settings.metadata, create=create, clock=clock)
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


def _make_buckets(
    settings: StoreSettings, faults: BucketFaults | None, limiter: Limiter
) -> tuple[Buckets, list[Path]]:
    """Opens the buckets of a node. Returns also the folders that this has made."""
    made = [folder for url in settings.buckets.values() if (folder := missing_folder(url)) is not None]
    return open_buckets(settings, create=True, faults=faults, limiter=limiter), made


def missing_folder(url: str) -> Path | None:
    """Returns the folder that the URL of a bucket names if it does not exist; None for every other bucket."""
    folder = Path(unquote(urlsplit(url).path))
    return folder if url.startswith("file:///") and not folder.is_dir() else None


class Node(msgspec.Struct, frozen=True):
    """A running stream engine and the parts it is made of. ``place`` is its place among the nodes of the store."""

    engine: StreamEngine
    metadata: MetadataService
    buckets: Buckets
    reader: CommittedReader
    place: ClusterPlace


@asynccontextmanager
async def running_node(
    settings: StoreSettings, *, clock: Clock | None = None, rng: Random | None = None
) -> AsyncIterator[StreamEngine]:
    """Opens a node as ``open_node`` does, and yields only its stream engine."""
    async with open_node(settings, clock=clock, rng=rng) as node:
        yield node.engine


@asynccontextmanager
async def open_node(
    settings: StoreSettings,
    *,
    clock: Clock | None = None,
    rng: Random | None = None,
    faults: BucketFaults | None = None,
    listeners: tuple[NodeListener, ...] = (),
    recover: Collection[Path] = (),
) -> AsyncIterator[Node]:
    """Opens a node at which clients reach ``listeners``. The node first recovers records from its write-ahead log, and
    creates the store if there is none; then it recovers the attached logs of other nodes in the folders ``recover``.
    While no server of the metadata can be reached, it waits for one.
    Leaving the context commits all data. Raises WalInUse, NodeIdInUse, LocksNotKept, and what ``attached_logs``,
    ``claim_buckets`` and ``open_engine`` raise."""
    clock, rng = clock or SystemClock(), rng or system_randomness()
    async with AsyncExitStack() as opened:
        metadata_calls = _pool(opened, "metadata", METADATA_THREADS)
        wal_calls = _pool(opened, "wal", wal_threads(settings.engine.wal))
        upload_calls = _pool(opened, "upload", UPLOAD_THREADS)
        read_calls = _pool(opened, "read", READ_THREADS)
        failover_calls = _pool(opened, "failover", BUCKET_LOG_THREADS)
        await _refuse_lost_locks(settings, clock, wal_calls)
        places = ", ".join(settings.buckets.values())
        async with _said_while_starting(clock, f"for the buckets {places}; check that they can be reached"):
            limiter = Limiter(settings.bandwidth, clock)
            buckets, made = await upload_calls.run(_make_buckets, settings, faults, limiter)
        opened.callback(buckets.close)
        looking = TaskGroup("buckets", lambda _: None)
        opened.push_async_callback(looking.cancel)
        looking.start("look", _look_for_ever(buckets, clock))
        async with _said_while_starting(
            clock,
            f"for the metadata {shown_url(settings.metadata)}; find the process that holds the database, or look "
            "whether its server can be reached",
        ):
            opening = partial(open_metadata, settings, clock, rng, create=True)
            client = await once_reached(opening, metadata_calls, clock, f"node {settings.engine.node_id}")
        buckets.follow(lambda: bucket_list_of(client.image))
        guards = await _claim(buckets, client, rng, clock, places, made, upload_calls, metadata_calls)
        metadata = MetadataService(client, metadata_calls, clock)
        opened.push_async_callback(metadata.close)
        await metadata.start()
        reader = CommittedReader(
            buckets, lambda: metadata.image, metadata.refresh, read_calls, clock, settings.read, is_marked
        )
        opened.push_async_callback(reader.close)
        host = gethostname()
        wal_place = WalPlace(settings.engine, settings.wal_folder, host)
        store_id = store_id_of(metadata.image)
        assert store_id is not None
        attached = await wal_calls.run(attached_logs, recover, store_id, settings.engine.node_id)
        wal = await _open_log(wal_place, buckets, metadata, store_id, wal_calls, clock, rng)
        components = EngineComponents(metadata, buckets, wal, reader, upload_calls, clock, guards)
        place = _place(opened, settings, metadata, clock)
        rack = settings.broker.rack or None
        enrolment = NodeEnrolment(listeners, rack, before=place.wait_until_free, after=place.take)
        async with _said_while_starting(
            clock,
            f"for the recovery of the write-ahead log, which needs the buckets {places} and the metadata",
        ):
            engine = await _start_engine(components, wal_place, rng, enrolment)
        _let_catch_up_give_way(engine, reader, settings.read, clock)
        engine.run_beside("claim-buckets", claim_added_buckets(buckets, client, guards, upload_calls, clock))
        for each in attached.values():
            log.warning("%s", prospects(each, metadata.image))
        place.begin(engine, NodeFailover(components, settings.engine, failover_calls, rng, host, attached))
        opened.push_async_callback(engine.close)
        yield Node(engine, metadata, buckets, reader, place)


def _let_catch_up_give_way(
    engine: StreamEngine, reader: CommittedReader, settings: ReadSettings, clock: Clock
) -> None:
    if settings.catch_up_gives_way:
        giving = GivingWay(settings.catch_up_bytes_per_second_min)
        engine.run_beside(
            "give-way", give_way(reader.catch_up, lambda: engine.statistics().append_seconds, clock, giving)
        )


async def _look_for_ever(buckets: Buckets, clock: Clock) -> None:
    while True:
        await clock.sleep_ms(BUCKET_LOOK_INTERVAL_MS)
        buckets.look()


def _said_while_starting(clock: Clock, what_is_missing: str) -> AbstractAsyncContextManager[None]:
    """In this block, logs what a start that takes long waits for, and what to do."""
    return reported_while_waiting(
        clock, lambda: log.warning("the node is still starting: it waits %s", what_is_missing)
    )


def _pool(opened: AsyncExitStack, name: str, threads_max: int) -> ThreadedCalls:
    calls = ThreadedCalls(name, threads_max)
    opened.callback(calls.close)
    return calls


async def _refuse_lost_locks(settings: StoreSettings, clock: Clock, calls: ThreadedCalls) -> None:
    paths = ", ".join(sorted({str(place.path) for place in locked_places(settings)}))
    async with _said_while_starting(clock, f"for the disks of {paths}; check that they answer"):
        await calls.run(refuse_lost_locks, settings)


async def _claim(
    buckets: Buckets,
    client: MetadataClient,
    rng: Random,
    clock: Clock,
    places: str,
    made: Sequence[Path],
    calls: ThreadedCalls,
    metadata_calls: ThreadedCalls,
) -> dict[int, BucketGuard]:
    """Returns the guards of the buckets. When the buckets are refused, closes the client, and removes the folders that
    this start has ``made``, if they are empty."""

    def claim() -> dict[int, BucketGuard]:
        client.execute(put_store_id(rng))
        try:
            return claim_buckets(buckets, client)
        except InvalidRequest:
            for folder in made:
                with suppress(OSError):
                    folder.rmdir()
            raise

    try:
        async with _said_while_starting(
            clock, f"for the buckets {places}; check endpoint, credentials and network"
        ):
            return await calls.run(claim)
    except BaseException:
        await metadata_calls.run(client.close)
        raise


def _place(
    opened: AsyncExitStack, settings: StoreSettings, metadata: MetadataService, clock: Clock
) -> ClusterPlace:
    board_calls = _pool(opened, "leases", LEASE_THREADS)
    place = ClusterPlace(open_board(settings.metadata, clock), board_calls, metadata, clock)
    opened.push_async_callback(place.leave)
    return place


async def _open_log(
    place: WalPlace,
    buckets: Buckets,
    metadata: MetadataService,
    store_id: str,
    calls: ThreadedCalls,
    clock: Clock,
    rng: Random,
) -> WriteAheadLog:
    """Opens the node's log in ``calls``: signals are not handled while this thread waits for a disk."""
    async with _said_while_starting(clock, f"for the disk of the write-ahead log {place.folder}"):
        return await wal_in_turn(
            partial(open_wal, place, buckets, store_id, calls, clock, rng),
            calls,
            metadata.refresh,
            place.settings.node_id,
            clock,
        )


async def _start_engine(
    components: EngineComponents, place: WalPlace, rng: Random, enrolment: NodeEnrolment
) -> StreamEngine:
    try:
        return await open_engine(components, place.settings, rng, place.location, enrolment)
    except BaseException:
        await components.wal.close()
        raise
