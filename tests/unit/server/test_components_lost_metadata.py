"""Metadata that is not the one the bucket was written with: no object may be written over another store's."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.findings import FindingKind
from siltstone.maintenance.checking.repair_plan import RepairPlan
from siltstone.maintenance.checking.repairing import repair
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.sweep.kind import SWEEP
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import DeleteStream, PrepareObjects, StartJob
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.object_store import metadata_mark
from siltstone.object_store.bucket_identity import MARKER_KEY, BucketMissing, BucketOfAnotherStore
from siltstone.object_store.folder.store import FolderStore
from siltstone.object_store.metadata_mark import MetadataOlderThanBucket
from siltstone.object_store.port import ObjectStore, ObjectSummary, StoreTransient
from siltstone.offline.kind_rows import KIND_NAMES
from siltstone.offline.opening.store import StoreNotFound, open_store
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.runtime.clock import ManualClock
from siltstone.server.components import running_node
from siltstone.server.settings.node import NodeSettings, load_node_settings
from siltstone.stream_engine.wal.ownership import MetadataBehindLog
from support.processes.cli import assert_one_line
from support.processes.cli import run as run_command


async def append_one(settings: NodeSettings) -> None:
    async with running_node(settings) as engine:
        stream = await engine.open_stream(await engine.create_stream(), 0)
        await engine.append(stream, settings.folder.name.encode(), 1)


def objects(bucket: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in bucket.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_node_whose_metadata_was_lost_does_not_begin_anew_over_its_objects(
    tmp_path: Path, is_marked: bool
) -> None:
    """Not in a bucket from before there were markers, either."""
    settings = load_node_settings(tmp_path, environment={})
    asyncio.run(append_one(settings))
    if not is_marked:
        (tmp_path / "bucket" / MARKER_KEY).unlink()
    before = objects(tmp_path / "bucket")
    (tmp_path / "metadata.sqlite").unlink()
    for _ in range(2):
        with pytest.raises(BucketOfAnotherStore, match="restore the metadata"):
            asyncio.run(append_one(settings))
    assert objects(tmp_path / "bucket") == before


def test_an_older_copy_of_the_metadata_does_not_give_out_ids_of_objects_again(tmp_path: Path) -> None:
    """What was acknowledged after it was copied is nowhere but in these objects."""
    settings = load_node_settings(tmp_path, environment={})
    asyncio.run(append_one(settings))
    newest, copied = tmp_path / "metadata.sqlite", tmp_path / "copied.sqlite"
    shutil.copy(newest, copied)
    asyncio.run(append_one(settings))
    before = objects(tmp_path / "bucket")
    newest.rename(tmp_path / "newest.sqlite")
    shutil.copy(copied, newest)
    for _ in range(2):
        with pytest.raises(
            MetadataOlderThanBucket, match=r"with version \d+ of .* at version \d+, .* Restore the newest"
        ):
            asyncio.run(append_one(settings))
    assert objects(tmp_path / "bucket") == before
    (tmp_path / "newest.sqlite").rename(newest)
    asyncio.run(append_one(settings))


def test_nor_does_one_that_was_copied_in_the_same_life(tmp_path: Path) -> None:
    """It knows of the life, and of the ids given out until then."""
    settings = load_node_settings(tmp_path, environment={})
    newest, copied = tmp_path / "metadata.sqlite", tmp_path / "copied.sqlite"

    async def append_two_and_copy_between() -> None:
        async with running_node(settings) as engine:
            stream = await engine.open_stream(await engine.create_stream(), 0)
            await engine.append(stream, b"one", 1)
            await engine.flush()
            with closing(sqlite3.connect(newest)) as source, closing(sqlite3.connect(copied)) as target:
                source.backup(target)
            await engine.append(stream, b"two", 1)

    asyncio.run(append_two_and_copy_between())
    before = objects(tmp_path / "bucket")
    newest.unlink()
    copied.rename(newest)
    for _ in range(2):
        with pytest.raises(
            MetadataOlderThanBucket, match=r"with version \d+ of .* at version \d+, .* Restore the newest"
        ):
            asyncio.run(append_one(settings))
    assert objects(tmp_path / "bucket") == before


def test_the_log_s_folder_tells_an_older_copy_too_while_the_bucket_is_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_node_settings(tmp_path, environment={}, flags={"retry.attempts_max": "1"})
    asyncio.run(append_one(settings))
    newest, copied = tmp_path / "metadata.sqlite", tmp_path / "copied.sqlite"
    shutil.copy(newest, copied)
    asyncio.run(append_one(settings))
    before = objects(tmp_path / "bucket")
    copied.rename(newest)

    def refuse(*_: object) -> Iterator[ObjectSummary]:
        raise StoreTransient("out of reach")

    monkeypatch.setattr(FolderStore, "list", refuse)
    with pytest.raises(
        MetadataBehindLog, match=r"under node epoch 2, and the metadata is at node epoch 1: .* Restore"
    ):
        asyncio.run(append_one(settings))
    assert objects(tmp_path / "bucket") == before


def test_rule_11_an_older_copy_without_the_log_s_folder_is_refused_everywhere(tmp_path: Path) -> None:
    """Nothing is written or deleted by anyone, and with the newest copy all is there again."""
    settings = load_node_settings(tmp_path, environment={})
    asyncio.run(append_one(settings))
    with open_store(settings) as store:
        job = store.metadata.execute(StartJob("some kind", "a driver that died", 10_000_000))
    newest, copied = tmp_path / "metadata.sqlite", tmp_path / "copied.sqlite"
    shutil.copy(newest, copied)
    asyncio.run(append_one(settings))
    newest.rename(tmp_path / "newest.sqlite")
    copied.rename(newest)
    with open_store(settings) as store:
        copied_version = store.metadata.image.version
    (tmp_path / "wal").rename(tmp_path / "wal-before")
    before = objects(tmp_path / "bucket")
    with pytest.raises(MetadataOlderThanBucket):
        asyncio.run(append_one(settings))
    with open_store(settings) as store:
        for kind in chosen_kinds(store.kind_settings, KIND_NAMES):
            watch = Watch(kind.name, store.context.clock)
            with pytest.raises(MetadataOlderThanBucket):
                run(store.context, kind, InProcessRunner, Scope(), Budget(), watch)
    with open_store(settings) as store:
        (report,) = Driver(store.context, InProcessRunner, Scope(), Budget()).run(
            chosen_kinds(store.kind_settings, KIND_NAMES)
        )
        assert "It is an older copy" in report.trouble, "said once, not for each kind"
    assert_one_line(run_command("maintain", "cancel", job, "--store", tmp_path), 2, "It is an older copy")
    with open_store(settings) as store:
        version = store.metadata.image.version
        with pytest.raises(MetadataOlderThanBucket):
            sweep(store.context)
        assert store.metadata.refresh().version == version == copied_version
        with pytest.raises(MetadataOlderThanBucket):
            repair(store.context, RepairPlan((), ()))
        kinds = {finding.kind for finding in check(store.context).findings}
        assert FindingKind.METADATA_OLDER in kinds
    assert objects(tmp_path / "bucket") == before
    (tmp_path / "newest.sqlite").rename(newest)
    (tmp_path / "wal-before").rename(tmp_path / "wal")
    asyncio.run(append_one(settings))


def test_a_sweep_lists_the_marks_once_and_once_more_before_it_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_node_settings(tmp_path, environment={})
    asyncio.run(append_one(settings))
    asked: list[ObjectStore] = []

    def dated_marks_in(store: ObjectStore) -> list[tuple[metadata_mark.MetadataMark, int]]:
        asked.append(store)
        return found(store)

    found = metadata_mark.dated_marks_in
    monkeypatch.setattr(metadata_mark, "dated_marks_in", dated_marks_in)

    def listings() -> int:
        asked.clear()
        with open_store(settings, clock=clock) as store:
            (kind,) = chosen_kinds(store.kind_settings, [SWEEP])
            assert run(store.context, kind, InProcessRunner, Scope(), Budget(), Watch(SWEEP, clock)).is_well
        return len(asked)

    clock = ManualClock()
    assert listings() == 1
    with open_store(settings, clock=clock) as store:
        job = store.metadata.execute(StartJob("some kind", "a driver that died", 1))
        store.metadata.execute(PrepareObjects(1, 1, job_id=job))
    clock.advance_ms(GRACE_PERIOD_MS)
    assert listings() == 1, "an object is given up: nothing is deleted yet"
    clock.advance_ms(GRACE_PERIOD_MS)
    assert listings() == 2


def test_a_store_does_not_go_on_in_an_empty_bucket(tmp_path: Path) -> None:
    """As when ``siltstone serve`` is started without the --bucket that the store was made with."""
    elsewhere = {"buckets.0": (tmp_path / "elsewhere").as_uri()}
    asyncio.run(append_one(load_node_settings(tmp_path / "store", environment={}, flags=elsewhere)))
    forgotten = load_node_settings(tmp_path / "store", environment={})
    for _ in range(2):
        with pytest.raises(
            BucketMissing, match=r"is in file:///.*/elsewhere, .* Name that bucket with --bucket"
        ):
            asyncio.run(append_one(forgotten))
        assert not (tmp_path / "store" / "bucket").exists(), "the folder that the refused start made is gone"
    with pytest.raises(
        StoreNotFound, match=r"the store used file:///.*/elsewhere last: name it with --bucket"
    ):
        open_store(forgotten)
    (tmp_path / "store" / "bucket").mkdir()
    with open_store(forgotten) as store:
        with pytest.raises(BucketMissing):
            sweep(store.context)
        kinds = {finding.kind for finding in check(store.context).findings}
        assert FindingKind.BUCKET_OF_ANOTHER_STORE in kinds
    assert objects(tmp_path / "store" / "bucket") == {}
    asyncio.run(append_one(load_node_settings(tmp_path / "store", environment={}, flags=elsewhere)))


def test_a_bucket_that_was_emptied_is_refused(tmp_path: Path) -> None:
    settings = load_node_settings(tmp_path, environment={})
    asyncio.run(append_one(settings))
    shutil.rmtree(tmp_path / "bucket")
    with pytest.raises(BucketMissing, match="Restore the bucket"):
        asyncio.run(append_one(settings))
    assert objects(tmp_path / "bucket") == {}


def test_a_second_store_does_not_begin_in_the_bucket_of_another(tmp_path: Path) -> None:
    bucket = {"buckets.0": (tmp_path / "bucket").as_uri()}
    first, second = (load_node_settings(tmp_path / name, environment={}, flags=bucket) for name in "ab")
    asyncio.run(append_one(first))
    with pytest.raises(BucketOfAnotherStore, match="a bucket or a prefix of its own"):
        asyncio.run(append_one(second))
    asyncio.run(append_one(first))
    with open_store(first) as store:
        assert len(store.metadata.image.objects) == 2


def test_what_other_programs_keep_in_the_bucket_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "00-notes.txt").write_text("not ours")
    asyncio.run(append_one(load_node_settings(tmp_path, environment={})))


def test_two_stores_that_begin_in_one_empty_bucket_at_once(tmp_path: Path) -> None:
    """Neither has an object yet: only the marker distinguishes them."""
    bucket = {"buckets.0": (tmp_path / "bucket").as_uri()}
    first, second = (load_node_settings(tmp_path / name, environment={}, flags=bucket) for name in "ab")

    async def begin_within() -> None:
        async with running_node(first) as engine:
            with pytest.raises(BucketOfAnotherStore, match="a bucket or a prefix of its own"):
                await append_one(second)
            stream = await engine.open_stream(await engine.create_stream(), 0)
            await engine.append(stream, b"first", 1)

    asyncio.run(begin_within())
    with open_store(first) as store:
        assert len(store.metadata.image.objects) == 1


def test_a_bucket_from_before_there_were_markers_is_taken_by_the_store_that_knows_its_objects(
    tmp_path: Path,
) -> None:
    settings = load_node_settings(tmp_path, environment={})
    asyncio.run(append_one(settings))
    (tmp_path / "bucket" / MARKER_KEY).unlink()
    asyncio.run(append_one(settings))
    assert (tmp_path / "bucket" / MARKER_KEY).is_file()


def test_the_whole_store_may_be_moved(tmp_path: Path) -> None:
    asyncio.run(append_one(load_node_settings(tmp_path / "here", environment={})))
    (tmp_path / "here").rename(tmp_path / "there")
    there = load_node_settings(tmp_path / "there", environment={})
    asyncio.run(append_one(there))
    with open_store(there) as store:
        assert len(store.metadata.image.objects) == 2
        assert check(store.context).is_clean


def test_a_setting_that_names_another_store_s_bucket(tmp_path: Path) -> None:
    """A node does not begin, a sweep passes the bucket over, a check says so; nothing of the other store is touched."""
    one, other = (load_node_settings(tmp_path / name, environment={}) for name in "ab")
    for settings in (one, other):
        asyncio.run(append_one(settings))
    before = objects(tmp_path / "b" / "bucket")
    wrong = load_node_settings(
        tmp_path / "a", environment={}, flags={"buckets.0": (tmp_path / "b" / "bucket").as_uri()}
    )
    with pytest.raises(BucketOfAnotherStore):
        asyncio.run(append_one(wrong))
    clock = ManualClock()
    with open_store(wrong, clock=clock) as store:
        for stream in store.metadata.image.streams.values():
            store.metadata.execute(DeleteStream(0, 1, stream.stream_id, stream.epoch))
        clock.advance_ms(GRACE_PERIOD_MS)
        (passed_over,) = sweep(store.context).passed_over
        assert "belongs to store" in passed_over
        kinds = {finding.kind for finding in check(store.context).findings}
        assert FindingKind.BUCKET_OF_ANOTHER_STORE in kinds
    assert objects(tmp_path / "b" / "bucket") == before


def test_a_store_that_has_worked_begins_while_its_bucket_is_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load_node_settings(tmp_path, environment={}, flags={"retry.attempts_max": "1"})
    refused = StoreTransient("out of reach")

    def refuse(*_: object) -> ObjectSummary:
        raise refused

    async def begin() -> None:
        async with running_node(settings):
            pass

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "head", refuse)
        with pytest.raises(StoreTransient):
            asyncio.run(begin())
    asyncio.run(append_one(settings))
    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "head", refuse)
        asyncio.run(begin())
    assert "could not check that bucket 0 belongs to this store" in caplog.text
