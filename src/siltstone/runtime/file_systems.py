"""The file system that holds a folder, and whether it is on a network, where locks of files cannot be trusted.

A lock on a network file system belongs to a session with its server. When the session ends (a cut network, a restart of
the server), the server gives the lock to another client, while the first process still believes that it has it. The
write-ahead log in files and SQLite both rely on locks. Linux lists the mounts in ``/proc/self/mountinfo``; where that
file is missing, nothing is known and nothing is refused.
"""

from enum import StrEnum
from pathlib import Path

import msgspec

MOUNTS = Path("/proc/self/mountinfo")

NETWORK_TYPES = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "beegfs", "glusterfs", "ncpfs", "coda",
    "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs", "fuse.gcsfuse", "fuse.goofys",
    "fuse.rclone", "fuse.juicefs", "fuse.curlftpfs", "fuse.mount-s3", "fuse.smbnetfs", "fuse.davfs", "fuse.blobfuse",
    "fuse.blobfuse2",
})  # fmt: skip
"""The locks of these are kept by a server, or not at all."""

UNCERTAIN_TYPES = frozenset({"9p", "virtiofs", "vboxsf", "prl_fs"})
"""They show a folder of a virtual machine's host. So do ``fuse`` and ``fuse.…`` of other programs. What is below them
is not known."""

LOCAL_FUSE_TYPES = frozenset({"fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.mergerfs"})
"""Disks of this machine; the first is the root of many containers that run without root."""


class Locks(StrEnum):
    """Whether the locks of a file system keep a second process out."""

    TRUSTED = "trusted"
    UNCERTAIN = "uncertain"
    LOST = "lost"


class FileSystem(msgspec.Struct, frozen=True):
    """``type_name`` as ``mount`` shows it, such as ``ext4`` or ``nfs4``; empty when it is not known."""

    type_name: str
    mount_point: str

    @property
    def is_remote(self) -> bool:
        """Whether each read asks another machine, so that reads at once take less time than one after the other."""
        return self.type_name in NETWORK_TYPES

    @property
    def locks(self) -> Locks:
        if self.is_remote:
            return Locks.LOST
        is_fuse = self.type_name == "fuse" or self.type_name.startswith("fuse.")
        if self.type_name in UNCERTAIN_TYPES or (is_fuse and self.type_name not in LOCAL_FUSE_TYPES):
            return Locks.UNCERTAIN
        return Locks.TRUSTED


MOUNT_POINT_FIELD = 4

UNKNOWN = FileSystem("", "")


def file_system_of(path: Path) -> FileSystem:
    """The file system that holds the path, or that will hold it: a part of the path that does not exist counts as if it
    were in the nearest folder that does."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return UNKNOWN
    return found_in(mounts, path.resolve())


def found_in(mounts: str, path: Path) -> FileSystem:
    """The file system of an absolute path without links, in the text of ``mountinfo``. Of two mounts at one point the
    later one hides the earlier one.

        36 35 98:0 /inside /mnt/at rw,noatime master:1 - nfs4 server:/export rw
    """
    found = UNKNOWN
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, (type_name, *_) = before.split(" "), after.split(" ")
        if len(fields) <= MOUNT_POINT_FIELD:
            continue
        mount_point = _unescaped(fields[MOUNT_POINT_FIELD])
        if len(mount_point) >= len(found.mount_point) and path.is_relative_to(mount_point):
            found = FileSystem(type_name, mount_point)
    return found


def _unescaped(text: str) -> str:
    """Blanks and backslashes are written as octal numbers in ``mountinfo``."""
    for escape, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, plain)
    return text
