"""Which adapter holds the log, and where; the logs of other nodes."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from siltstone.metadata.entities import NodeMetadata
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.stream_engine.settings import EngineSettings, InvalidSetting, WalSettings
from siltstone.stream_engine.wal.bucket_wal import BucketWriteAheadLog
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog
from siltstone.stream_engine.wal.opening import (
    WalOutOfReach,
    WalPlace,
    bucket_of_log,
    is_same_folder,
    open_wal,
    open_wal_of,
    wal_threads,
)

CLOCK = ManualClock()
BUCKETS = Buckets({0: MemoryStore(CLOCK), 4: MemoryStore(CLOCK)})


def place(folder: Path, location: str = "file", node_id: int = 0) -> WalPlace:
    return WalPlace(EngineSettings(node_id=node_id, wal=WalSettings(location=location)), folder)


def opened(where: WalPlace) -> object:
    return open_wal(where, BUCKETS, "ab" * 16, InlineCalls(), CLOCK, seeded_randomness(1))


def test_files_are_the_default(tmp_path: Path) -> None:
    where = place(tmp_path / "wal")
    assert isinstance(opened(where), FileWriteAheadLog)
    assert where.location == (tmp_path / "wal").as_uri()
    assert wal_threads(where.settings.wal) == 1


def test_the_location_of_a_log_in_files_names_its_machine(tmp_path: Path) -> None:
    settings = EngineSettings()
    first, second = (WalPlace(settings, tmp_path / "w a l", host).location for host in ("a.example", "b"))
    assert first == f"file://a.example{tmp_path}/w%20a%20l"
    assert not is_same_folder(first, second), "two machines with the same path"
    assert is_same_folder(first, first)


def test_the_location_of_an_older_version_has_no_machine(tmp_path: Path) -> None:
    older, here = (WalPlace(EngineSettings(), tmp_path, host).location for host in ("", "here"))
    assert is_same_folder(older, here) and is_same_folder(here, older)
    other = WalPlace(EngineSettings(), tmp_path / "other", "here").location
    assert not is_same_folder(older, other)
    assert not is_same_folder("bucket:0/wal/88/0", "bucket:0/wal/88/1")


@pytest.mark.parametrize(("host", "is_reached"), [("", True), ("here", True), ("there", False)])
def test_a_log_in_files_is_opened_on_its_machine_only(tmp_path: Path, host: str, is_reached: bool) -> None:
    location = WalPlace(EngineSettings(), tmp_path, host).location
    node = NodeMetadata(3, 1, "life", failover=False, wal_location=location)
    arguments = (WalSettings(), BUCKETS, "ab" * 16, InlineCalls(), CLOCK, seeded_randomness(1), "here")
    assert bucket_of_log(node) is None
    if is_reached:
        assert isinstance(open_wal_of(node, *arguments), FileWriteAheadLog)
    else:
        with pytest.raises(WalOutOfReach, match="file://there/"):
            open_wal_of(node, *arguments)


def test_a_bucket_by_its_number(tmp_path: Path) -> None:
    where = place(tmp_path / "wal", "bucket:4", node_id=3)
    assert isinstance(opened(where), BucketWriteAheadLog)
    assert where.location.startswith("bucket:4/wal/") and where.location.endswith("/3")
    assert not (tmp_path / "wal").exists(), "nothing is written to the disk"
    threads = wal_threads(replace(where.settings.wal, bulks_in_flight_max=5))
    assert threads == 7


def test_a_bucket_that_is_not_in_the_settings(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"there is no buckets\.7 in the settings"):
        opened(place(tmp_path, "bucket:7"))


@pytest.mark.parametrize(
    "location", ["", "bucket", "bucket:", "bucket:x", "s3://bucket", "files", "bucket:-1"]
)
def test_locations_that_are_none(location: str) -> None:
    with pytest.raises(InvalidSetting, match="write file, or bucket:N"):
        WalSettings(location=location)
