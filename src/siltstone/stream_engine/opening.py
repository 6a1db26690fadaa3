"""Opens an engine: registers the node, uploads what its WAL still holds, closes the streams that were open, starts.

The WAL's folder is locked before the node is registered, so a second process that uses the same folder is refused
without fencing the first one. A process that uses another folder is refused, too, while the node has open streams
(``wal.ownership``). Next: ``recovery``, ``engine``.
"""

import asyncio
import logging
from contextlib import suppress

from siltstone.metadata.commands import CloseStream, RegisterNode
from siltstone.metadata.entities import NodeRegistration, StreamMetadata
from siltstone.metadata.refusals import NodeLogBehind, StreamFenced
from siltstone.metadata.store_id import put_store_id
from siltstone.object_formats.identity import LogIdentity
from siltstone.object_formats.log_file import DamagedWal
from siltstone.runtime.randomness import Random, random_token
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.errors import EngineNotRunning
from siltstone.stream_engine.recovery import RecoveryFilter, recovered_blocks
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.tail.cache_block import CacheBlock
from siltstone.stream_engine.upload.pipeline import UploadPipeline
from siltstone.stream_engine.wal.ownership import (
    NEVER_USED,
    damaged,
    log_last_used,
    lost,
    refuse_older_metadata,
    refuse_records_of_an_older_life,
)

log = logging.getLogger(__name__)


async def open_engine(
    components: EngineComponents, settings: EngineSettings, rng: Random, wal_location: str
) -> StreamEngine:
    """Returns a running engine. Raises DamagedWal, WalLost, WalOfAnotherStore, WalOfAnotherNode, MetadataBehindLog, the
    refusals of RegisterNode and of commits, EngineNotRunning."""
    store_id = (await components.metadata.execute(put_store_id(rng))).decode()
    registration = await _register(components, settings, random_token(rng), store_id, wal_location)
    try:
        await _recover(components, settings, registration)
    except DamagedWal as damage:
        log_epoch = components.metadata.image.nodes[settings.node_id].log_epoch
        raise damaged(damage, log_epoch, wal_location) from damage
    metadata_version = components.metadata.image.version
    await components.wal.claim(
        LogIdentity(store_id, settings.node_id, registration.node_epoch, metadata_version)
    )
    engine = StreamEngine(components, settings, node_epoch=registration.node_epoch)
    await engine.start()
    return engine


async def _register(
    components: EngineComponents, settings: EngineSettings, incarnation: str, store_id: str, wal_location: str
) -> NodeRegistration:
    last_used = await log_last_used(components.wal, store_id, settings.node_id, wal_location)
    log_epoch, image = last_used.node_epoch, components.metadata.image
    known = image.nodes.get(settings.node_id)
    known_epoch = known.node_epoch if known is not None else NEVER_USED
    refuse_older_metadata(last_used, known_epoch, image.version, wal_location)
    command = RegisterNode(
        settings.node_id,
        incarnation,
        wal_location,
        log_epoch=log_epoch,
        lost_log_epoch=settings.wal.lost_epoch,
    )
    try:
        registration = await components.metadata.execute(command)
    except NodeLogBehind as behind:
        raise lost(behind, log_epoch, wal_location) from behind
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


async def _recover(
    components: EngineComponents, settings: EngineSettings, registration: NodeRegistration
) -> None:
    ends = {stream.stream_id: stream.end_offset for stream in registration.opened_streams}
    wanted = RecoveryFilter(ends, components.metadata.image.next_stream_id)
    blocks = recovered_blocks(
        components.wal.recover(),
        wanted,
        settings.upload.cache_block_bytes_max,
        settings.upload.cache_block_streams_max,
    )
    async for block in blocks:
        await _upload(block, components, settings, registration)
    _refuse_to_drop(wanted)
    await components.wal.reset()
    await asyncio.gather(
        *(_close(stream, components, registration) for stream in registration.opened_streams)
    )
    if ends:
        log.info(
            "recovered: %d streams closed, %d records of the write-ahead log were skipped as committed before",
            len(ends),
            wanted.records_skipped,
        )


def _refuse_to_drop(wanted: RecoveryFilter) -> None:
    """Raises DamagedWal when some records fit nowhere: the log, which is deleted next, may be their only copy."""
    if wanted.records_lost:
        raise DamagedWal(
            f"{wanted.records_lost} records of the write-ahead log do not continue their streams in the metadata: part "
            "of the log is missing, or the metadata is an older copy or another store's; restore what is missing"
        )


async def _close(
    stream: StreamMetadata, components: EngineComponents, registration: NodeRegistration
) -> None:
    with suppress(StreamFenced):  # another node owns the stream by now
        await components.metadata.execute(
            CloseStream(registration.node_id, registration.node_epoch, stream.stream_id, stream.epoch)
        )


async def _upload(
    block: CacheBlock,
    components: EngineComponents,
    settings: EngineSettings,
    registration: NodeRegistration,
) -> None:
    """Uploads and commits one recovered block with the pipeline that the running engine uses. Raises EngineNotRunning
    when that fails."""
    failures: list[BaseException] = []

    async def committed(_: CacheBlock) -> None:
        return None

    pipeline = UploadPipeline(
        components.metadata, components.buckets, components.upload_calls, components.clock, settings.upload,
        node_id=registration.node_id, node_epoch=registration.node_epoch,
        on_committed=committed, on_failure=failures.append,
    )  # fmt: skip
    block.seal()
    pipeline.submit(block)
    await pipeline.drain()
    if failures:
        raise EngineNotRunning(
            f"recovery could not commit the write-ahead log of node {registration.node_id}: {failures[0]}"
        ) from failures[0]
