"""Which adapter holds the log, and where; the logs of other nodes."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.stream_engine.settings import EngineSettings, InvalidSetting, WalSettings
from siltstone.stream_engine.wal.bucket_wal import BucketWriteAheadLog
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog
from siltstone.stream_engine.wal.opening import WalPlace, open_wal, wal_threads

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
