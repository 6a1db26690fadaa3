"""Logs on disks that were attached to this machine: which are taken, and what becomes of each."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from siltstone.metadata.entities import NodeMetadata, StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.object_formats.identity import DamagedIdentity, LogIdentity
from siltstone.stream_engine.wal.attached import (
    AttachedLog,
    NotAnAttachedLog,
    attached_logs,
    folder_of_url,
    prospects,
)
from siltstone.stream_engine.wal.log_directory import LogDirectory
from siltstone.stream_engine.wal.port import WalInUse, WalOfAnotherStore

STORE, OWN, DEAD = "ab" * 16, 2, 1


def log_in(folder: Path, node_id: int = DEAD, epoch: int = 3, store_id: str = STORE) -> Path:
    directory = LogDirectory(folder, node_id)
    directory.claim(LogIdentity(store_id, node_id, epoch))
    directory.close()
    return folder


def found_in(*folders: Path) -> dict[int, AttachedLog]:
    return attached_logs(folders, STORE, OWN)


def test_a_log_is_known_by_its_identity(tmp_path: Path) -> None:
    one, two = log_in(tmp_path / "one"), log_in(tmp_path / "two", node_id=7, epoch=9)
    assert found_in(one, two) == {1: AttachedLog(one, 1, 3), 7: AttachedLog(two, 7, 9)}
    assert found_in() == {}
    found_in(one)  # no lock was left


@pytest.mark.parametrize("url", ["file:///mnt/wal/node-1", "file:///mnt/w%61l/node-1"])
def test_a_url_names_a_folder_of_this_machine(url: str) -> None:
    assert folder_of_url(url) == Path("/mnt/wal/node-1")


@pytest.mark.parametrize(
    "url",
    ["", "/mnt/wal", "file://there/mnt/wal", "file:mnt", "s3://bucket/wal", "file:///wal?x=1", "file://"],
)
def test_other_urls_are_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(NotAnAttachedLog, match="write file:///FOLDER"):
        folder_of_url(url)


def test_a_folder_without_a_log_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(NotAnAttachedLog, match="holds no write-ahead log: name the folder"):
        found_in(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(NotAnAttachedLog, match="holds no write-ahead log"):
        found_in(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_log_of_another_store_and_the_nodes_own_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WalOfAnotherStore, match="belongs to another store"):
        found_in(log_in(tmp_path / "other", store_id="cd" * 16))
    own = log_in(tmp_path / "own", node_id=OWN)
    with pytest.raises(NotAnAttachedLog, match=f"--set wal_folder={own} instead of --recover"):
        found_in(own)


def test_two_logs_of_one_node_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAnAttachedLog, match="both hold a log of node 1"):
        found_in(log_in(tmp_path / "one"), log_in(tmp_path / "two"))


def test_a_log_that_a_process_of_this_machine_uses_is_refused(tmp_path: Path) -> None:
    folder = log_in(tmp_path / "one")
    used = LogDirectory(folder, DEAD)
    with pytest.raises(WalInUse):
        found_in(folder)
    used.close()


def test_a_damaged_identity_is_refused(tmp_path: Path) -> None:
    folder = log_in(tmp_path / "one")
    (folder / "identity.json").write_bytes(b"?")
    with pytest.raises(DamagedIdentity):
        found_in(folder)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> LogDirectory:
        raise PermissionError(13, "Permission denied")

    folder = log_in(tmp_path / "one")
    monkeypatch.setattr("siltstone.stream_engine.wal.attached.LogDirectory", refused)
    with pytest.raises(NotAnAttachedLog, match="cannot be opened: Permission denied; this user must be able"):
        found_in(folder)


LOG = AttachedLog(Path("/mnt/wal"), DEAD, 3)
NODE = NodeMetadata(
    DEAD, 3, "life", failover=False, wal_location="file://gone/wal", log_epoch=3, is_fenced=True
)
STREAM = StreamMetadata(5, StreamState.OPENED, 1, DEAD, 0, 0, (), (), {})
IMAGE = MetadataImage(nodes={DEAD: NODE}, streams={5: STREAM})


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (IMAGE, "is replayed now"),
        (MetadataImage(nodes={DEAD: replace(NODE, is_fenced=False)}), "has been silent for some seconds"),
        (MetadataImage(nodes={DEAD: NODE}), "everything it holds is committed"),
        (MetadataImage(nodes={}), "does not know this node any more"),
        (MetadataImage(nodes={DEAD: replace(NODE, log_epoch=4)}), "opened streams under epoch 4 since"),
        (MetadataImage(nodes={DEAD: NODE}, keys={"lost-log/1": b"3"}), "it was given up"),
    ],
)
def test_what_becomes_of_a_log_is_said(image: MetadataImage, words: str) -> None:
    assert words in prospects(LOG, image)
    assert prospects(LOG, image).startswith("the write-ahead log of node 1 in /mnt/wal")
