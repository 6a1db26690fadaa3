"""Opens an engine: registers the node, uploads the records that are only in its WAL, closes the streams that were open,
and starts.

While the bucket refuses or does not answer, the engine starts without the upload: the records are in its tail cache,
and the log continues (``recovery.CarriedLog``, docs/decisions/0011-start-without-bucket.md).

The WAL's folder is locked before the node is registered, so a second process that uses the same folder is refused
without fencing the first one. A process that uses another folder is refused, too, while the node has open streams
(``wal.ownership``). A WAL in a bucket has no lock: a second process with the same node id waits until no process beats
under that id, and takes the log over; if the first process still runs, it stops at its next append
(``wal.bucket_wal``). Next: ``recovery``, ``engine``.
"""

import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable

import msgspec
from msgspec.structs import replace

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.metadata.client import refuse_wrong_clock
from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.decisions.membership import newest_epoch
from siltstone.metadata.decisions.nodes import lost_log_epoch
from siltstone.metadata.entities import NodeListener, NodeMetadata, NodeRegistration
from siltstone.metadata.refusals import FailoverUnderWay, NodeLogBehind, NodeLogLost
from siltstone.metadata.store_id import put_store_id
from siltstone.model.limits import SECOND_MS
from siltstone.object_formats.identity import LogIdentity
from siltstone.object_formats.log_file import DamagedWal
from siltstone.runtime.randomness import Random, random_token
from siltstone.runtime.tasks import ends_in_time
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.errors import EngineNotRunning
from siltstone.stream_engine.flush_requests import FlushRequests
from siltstone.stream_engine.recovery import (
    NOTHING_CARRIED,
    CarriedLog,
    RecoveryFilter,
    close_in_metadata,
    recovered_blocks,
)
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.tail.cache_block import CacheBlock, CachedBatch
from siltstone.stream_engine.upload.pipeline import UploadPipeline
from siltstone.stream_engine.wal.opening import is_same_folder
from siltstone.stream_engine.wal.ownership import (
    NEVER_USED,
    damaged,
    given_up,
    log_last_used,
    lost,
    refuse_forked_metadata,
    refuse_older_metadata,
    refuse_records_of_an_older_life,
)

UPLOAD_PATIENCE_MS = 5 * SECOND_MS
"""How long a start waits for the upload of one recovered block. A start without the upload costs little, even if the
bucket is only slow."""

FAILOVER_LOOK_MS = 500
"""How often a node that starts checks whether the failover of its earlier life has ended."""

log = logging.getLogger(__name__)


async def _does_nothing(_: NodeMetadata) -> None:
    return None


class NodeEnrolment(msgspec.Struct, frozen=True):
    """The facts with which a process registers its node, and the steps before and after the registration.

    ``before`` is awaited with the node as it was registered last, unless that process has ended or had this log: it
    refuses while another process runs under this node id. ``after`` is awaited with the new registration, before the
    recovery, which may last longer than a session (N21)."""

    listeners: tuple[NodeListener, ...] = ()
    rack: str | None = None
    before: Callable[[NodeMetadata], Awaitable[None]] = _does_nothing
    after: Callable[[NodeMetadata], Awaitable[None]] = _does_nothing


ALONE = NodeEnrolment()
"""The enrolment of a node that neither clients nor other nodes look for."""


async def open_engine(
    components: EngineComponents,
    settings: EngineSettings,
    rng: Random,
    wal_location: str,
    enrolment: NodeEnrolment = ALONE,
) -> StreamEngine:
    """Returns a running engine. Raises DamagedWal, WalLost, WalOfAnotherStore, WalOfAnotherNode, MetadataBehindLog,
    LogForked, ClockTooFarOff, the refusals of RegisterNode and of commits, EngineNotRunning, and what the enrolment
    raises."""
    store_id = (await components.metadata.execute(put_store_id(rng))).decode()
    registration = await _register_in_turn(
        components, settings, random_token(rng), store_id, wal_location, enrolment
    )
    await enrolment.after(components.metadata.image.nodes[settings.node_id])
    try:
        await components.wal.fence(registration.node_epoch)
        is_given_up = await _is_given_up(components, settings)
        carried = await replay_log(components, settings, registration, is_given_up=is_given_up)
    except DamagedWal as damage:
        log_epoch = components.metadata.image.nodes[settings.node_id].log_epoch
        raise damaged(damage, log_epoch, wal_location) from damage
    metadata = components.metadata.image.position
    await components.wal.claim(
        LogIdentity(store_id, settings.node_id, registration.node_epoch, metadata.version, metadata.append_id)
    )
    engine = StreamEngine(components, settings, node_epoch=registration.node_epoch)
    await engine.start(carried)
    requests = FlushRequests(engine, components.metadata, components.clock)
    engine.run_beside("answer-flushes", requests.answer())
    return engine


async def _register_in_turn(
    components: EngineComponents,
    settings: EngineSettings,
    incarnation: str,
    store_id: str,
    wal_location: str,
    enrolment: NodeEnrolment,
) -> NodeRegistration:
    """Registers the node. While another node replays its log, it waits, and examines the log again afterwards."""
    is_said = False
    while True:
        try:
            return await _register(components, settings, incarnation, store_id, wal_location, enrolment)
        except FailoverUnderWay as refusal:
            if not is_said:
                log.warning("node %d waits before it registers: %s", settings.node_id, refusal)
            is_said = True
            await components.clock.sleep_ms(FAILOVER_LOOK_MS)


async def _register(
    components: EngineComponents,
    settings: EngineSettings,
    incarnation: str,
    store_id: str,
    wal_location: str,
    enrolment: NodeEnrolment,
) -> NodeRegistration:
    refuse_wrong_clock(components.metadata.clock_offset_ms)
    last_used = await log_last_used(components.wal, store_id, settings.node_id, wal_location)
    newest_record = await components.wal.newest_record()
    # an earlier process may still append to a log in a bucket, with entries that are not read yet
    log_epoch, image = last_used.node_epoch, await components.metadata.refresh()
    known = image.nodes.get(settings.node_id)
    epoch = newest_epoch(image, settings.node_id)
    refuse_older_metadata(last_used, newest_record, epoch, image.version, wal_location)
    seen = await components.metadata.append_id_at(last_used.metadata_version)
    refuse_forked_metadata(last_used, seen, wal_location)
    has_its_lock = (
        settings.wal.bucket_id is None
        and known is not None
        and is_same_folder(known.wal_location, wal_location)
    )
    if known is not None and known.is_live and known.listeners and not has_its_lock:
        await enrolment.before(known)
    command = RegisterNode(
        settings.node_id,
        incarnation,
        wal_location,
        log_epoch=log_epoch,
        lost_log_epoch=settings.wal.lost_epoch,
        listeners=enrolment.listeners,
        rack=enrolment.rack,
    )
    try:
        registration = await components.metadata.execute(command)
    except NodeLogBehind as behind:
        assert known is not None, "only a node that was registered has left streams open"
        raise lost(behind, log_epoch, wal_location, known.wal_location) from behind
    except NodeLogLost as refusal:
        raise given_up(refusal, wal_location) from refusal
    expected = components.metadata.image.nodes[settings.node_id].log_epoch
    if registration.opened_streams and log_epoch < expected:
        log.warning(
            "the write-ahead log of node epoch %d is declared lost: %d streams continue at their committed ends",
            expected,
            len(registration.opened_streams),
        )
        if log_epoch != NEVER_USED:
            await refuse_records_of_an_older_life(components.wal, wal_location)
    return registration


async def _is_given_up(components: EngineComponents, settings: EngineSettings) -> bool:
    """Returns whether a person has given up the log with which the node starts, and the setting confirms it."""
    lost_epoch = lost_log_epoch(components.metadata.image, settings.node_id)
    if not lost_epoch or settings.wal.lost_epoch != lost_epoch:
        return False
    identity = await components.wal.identity()
    return identity is not None and identity.node_epoch <= lost_epoch


async def replay_log(
    components: EngineComponents,
    settings: EngineSettings,
    registration: NodeRegistration,
    patience_ms: float = UPLOAD_PATIENCE_MS,
    *,
    carries: bool = True,
    is_given_up: bool = False,
) -> CarriedLog:
    """Uploads the records in the log of the registered node, which was fenced, and closes the streams that the node had
    open. → The blocks that could not be uploaded in ``patience_ms`` each, for the running engine; without ``carries``
    only the first such block.

    The log is read to its end before anything is uploaded: what an older copy of the metadata uploads would stand in
    the way of the newest copy. Only a log of several blocks is read twice. ``is_given_up``: what fits nowhere is
    dropped. Raises DamagedWal, EngineNotRunning."""
    image = components.metadata.image

    def new_filter() -> RecoveryFilter:
        return RecoveryFilter(image, registration.node_id, is_given_up=is_given_up)

    wanted, blocks = await _examined(components, settings, new_filter)
    carried: deque[CacheBlock] = deque()
    recovered_bytes = 0
    async for block in blocks:
        recovered_bytes += block.size_bytes
        if carried or not await _is_uploaded(block, components, settings, registration, patience_ms):
            carried.append(await components.upload_calls.run(_copied, block))
            if not carries:
                break
        while sum(each.charge_bytes for each in carried) > settings.tail_cache_bytes_max:
            log.error(
                "the write-ahead log holds more than the tail cache: the start waits until a part is uploaded"
            )
            await _is_uploaded(carried.popleft(), components, settings, registration)
    if carried and not carries:
        return CarriedLog(tuple(carried), wanted.end_position, registration.opened_streams)
    wanted.refuse_misfits()
    if carried:
        log.error(
            "the write-ahead log of node %d could not be uploaded yet. The node starts all the same: the records are "
            "in its tail cache and in the log, and are uploaded when the bucket answers again",
            registration.node_id,
        )
        return CarriedLog(tuple(carried), wanted.end_position, registration.opened_streams)
    await components.wal.reset()
    await close_in_metadata(
        components.metadata, registration.node_id, registration.node_epoch, registration.opened_streams
    )
    _say_what_was_recovered(registration, wanted, recovered_bytes)
    return NOTHING_CARRIED


def _say_what_was_recovered(
    registration: NodeRegistration, wanted: RecoveryFilter, recovered_bytes: int
) -> None:
    if wanted.records_refused:
        log.warning(
            "%s of the write-ahead log that was given up are dropped",
            counted(wanted.records_refused, "batch", "batches"),
        )
    if registration.opened_streams:
        log.info(
            "recovered the write-ahead log: %s uploaded and committed, %d batches skipped as committed before, "
            "%s closed",
            size_words(recovered_bytes),
            wanted.records_skipped,
            counted(len(registration.opened_streams), "stream"),
        )


async def _examined(
    components: EngineComponents, settings: EngineSettings, new_filter: Callable[[], RecoveryFilter]
) -> tuple[RecoveryFilter, AsyncIterable[CacheBlock]]:
    """Reads the log to its end. Returns the blocks to upload, and the filter that counts what it reads for them. Raises
    DamagedWal."""
    wanted = new_filter()
    only = await _only_block(_blocks(components, settings, wanted))
    wanted.refuse_misfits()
    if only is not None:
        return wanted, _each(only)
    wanted = new_filter()
    return wanted, _blocks(components, settings, wanted)


def _blocks(
    components: EngineComponents, settings: EngineSettings, wanted: RecoveryFilter
) -> AsyncIterator[CacheBlock]:
    upload = settings.upload
    return recovered_blocks(
        components.wal.recover(), wanted, upload.cache_block_bytes_max, upload.cache_block_streams_max
    )


async def _only_block(blocks: AsyncIterable[CacheBlock]) -> tuple[CacheBlock, ...] | None:
    """Reads all blocks. Returns the only one, or nothing, when there is none; None when there are several, which are
    not kept in memory."""
    first: tuple[CacheBlock, ...] | None = ()
    async for block in blocks:
        first = None if first is None or first else (block,)
    return first


async def _each(blocks: Iterable[CacheBlock]) -> AsyncIterator[CacheBlock]:
    for block in blocks:
        yield block


def _copied(block: CacheBlock) -> CacheBlock:
    """Returns a copy of the block, because its batches are views of the log files in memory."""
    copy = CacheBlock()
    for batches in block.streams.values():
        for cached in batches:
            batch = replace(cached.batch, payload=bytes(cached.batch.payload))
            copy.put(CachedBatch(batch, cached.frame_header), block.end_position)
    return copy


async def _is_uploaded(
    block: CacheBlock,
    components: EngineComponents,
    settings: EngineSettings,
    registration: NodeRegistration,
    patience_ms: float | None = None,
) -> bool:
    """Uploads and commits one recovered block with the pipeline that the running engine uses. Returns False when it is
    not uploaded after ``patience_ms``; a commit that has started is waited for. Raises EngineNotRunning when the block
    cannot be committed."""
    failures: list[BaseException] = []

    async def committed(block: CacheBlock) -> None:
        block.commit()

    pipeline = UploadPipeline(
        components.metadata, components.buckets, components.upload_calls, components.clock, settings.upload,
        node_id=registration.node_id, node_epoch=registration.node_epoch, guards=components.guards,
        on_committed=committed, on_failure=failures.append,
    )  # fmt: skip
    block.seal()
    pipeline.submit(block)
    try:
        if patience_ms is None:
            await pipeline.drain()
        elif not await ends_in_time(pipeline.drain(), components.clock, patience_ms):
            if not pipeline.is_committing:
                return False
            await pipeline.drain()
    finally:
        await pipeline.abort()
    if failures:
        raise EngineNotRunning(
            f"recovery could not commit the write-ahead log of node {registration.node_id}: {failures[0]}"
        ) from failures[0]
    return True
