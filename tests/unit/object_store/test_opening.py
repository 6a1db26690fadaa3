import os
import sys
from pathlib import Path

import pytest

from siltstone.object_store.opening import canonical_url, open_store
from siltstone.object_store.port import FolderMissing, InvalidStoreUrl, StoreDenied


@pytest.mark.parametrize("name", ["bucket", "with space", "a%b?c#d", "é"])
def test_a_folder_by_its_url(tmp_path: Path, name: str) -> None:
    url = (tmp_path / name).as_uri()
    open_store(url, create=True).put("a/1", [b"content"])

    assert open_store(url).url == url
    assert open_store(url).get_range("a/1", 0, 7) == b"content"
    assert (tmp_path / name / "a" / "1").read_bytes() == b"content"


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("s3://bucket", "s3://bucket/"),
        ("s3://bucket/a/b", "s3://bucket/a/b/"),
        (
            "s3://bucket/a?region=x&endpoint_url=http://h:1",
            "s3://bucket/a/?endpoint_url=http%3A%2F%2Fh%3A1&region=x",
        ),
        ("file:///folder/", "file:///folder"),
        ("file:///one/../with space", "file:///with%20space"),
        ("memory:name", "memory:name"),
        ("ftp://nowhere", "ftp://nowhere"),
    ],
)
def test_a_place_has_one_url(written: str, url: str) -> None:
    assert canonical_url(written) == url
    assert canonical_url(url) == url


def test_memory_by_name_is_the_same_for_all_who_open_it() -> None:
    open_store("memory:test-opening").put("a/1", [b"content"])

    assert open_store("memory:test-opening").get_range("a/1", 0, 7) == b"content"
    assert [*open_store("memory:test-opening-other").list()] == []


def test_an_s3_bucket_is_not_asked_when_it_is_opened() -> None:
    url = "s3://bucket/prefix/?endpoint_url=http%3A%2F%2F127.0.0.1%3A1&region=us-east-1"
    store = open_store(url)

    assert store.url == url
    store.close()


def test_without_botocore_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("siltstone.object_store.s3.store", "siltstone.object_store.s3.errors"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)

    with pytest.raises(StoreDenied, match=r"pip install 'siltstone\[s3\]'"):
        open_store("s3://bucket/")


@pytest.mark.parametrize(
    "url",
    ["", "bucket", "/tmp/bucket", "file://relative/folder", "file:relative", "file:///x?y=1", "gs://bucket/"],
)
def test_urls_that_name_no_store(url: str) -> None:
    with pytest.raises(InvalidStoreUrl, match="write file:///absolute/folder"):
        open_store(url)


def test_opening_removes_what_killed_puts_left_long_ago(tmp_path: Path) -> None:
    open_store(tmp_path.as_uri()).put("a/1", [b"content"])
    old, new = tmp_path / ".temporary" / "old", tmp_path / ".temporary" / "new"
    for path in (old, new):
        path.write_bytes(b"left")
    os.utime(old, (1_000_000_000, 1_000_000_000))

    open_store(tmp_path.as_uri())

    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("is_opened_later", [False, True])
def test_a_missing_folder_is_named_and_not_made(is_opened_later: bool, tmp_path: Path) -> None:
    """It may be on a disk that is not mounted: an empty folder in its place would look like a bucket that was emptied,
    and objects would be put on the wrong disk."""
    folder = tmp_path / "disk" / "bucket"
    with pytest.raises(FolderMissing, match=f"there is no folder {folder}: mount its disk") as missing:
        list(open_store(folder.as_uri(), is_opened_later=is_opened_later).list())

    assert missing.value.folder == str(folder)
    assert not list(tmp_path.iterdir())


def test_one_that_is_opened_later_is_used_once_its_disk_is_mounted(tmp_path: Path) -> None:
    folder = tmp_path / "bucket"
    store = open_store(folder.as_uri(), is_opened_later=True)
    with pytest.raises(FolderMissing):
        store.put("a/1", [b"content"])
    folder.mkdir()
    store.put("a/1", [b"content"])

    assert (folder / "a" / "1").read_bytes() == b"content"


def test_opening_a_folder_and_reading_it_writes_nothing(tmp_path: Path) -> None:
    """The mount point of a disk is an empty folder while the disk is not mounted."""
    store = open_store(tmp_path.as_uri())

    assert [*store.list(), *store.list_multipart()] == []
    assert not list(tmp_path.iterdir())
