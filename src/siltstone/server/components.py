"""Makes a running ``Node`` from settings: the parts of a stream engine on a store.

Only this module knows how the parts of a node fit together. Parts are closed in the opposite order of their opening,
also when opening fails. Read next: ``kafka_node``, which adds the broker. A store without a node:
``offline.opening.store``.
"""

import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from socket import gethostname

import msgspec

from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.opening import open_board
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.opening import shown_url
from siltstone.metadata.store_id import put_store_id, store_id_of
from siltstone.model.errors import InvalidRequest
from siltstone.object_store.bandwidth.limiter import Limiter
from siltstone.object_store.bucket_identity import is_marked
from siltstone.object_store.bucket_watch import BUCKET_LOOK_INTERVAL_MS
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.faults import BucketFaults
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.offline.opening.store import missing_folder, open_buckets, open_metadata
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import Clock, SystemClock, boottime_ms
from siltstone.runtime.randomness import Random, system_randomness
from siltstone.runtime.tasks import TaskGroup, reported_while_waiting
from siltstone.server.bucket_identity import claim_added_buckets, claim_buckets
from siltstone.server.cluster_place import ClusterPlace
from siltstone.server.failing_over import NodeFailover, wal_in_turn
from siltstone.server.file_locks import locked_places, refuse_lost_locks
from siltstone.server.metadata_reach import once_reached
from siltstone.server.settings.node import NodeSettings
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


def _make_buckets(
    settings: NodeSettings, faults: BucketFaults | None, limiter: Limiter
) -> tuple[Buckets, list[Path]]:
    """Opens the buckets of a node. Returns also the folders that this has made."""
    made = [folder for url in settings.buckets.values() if (folder := missing_folder(url)) is not None]
    return open_buckets(settings, create=True, faults=faults, limiter=limiter), made


class Node(msgspec.Struct, frozen=True):
    """A running stream engine and the parts it is made of. ``place`` is its place among the nodes of the store."""

    engine: StreamEngine
    metadata: MetadataService
    buckets: Buckets
    reader: CommittedReader
    place: ClusterPlace


@asynccontextmanager
async def running_node(
    settings: NodeSettings, *, clock: Clock | None = None, rng: Random | None = None
) -> AsyncIterator[StreamEngine]:
    """Opens a node as ``open_node`` does, and yields only its stream engine."""
    async with open_node(settings, clock=clock, rng=rng) as node:
        yield node.engine


@asynccontextmanager
async def open_node(
    settings: NodeSettings,
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
        metadata = MetadataService(client, metadata_calls, clock, age_clock_ms=boottime_ms)
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
        place = _place(opened, settings, metadata, clock, rng)
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


async def _refuse_lost_locks(settings: NodeSettings, clock: Clock, calls: ThreadedCalls) -> None:
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
    opened: AsyncExitStack, settings: NodeSettings, metadata: MetadataService, clock: Clock, rng: Random
) -> ClusterPlace:
    board_calls = _pool(opened, "leases", LEASE_THREADS)
    place = ClusterPlace(open_board(settings.metadata, clock), board_calls, metadata, clock, rng)
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
