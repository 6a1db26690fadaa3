"""A node whose files are on a network file system does not start, and says where to put them."""

import asyncio
from pathlib import Path

import pytest

from siltstone.offline.opening.store import open_store
from siltstone.runtime import file_systems
from siltstone.server.components import open_node
from siltstone.server.file_locks import LocksNotKept, refuse_lost_locks
from siltstone.server.settings.node import NodeSettings, load_node_settings


@pytest.fixture
def share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the machine says is on NFS; everything else is on ext4."""
    return mounted(tmp_path, monkeypatch, "nfs4")


def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_name: str) -> Path:
    folder = tmp_path.resolve() / "share"
    folder.mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:9 / {folder} rw - {type_name} server:/ rw\n")
    monkeypatch.setattr(file_systems, "MOUNTS", mounts)
    return folder


def settings_of(folder: Path, **flags: str) -> NodeSettings:
    return load_node_settings(folder, environment={}, flags=flags)


def start(settings: NodeSettings) -> None:
    async def started() -> None:
        async with open_node(settings):
            pass

    asyncio.run(started())


def test_fo26_a_log_on_a_share_is_refused_before_anything_is_written(share: Path) -> None:
    with pytest.raises(
        LocksNotKept, match=r"the write-ahead log in .* is on a network file system \(nfs4, mounted"
    ):
        start(settings_of(share / "store"))
    assert not list(share.iterdir())


def test_the_error_says_where_to_put_the_log(share: Path, tmp_path: Path) -> None:
    with pytest.raises(
        LocksNotKept, match=r"--set wal_folder=FOLDER.* engine\.wal\.location=bucket:0"
    ) as refused:
        refuse_lost_locks(settings_of(tmp_path / "store", wal_folder=str(share / "wal")))
    assert refused.value.path == share / "wal"
    assert refused.value.file_system.type_name == "nfs4"


def test_fo26_metadata_on_a_share_is_refused(share: Path, tmp_path: Path) -> None:
    places = {"metadata": f"sqlite://{share}/metadata.sqlite"}
    with pytest.raises(LocksNotKept, match=r"the metadata database .* or into PostgreSQL"):
        start(settings_of(tmp_path / "store", **places))


def test_what_needs_no_locks_may_be_on_a_share(share: Path) -> None:
    """The log is in the bucket, which may be a folder of the share, and the metadata in PostgreSQL."""
    places = {"engine.wal.location": "bucket:0", "metadata": "postgresql://u@h/d"}
    refuse_lost_locks(settings_of(share / "store", **places))


def test_a_store_on_a_disk_starts(share: Path, tmp_path: Path) -> None:
    start(settings_of(tmp_path / "store"))


def test_commands_read_a_store_that_is_on_a_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(tmp_path / "share" / "store")
    with monkeypatch.context() as before:
        mounted(tmp_path, before, "ext4")
        start(settings)
    (tmp_path / "mounts").write_text(f"2 1 0:9 / {tmp_path} rw - nfs server:/ rw\n")
    monkeypatch.setattr(file_systems, "MOUNTS", tmp_path / "mounts")
    with open_store(settings) as store:
        assert store.metadata.image.nodes
    with pytest.raises(LocksNotKept):
        start(settings)


def test_a_file_system_that_is_not_known_is_warned_of(tmp_path: Path, monkeypatch, caplog) -> None:
    folder = mounted(tmp_path, monkeypatch, "fuse.something")
    refuse_lost_locks(settings_of(folder / "store"))
    assert len(caplog.messages) == 2
    assert "of type fuse.something" in caplog.text and "no other machine uses it" in caplog.text
