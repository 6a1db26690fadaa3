"""Which file system holds a folder, and whether its locks are kept."""

from pathlib import Path

import pytest

from siltstone.runtime import file_systems
from siltstone.runtime.file_systems import UNKNOWN, FileSystem, Locks, file_system_of, found_in

MOUNTS = r"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
22 21 0:5 / /proc rw - proc proc rw
40 21 0:41 / /mnt/share rw,noatime shared:9 master:2 - nfs4 server:/export rw,vers=4.2
41 40 0:42 / /mnt/share/disk rw - xfs /dev/sdb rw
42 21 0:43 / /mnt/two\040words rw - cifs //server/share rw
43 21 0:44 / /mnt/hidden rw - nfs server:/other rw
44 43 0:45 / /mnt/hidden rw - tmpfs tmpfs rw
a line of a later kernel
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/var/lib/store", FileSystem("ext4", "/")),
        ("/", FileSystem("ext4", "/")),
        ("/mnt/share/store/wal", FileSystem("nfs4", "/mnt/share")),
        ("/mnt/share", FileSystem("nfs4", "/mnt/share")),
        ("/mnt/shared", FileSystem("ext4", "/")),
        ("/mnt/share/disk/wal", FileSystem("xfs", "/mnt/share/disk")),
        ("/mnt/two words/wal", FileSystem("cifs", "/mnt/two words")),
        ("/mnt/hidden/wal", FileSystem("tmpfs", "/mnt/hidden")),
    ],
)
def test_the_innermost_and_last_mount_holds_a_path(path: str, expected: FileSystem) -> None:
    assert found_in(MOUNTS, Path(path)) == expected


@pytest.mark.parametrize(
    ("type_name", "locks"),
    [
        ("ext4", Locks.TRUSTED),
        ("overlay", Locks.TRUSTED),
        ("fuse.fuse-overlayfs", Locks.TRUSTED),
        ("fuseblk", Locks.TRUSTED),
        ("", Locks.TRUSTED),
        ("nfs", Locks.LOST),
        ("nfs4", Locks.LOST),
        ("cifs", Locks.LOST),
        ("smb3", Locks.LOST),
        ("ceph", Locks.LOST),
        ("fuse.sshfs", Locks.LOST),
        ("fuse.gcsfuse", Locks.LOST),
        ("fuse", Locks.UNCERTAIN),
        ("fuse.something", Locks.UNCERTAIN),
        ("9p", Locks.UNCERTAIN),
        ("virtiofs", Locks.UNCERTAIN),
    ],
)
def test_locks_are_judged_by_the_type(type_name: str, locks: Locks) -> None:
    assert FileSystem(type_name, "/mnt").locks is locks


def test_a_folder_that_is_not_there_yet_and_a_link_count_where_they_lead(tmp_path: Path, monkeypatch) -> None:
    real = tmp_path.resolve() / "share"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:9 / {real} rw - nfs server:/ rw\n")
    monkeypatch.setattr(file_systems, "MOUNTS", mounts)
    assert file_system_of(tmp_path / "link" / "store" / "wal").type_name == "nfs"
    assert file_system_of(tmp_path / "store").type_name == "ext4"


def test_where_no_mounts_are_listed_nothing_is_known(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(file_systems, "MOUNTS", tmp_path / "nowhere")
    assert file_system_of(tmp_path) == UNKNOWN


def test_the_mounts_of_this_machine_are_understood(tmp_path: Path) -> None:
    assert file_system_of(Path("/proc/self")).type_name == "proc"
    assert file_system_of(tmp_path).locks is Locks.TRUSTED
