"""Checks that the write-ahead log at a place is the one that a starting node needs: that log may hold the only copy of
acknowledged records. The place is a folder, or a prefix of a bucket, whose newest claim is its identity.

The folder has an identity (``object_formats.identity``) with the node epoch under which the log was last claimed; the
metadata has the node epoch under which the node last opened a stream (``NodeMetadata.log_epoch``). In the folder that
the node last used, the first is never lower than the second; in any other folder it always is. The check matters only
while streams are open: a node that was stopped cleanly has committed everything, and may start with an empty folder.

The identity also has the version of the metadata at the last start, at the last clean stop, or when the node found that
the metadata log had lost entries, and the append id of the metadata's entry at that version: metadata at a lower
version is an older copy, metadata with another entry there has another history, and both are refused. Each record has
the version that the node had read when it appended it, so the newest record shows an older copy, too. Both are checked
before the node registers, so a start that is refused here registers nothing.
"""

import logging

from msgspec.structs import replace

from siltstone.metadata.flushes import put_empty_log
from siltstone.metadata.log_entry import NO_APPEND_ID, LogForked, LogPosition
from siltstone.metadata.refusals import NodeLogBehind, NodeLogLost
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.object_formats.identity import LogIdentity
from siltstone.object_formats.log_file import DamagedWal, WalOfNewerVersion, WalRecord
from siltstone.stream_engine.wal.port import WalOfAnotherNode, WalOfAnotherStore, WriteAheadLog

log = logging.getLogger(__name__)

NEVER_USED = 0
"""The node epoch of a folder that no node has used; it is lower than every real one."""


class WalLost(InvalidRequest):
    """The log in this folder is not the one that the node last used, which may hold the only copy of records."""


class MetadataBehindLog(InvalidRequest):
    """The metadata is an older copy: the log was used under a node epoch, or with a metadata version, that it lacks."""


async def log_last_used(wal: WriteAheadLog, store_id: str, node_id: int, location: str) -> LogIdentity:
    """Returns the identity of the log; its ``node_epoch`` is NEVER_USED if this store has not used the folder. Raises
    WalOfAnotherStore, WalOfAnotherNode, DamagedIdentity."""
    never = LogIdentity(store_id, node_id, NEVER_USED)
    identity = await wal.identity()
    if identity is None:
        return never
    if identity.store_id != store_id:
        if await wal.is_empty():
            await wal.reset()  # files of the other store are not missed here
            return never
        raise WalOfAnotherStore(
            f"the write-ahead log in {location} belongs to another store ({identity.store_id}, this is {store_id}): "
            "give each store its own folder, and restore the metadata if it was lost"
        )
    if identity.node_id != node_id:
        raise WalOfAnotherNode(
            f"the write-ahead log in {location} belongs to node {identity.node_id}, this is node {node_id}: "
            "give each node its own write-ahead log folder"
        )
    return identity


async def note_metadata(wal: WriteAheadLog, metadata: LogPosition) -> None:
    """Records the metadata that the node has read, at a clean stop and when the metadata log lost entries: the next
    start is refused with metadata below this version, or with another entry there."""
    try:
        if (identity := await wal.identity()) is not None:
            await wal.claim(
                replace(identity, metadata_version=metadata.version, append_id=metadata.append_id)
            )
    except (OSError, SiltstoneError) as trouble:
        # the next start can then detect an older copy of the metadata less well
        log.warning("the metadata's version could not be recorded in the write-ahead log: %s", trouble)


async def leave_empty(wal: WriteAheadLog, metadata: MetadataService, node_id: int, node_epoch: int) -> None:
    """Deletes the records of a log that are all committed, at a clean stop, and says so in the metadata."""
    if await wal.empty():
        try:
            await metadata.execute(put_empty_log(node_id, node_epoch))
        except SiltstoneError as trouble:  # then an erasure of keys waits for a start of this node
            log.warning("node %d: the metadata does not say that its log is empty: %s", node_id, trouble)


def lost(behind: NodeLogBehind, log_epoch: int, location: str, last_location: str) -> WalLost:
    """Returns the error for the operator, with the two ways to start the node. ``last_location`` is where the node had
    its log when it was registered last."""
    found = f"was last used under node epoch {log_epoch}" if log_epoch else "was never used by this node"
    elsewhere = f", {last_location}" if last_location != location else ""
    return WalLost(
        f"{behind}, but the write-ahead log in {location} {found}: start the node with the log that it last used"
        f"{elsewhere}. If that log is lost for good, and with it the records that only it held, start once with "
        f"engine.wal.lost_epoch={behind.log_epoch}"
    )


def given_up(refusal: NodeLogLost, location: str) -> WalLost:
    """Returns the error for the operator of a node that comes back with a log that was given up without it."""
    keeps_it = (
        "" if location.startswith("bucket:") else f"Move the folder of {location} away and start again; or "
    )
    ways = f"{keeps_it}start once with engine.wal.lost_epoch={refusal.log_epoch}, which deletes that log"
    return WalLost(f"{refusal}. {ways[0].upper()}{ways[1:]}")


def damaged(damage: DamagedWal, log_epoch: int, location: str) -> DamagedWal:
    """Returns the error for the operator, with the way to start the node without the damaged log. A log of a newer
    version has all its records, so there is no such way for it."""
    if isinstance(damage, WalOfNewerVersion):
        return damage
    once = f" once with engine.wal.lost_epoch={log_epoch}" if log_epoch else ""
    return DamagedWal(
        f"{damage}. If that is not possible, move the log in {location} away and start{once}; the records that only "
        "this log held are lost then"
    )


def refuse_older_metadata(
    last_used: LogIdentity,
    newest_record: WalRecord | None,
    node_epoch: int,
    metadata_version: int,
    location: str,
) -> None:
    """Raises MetadataBehindLog when the log was used with newer metadata than this, by its identity or by its newest
    record. ``metadata_version`` was read after both. A node is registered before it claims its log, so current metadata
    knows every epoch of the log. Older metadata would give out object ids again, and so overwrite objects that hold
    acknowledged records."""
    what = "an older copy"
    if last_used.node_epoch > node_epoch:
        known = f"was last used under node epoch {last_used.node_epoch}, and the metadata is at node epoch {node_epoch}"
    elif last_used.metadata_version > metadata_version:
        known = (
            f"was used with version {last_used.metadata_version} of the metadata, now at {metadata_version}"
        )
    elif newest_record is not None and newest_record.metadata_version > metadata_version:
        batch = newest_record.batch
        known = (
            f"ends with the offsets {batch.base_offset} to {batch.end_offset - 1} of stream {batch.stream_id}, "
            f"appended with version {newest_record.metadata_version} of the metadata, now at {metadata_version}"
        )
        what = "an older copy, or another store's"
    else:
        return
    raise MetadataBehindLog(
        f"the write-ahead log in {location} {known}: the metadata is {what}. Restore the newest copy; without it, "
        "records that were acknowledged since are lost"
    )


def refuse_forked_metadata(last_used: LogIdentity, append_id: str | None, location: str) -> None:
    """Raises LogForked when the metadata's entry at the identity's version has another append id than the log saw
    there. ``append_id`` is None when the metadata no longer has that entry, so that nothing follows from it."""
    if last_used.append_id == NO_APPEND_ID or append_id in (None, last_used.append_id):
        return
    version = last_used.metadata_version
    raise LogForked(
        f"entry {version} of the metadata log is another one (append {append_id}) than the write-ahead log in "
        f"{location} was used with (append {last_used.append_id}): the metadata lost entries and continued with "
        "others, since an older copy was restored, or a standby without the newest entries was promoted. Stop every "
        f"node, delete nothing, and restore the copy in which entry {version} has append id {last_used.append_id}"
    )


async def refuse_records_of_an_older_life(wal: WriteAheadLog, location: str) -> None:
    """Raises WalLost when the log is not empty, for a start that declares the newest log lost. The records of an older
    node epoch were committed or declared lost before, and do not continue the streams."""
    if not await wal.is_empty():
        raise WalLost(
            f"the write-ahead log in {location} holds records of an older epoch of this node: move the folder away, "
            "then start again"
        )
