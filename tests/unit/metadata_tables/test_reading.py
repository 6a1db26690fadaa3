"""A store is read as it is and as it was, by its folder, its URL or opened, while a node writes to it."""

import asyncio
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest

import siltstone
from siltstone.metadata.commands import FinishJob, StartJob
from siltstone.metadata.history import VersionNotHeld
from siltstone.metadata_tables import reading as module
from siltstone.metadata_tables.moment import GroupCommit
from siltstone.metadata_tables.reading import MomentRefused, metadata, read_tables
from siltstone.model.errors import SiltstoneError
from siltstone.offline.opening.store import StoreNotFound, open_store
from siltstone.runtime.clock import ManualClock
from siltstone.scanning.source import open_source
from support.engine.small_store import small_store


def test_a_store_is_read_by_its_folder_its_url_and_opened(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    by_folder = siltstone.metadata(tmp_path / "store")
    by_url = siltstone.metadata(settings.metadata)
    with siltstone.open_store(tmp_path / "store") as store:
        opened = siltstone.metadata(store)
        image = store.metadata.image
    for tables in (by_folder, by_url, opened):
        assert tables.version == image.version
        assert [row["object_id"] for row in tables.objects.rows()] == sorted(image.objects)
        assert tables.log.rows()[-1]["version"] == image.version
        assert tables.groups.rows() == []


def test_reading_writes_nothing(tmp_path: Path) -> None:
    small_store(tmp_path / "store")
    before = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    tables = siltstone.metadata(tmp_path / "store")
    for name in tables.names:
        tables.table(name).rows()
    after = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before
    assert {path.name for path in after.keys() - before} <= {"metadata.sqlite-shm", "metadata.sqlite-wal"}


def test_earlier_versions_and_times_are_read(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    with open_store(settings) as store:
        head = store.metadata.image.version
        job = store.metadata.execute(StartJob("sweep", "driver", 60_000))
        store.metadata.execute(FinishJob(job, True, "done"))
        started_ms = store.metadata.image.jobs[job].started_ms
    assert [
        siltstone.metadata(tmp_path / "store", version=head + each).jobs.rows(["state"]) for each in (0, 1, 2)
    ] == [
        [],
        [{"state": "RUNNING"}],
        [{"state": "SUCCEEDED"}],
    ]
    then = siltstone.metadata(tmp_path / "store", as_of=datetime.fromtimestamp((started_ms - 1) / 1000, UTC))
    assert then.version == head and then.moment.now_ms == started_ms - 1
    assert then.log.rows()[-1]["version"] == head
    with pytest.raises(VersionNotHeld):
        siltstone.metadata(tmp_path / "store", version=head + 3)


def test_the_time_of_an_earlier_version_is_the_newest_that_it_names(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    clock = ManualClock()
    source = lambda: open_source(tmp_path / "store")  # noqa: E731
    now = read_tables(settings, source, clock=clock)
    assert now.moment.now_ms == clock.now_ms()
    assert read_tables(settings, source, version=now.version, clock=clock).moment.now_ms == clock.now_ms()
    earlier = read_tables(settings, source, version=now.version - 1, clock=clock)
    assert earlier.moment.now_ms == max(each.committed_ms for each in earlier.moment.image.objects.values())


def test_what_makes_no_moment_is_refused(tmp_path: Path) -> None:
    small_store(tmp_path / "store")
    with pytest.raises(MomentRefused, match="give one of them"):
        metadata(tmp_path / "store", version=1, as_of=datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(MomentRefused, match="no time zone"):
        metadata(tmp_path / "store", as_of=datetime(2026, 1, 1))
    with pytest.raises(MomentRefused, match="no version"):
        metadata(tmp_path / "store", version="12")  # type: ignore[arg-type]
    with pytest.raises(MomentRefused, match="is no time"):
        metadata(tmp_path / "store", as_of="2026-01-01T00:00Z")  # type: ignore[arg-type]
    with pytest.raises(StoreNotFound):
        metadata(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_positions_of_groups_are_read_once_and_only_if_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small_store(tmp_path / "store")
    asked: list[int] = []

    def commits_of(source: object, image: object) -> list[GroupCommit]:
        asked.append(1)
        return []

    monkeypatch.setattr(module, "commits_of", commits_of)
    tables = read_tables(settings, nullcontext)
    tables.objects.rows()
    assert not asked
    assert tables.groups.rows() == tables.group_lags.rows() == [] and asked == [1]


def test_the_metadata_are_read_while_another_process_writes_and_saves_snapshots(tmp_path: Path) -> None:
    """Each read shows one version, and the objects of this version."""
    settings = small_store(tmp_path / "store")
    versions = []

    def write(rounds: int) -> None:
        with open_store(settings) as store:
            store.metadata._snapshot_interval_records = 3
            for _ in range(rounds):
                job = store.metadata.execute(StartJob("sweep", "driver", 60_000))
                store.metadata.execute(FinishJob(job, True, "done"))

    async def both() -> None:
        writing = asyncio.create_task(asyncio.to_thread(write, 200))
        while not writing.done():
            tables = await asyncio.to_thread(siltstone.metadata, tmp_path / "store")
            versions.append(tables.version)
            jobs = tables.jobs.rows()
            assert sum(row["state"] == "RUNNING" for row in jobs) <= 1
        await writing

    asyncio.run(both())
    assert versions == sorted(versions) and len(set(versions)) > 3


def test_the_package_and_the_function_of_the_name_are_one() -> None:
    import siltstone.metadata.image

    assert callable(siltstone.metadata) and siltstone.metadata.__name__ == "siltstone.metadata"
    with pytest.raises(SiltstoneError):
        siltstone.metadata("./there-is-no-store")
