"""Whether the log in a folder is the one a node needs: what the last life acknowledged may be nowhere else.

The folder carries an identity (``object_formats.identity``) with the epoch of the life that last began to append to it;
the metadata remember the epoch of the life that last opened a stream. The first is never behind the second in the
folder that was used, and always in any other. It matters only while streams are still open: a life that ended well has
committed everything, and the next may begin in an empty folder.

It carries, too, how far the metadata were when a life began and when it ended well: metadata that have not come so far
are an older copy.
"""

from msgspec.structs import replace

from siltstone.metadata.refusals import NodeLogBehind
from siltstone.model.errors import InvalidRequest
from siltstone.object_formats.identity import LogIdentity
from siltstone.stream_engine.wal.port import WalOfAnotherNode, WriteAheadLog

NEVER_USED = 0
"""Below every node epoch: a folder that nobody has used."""


class WalOfAnotherStore(InvalidRequest):
    """The log in this place belongs to another store."""


class WalLost(InvalidRequest):
    """The log in this place is not the one that the node last used, and what that one holds is nowhere else."""


class MetadataBehindLog(InvalidRequest):
    """The metadata are an older copy: they have not heard of the life that last used the log."""


async def log_last_used(wal: WriteAheadLog, store_id: str, node_id: int, location: str) -> LogIdentity:
    """``node_epoch`` NEVER_USED: by nobody. Raises WalOfAnotherStore, WalOfAnotherNode, DamagedIdentity."""
    never = LogIdentity(store_id, node_id, NEVER_USED)
    identity = await wal.identity()
    if identity is None:
        return never
    if identity.store_id != store_id:
        if await wal.is_empty():
            return never
        raise WalOfAnotherStore(
            f"the write-ahead log in {location} is another store's ({identity.store_id}, this is {store_id}): "
            "give each store its own folder, and restore the metadata if they were lost"
        )
    if identity.node_id != node_id:
        raise WalOfAnotherNode(
            f"the write-ahead log in {location} belongs to node {identity.node_id}, this is node {node_id}: "
            "give each node its own write-ahead log folder"
        )
    return identity


async def note_good_end(wal: WriteAheadLog, metadata_version: int) -> None:
    """Everything is committed: whoever begins here again has to know at least as much."""
    if (identity := await wal.identity()) is not None:
        await wal.claim(replace(identity, metadata_version=metadata_version))


def lost(behind: NodeLogBehind, log_epoch: int, location: str) -> WalLost:
    """What a person is told."""
    found = f"was last used by its life {log_epoch}" if log_epoch else "was never used by it"
    return WalLost(
        f"{behind}, but the write-ahead log in {location} {found}: start the node with the folder it had. If that is "
        f"lost for good, with what only it held, start once with engine.wal.lost_epoch={behind.log_epoch}"
    )


def refuse_older_metadata(
    last_used: LogIdentity, node_epoch: int, metadata_version: int, location: str
) -> None:
    """A life is registered before its log is claimed. Older metadata would give out object ids again, and the objects
    of acknowledged records be written over. Raises MetadataBehindLog."""
    if last_used.node_epoch > node_epoch:
        known = f"was last used by life {last_used.node_epoch} of this node, and the metadata know of {node_epoch}"
    elif last_used.metadata_version > metadata_version:
        known = f"knows of version {last_used.metadata_version} of the metadata, and these are at {metadata_version}"
    else:
        return
    raise MetadataBehindLog(
        f"the write-ahead log in {location} {known}: they are an older copy. Restore the newest; what came after this "
        "one was acknowledged, and is lost without it"
    )


async def refuse_records_of_an_older_life(wal: WriteAheadLog, location: str) -> None:
    """For a loss that was accepted. What an older life left was committed, or given up, long ago, and does not go on
    where the streams are now."""
    if not await wal.is_empty():
        raise WalLost(
            f"the write-ahead log in {location} holds records of an older life of this node: move the folder away, and "
            "start without it"
        )
