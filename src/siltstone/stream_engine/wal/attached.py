"""An *attached log*: the log of a node whose machine is gone, on a disk that is now attached to this machine.

A log in files is otherwise replayed on the machine that its location names, where the lock of its folder tells a
process that has ended from one that is stopped. Nothing tells that of a machine that is gone. A person does, who
attaches the disk to another machine and starts a node there with ``serve --recover file:///FOLDER``. Detaching is the
fence: two machines do not write to one disk. The node then replays the log as every other (``failing_over``), when the
dead node is fenced. The identity in the folder names that node.
"""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from siltstone.metadata.decisions.nodes import lost_log_epoch
from siltstone.metadata.entities import NodeMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import InvalidRequest
from siltstone.stream_engine.wal.log_directory import IDENTITY_FILE, LogDirectory
from siltstone.stream_engine.wal.port import WalOfAnotherStore


class NotAnAttachedLog(InvalidRequest):
    """The URL or the folder names no log that this node could replay for another one."""


class AttachedLog(msgspec.Struct, frozen=True):
    """``node_epoch``: the epoch under which ``node_id`` last used the log in ``folder``."""

    folder: Path
    node_id: int
    node_epoch: int

    def is_newest_of(self, node: NodeMetadata) -> bool:
        """Whether it is the log under which the node last opened streams, so that no other one has their records."""
        return self.node_id == node.node_id and self.node_epoch >= node.log_epoch


def folder_of_url(url: str) -> Path:
    """The folder of ``file:///FOLDER``. Raises NotAnAttachedLog."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or parts.netloc or not path.is_absolute() or parts.query or parts.fragment:
        raise NotAnAttachedLog(
            f"--recover {url} names no folder of this machine: write file:///FOLDER, where FOLDER is where the disk is "
            "mounted here"
        )
    return path


def attached_logs(folders: Iterable[Path], store_id: str, node_id: int) -> dict[int, AttachedLog]:
    """The logs in the folders, by the node that wrote them, for the node ``node_id`` of this store. Raises
    NotAnAttachedLog, WalInUse, WalOfAnotherStore, DamagedIdentity."""
    found: dict[int, AttachedLog] = {}
    for folder in folders:
        log = _attached_log(folder, store_id, node_id)
        if log.node_id in found:
            raise NotAnAttachedLog(
                f"{found[log.node_id].folder} and {folder} both hold a log of node {log.node_id}: name the newer one"
            )
        found[log.node_id] = log
    return found


def _attached_log(folder: Path, store_id: str, node_id: int) -> AttachedLog:
    try:
        if not (folder / IDENTITY_FILE).is_file():  # asked first, because a lock would leave a file
            raise NotAnAttachedLog(
                f"{folder} holds no write-ahead log: name the folder that has {IDENTITY_FILE}, such as node-1"
            )
        directory = LogDirectory(folder, node_id)  # locked: no process of this machine uses the log
        try:
            identity = directory.identity()
        finally:
            directory.close()
    except OSError as trouble:
        raise NotAnAttachedLog(
            f"the write-ahead log in {folder} cannot be opened: {trouble.strerror or trouble}; this user must be able "
            "to read it and to write in the folder"
        ) from trouble
    assert identity is not None, "the file is there, and nobody deletes it under the lock"
    if identity.store_id != store_id:
        raise WalOfAnotherStore(
            f"the write-ahead log in {folder} belongs to another store ({identity.store_id}, this is {store_id}): name "
            "the log of a node of this store"
        )
    if identity.node_id == node_id:
        raise NotAnAttachedLog(
            f"the write-ahead log in {folder} is this node's own, that of node {node_id}: start it with --set "
            f"wal_folder={folder} instead of --recover"
        )
    return AttachedLog(folder, identity.node_id, identity.node_epoch)


def prospects(log: AttachedLog, image: MetadataImage) -> str:
    """What becomes of the log, in words for the operator: when it is replayed, or why it is not needed."""
    node = image.nodes.get(log.node_id)
    where = f"the write-ahead log of node {log.node_id} in {log.folder}"
    if node is None:
        return f"{where} is not needed: the store does not know this node any more"
    if 0 < log.node_epoch <= lost_log_epoch(image, log.node_id):
        return f"{where} is not replayed: it was given up, and the topics have continued without what only it holds"
    if not log.is_newest_of(node):
        return (
            f"{where} is not replayed: it was last used under node epoch {log.node_epoch}, and the node has opened "
            f"streams under epoch {node.log_epoch} since, with its log in {node.wal_location}"
        )
    if node.is_live:
        return (
            f"{where} is replayed when the node has been silent for some seconds; the metadata has it as live"
        )
    if not _has_open_streams(image, log.node_id):
        return f"{where} is not needed: everything it holds is committed"
    return f"{where} is replayed now"


def _has_open_streams(image: MetadataImage, node_id: int) -> bool:
    return any(
        stream.owner == node_id and stream.state is StreamState.OPENED for stream in image.streams.values()
    )
