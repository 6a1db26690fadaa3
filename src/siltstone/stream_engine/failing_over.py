"""The *failover* of a dead node: another node replays its write-ahead log, closes its streams, places its partitions.

The node was fenced before (``cluster.suspicion`` says when). One node at a time has the *claim* (ClaimFailover), and
only that node may register on the dead one's behalf, under a higher epoch; so two recoverers cannot fence each other
for ever, and whatever the dead process or an earlier recoverer still does is refused. The log is then fenced (a seal,
or the lock of the folder), read and uploaded as at a start of the node itself; repeating a replay changes nothing.
When it fails, or the bucket takes nothing for a while, the claim is withdrawn for another node to try.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from siltstone.metadata.commands import ClaimFailover, PlacePartitions, RegisterNode
from siltstone.metadata.entities import NodeMetadata, NodeRegistration
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.model.limits import SECOND_MS
from siltstone.object_formats.identity import LogIdentity
from siltstone.runtime.tasks import ends_in_time
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.opening import replay_log
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.wal.ownership import (
    log_last_used,
    refuse_forked_metadata,
    refuse_older_metadata,
)

STUCK_MS = 30 * SECOND_MS
"""A failover that cannot upload a block for so long gives its claim back: the bucket may be unreachable from this node
only."""

PLACED_PER_COMMAND_MAX = 1_000
"""Keeps a log entry of the metadata small."""

log = logging.getLogger(__name__)


class FailoverStuck(Unavailable):
    """The bucket does not take what the dead node's log holds; another node may try."""


class FailoverDone(msgspec.Struct, frozen=True):
    """``node_epoch`` is the one under which the log of ``node_id`` was replayed."""

    node_id: int
    node_epoch: int
    streams_closed: int
    partitions_placed: int


async def fail_over(
    components: EngineComponents, settings: EngineSettings, dead_node_id: int, log_location: str
) -> FailoverDone:
    """Fails a fenced node over. ``settings`` are those of the node that does it; ``components.wal`` is the dead node's
    log, at ``log_location``, which the caller closes. A repetition after a failure continues where the first call
    ended. Raises the refusals of ClaimFailover and RegisterNode (FailoverUnderWay, ClaimLost, NodeLogBehind, …),
    MetadataBehindLog, LogForked, DamagedWal, FailoverStuck, EngineNotRunning."""
    image = components.metadata.image
    claimer = image.nodes[settings.node_id]
    await components.metadata.execute(ClaimFailover(claimer.node_id, claimer.node_epoch, dead_node_id))
    log.warning(
        "node %d is gone with streams open: node %d takes its write-ahead log %s over",
        dead_node_id, claimer.node_id, log_location,
    )  # fmt: skip
    try:
        registration = await _register(components, claimer, dead_node_id, log_location)
        await _replay(components, settings, registration)
        placed = await _place(components, claimer, dead_node_id)
    except Exception:  # after any failure another node may try
        with suppress(SiltstoneError):  # the claimer was fenced meanwhile: the claim is void already
            await _give_back(components, claimer, dead_node_id)
        raise
    await _give_back(components, claimer, dead_node_id)
    done = FailoverDone(dead_node_id, registration.node_epoch, len(registration.opened_streams), placed)
    log.warning(
        "node %d has failed node %d over: %d streams closed, %d partitions placed",
        claimer.node_id, dead_node_id, done.streams_closed, placed,
    )  # fmt: skip
    return done


async def _give_back(components: EngineComponents, claimer: NodeMetadata, dead_node_id: int) -> None:
    command = ClaimFailover(claimer.node_id, claimer.node_epoch, dead_node_id, gives_back=True)
    await components.metadata.execute(command)


async def _register(
    components: EngineComponents, claimer: NodeMetadata, dead_node_id: int, log_location: str
) -> NodeRegistration:
    """Refuses as a start of the node itself would, when the log was used with newer metadata than this."""
    store_id = store_id_of(components.metadata.image)
    assert store_id is not None
    last_used = await log_last_used(components.wal, store_id, dead_node_id, log_location)
    newest_record = await components.wal.newest_record()
    # the log may have been used with an entry that is not read yet
    image = await components.metadata.refresh()
    epoch = image.nodes[dead_node_id].node_epoch
    refuse_older_metadata(last_used, newest_record, epoch, image.version, log_location)
    seen = await components.metadata.append_id_at(last_used.metadata_version)
    refuse_forked_metadata(last_used, seen, log_location)
    command = RegisterNode(
        dead_node_id, claimer.incarnation, log_location, failover=True, log_epoch=last_used.node_epoch
    )
    return await components.metadata.execute(command)


async def _replay(
    components: EngineComponents, settings: EngineSettings, registration: NodeRegistration
) -> None:
    """Uploads what the log holds, closes the streams, and claims the log under the new epoch, so that what it holds is
    deleted and the node itself finds a log of the newest epoch when it returns."""
    if not await ends_in_time(components.wal.fence(registration.node_epoch), components.clock, STUCK_MS):
        raise _stuck(registration, "sealed")
    left = await replay_log(components, settings, registration, patience_ms=STUCK_MS, carries=False)
    if left.blocks:
        raise _stuck(registration, "uploaded")
    image = components.metadata.image
    store_id = store_id_of(image)
    assert store_id is not None
    await components.wal.claim(
        LogIdentity(
            store_id, registration.node_id, registration.node_epoch, image.version, image.position.append_id
        )
    )


def _stuck(registration: NodeRegistration, what: str) -> FailoverStuck:
    return FailoverStuck(
        f"the write-ahead log of node {registration.node_id} could not be {what} for {STUCK_MS // 1000} s: check that "
        "the bucket can be reached; the claim is withdrawn"
    )


async def _place(components: EngineComponents, claimer: NodeMetadata, dead_node_id: int) -> int:
    """Gives the partitions of the dead node to other leaders. Returns how many got one."""
    partitions = tuple(_led_by(components.metadata.image, dead_node_id))
    for first in range(0, len(partitions), PLACED_PER_COMMAND_MAX):
        some = partitions[first : first + PLACED_PER_COMMAND_MAX]
        await components.metadata.execute(PlacePartitions(claimer.node_id, claimer.node_epoch, some))
    return len(partitions)


def _led_by(image: MetadataImage, node_id: int) -> Iterator[tuple[str, int]]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader == node_id:
                yield topic.topic_id, index
