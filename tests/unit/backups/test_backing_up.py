"""A backup has every version of the log and the objects of all of them; what was interrupted is none."""

from contextlib import closing
from pathlib import Path

import pytest

from siltstone.backups.backing_up import BackupRefused, back_up, objects_of_all_versions
from siltstone.backups.manifest import MANIFEST_FILE, METADATA_FILE, DamagedBackup
from siltstone.backups.object_bucket import BackupBucketRefused, backed_up_store
from siltstone.backups.restoring import read_manifest
from siltstone.metadata.history import image_at
from siltstone.metadata.log_entry import LogEntry, encode_entry
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.metadata.store_id import store_id_of
from siltstone.model.objects import ObjectState, object_id_of_key, object_key
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.opening import open_store as open_bucket
from siltstone.offline.opening.store import open_store
from siltstone.runtime.clock import ManualClock
from support.engine.small_store import object_files, small_store
from support.metadata.queried_store import queried_world


@pytest.fixture
def settings(tmp_path: Path):
    return small_store(tmp_path / "store")


def ids_in(bucket: MemoryStore) -> set[int]:
    return {found for each in bucket.list() if (found := object_id_of_key(each.key)) is not None}


def test_the_metadata_and_the_objects_are_copied(tmp_path: Path, settings) -> None:
    bucket = MemoryStore(ManualClock(), "backups")
    with open_store(settings) as store:
        made, copied = back_up(settings, store.context, tmp_path / "backup", bucket)
        image = store.metadata.refresh()
        assert made == read_manifest(tmp_path / "backup")
        assert copied is not None and (copied.count, copied.missing) == (len(image.objects), ())
        assert ids_in(bucket) == set(image.objects) and not image.pins
        assert backed_up_store(bucket) == made.store_id == store_id_of(image)
        for path in object_files(settings.folder):
            key = object_key(int(path.name))
            assert bucket.get_range(key, 0, bucket.head(key).size_bytes) == path.read_bytes()
        with closing(SqliteLog(tmp_path / "backup" / METADATA_FILE, create=False)) as log:
            assert dict(image_at(log).objects) == dict(image.objects)
    assert {path.name for path in (tmp_path / "backup").iterdir()} >= {MANIFEST_FILE, METADATA_FILE}
    assert all(
        path.stat().st_mode & 0o077 == 0 for path in [tmp_path / "backup", *(tmp_path / "backup").iterdir()]
    )


def test_a_second_backup_copies_what_is_new(tmp_path: Path, settings) -> None:
    bucket = MemoryStore(ManualClock(), "backups")
    with open_store(settings) as store:
        _, first = back_up(settings, store.context, tmp_path / "one", bucket)
        _, second = back_up(settings, store.context, tmp_path / "two", bucket)
    assert first is not None and second is not None
    assert (first.copied_bytes, second.copied_bytes) == (first.size_bytes, 0)


def test_metadata_alone_needs_no_bucket_and_writes_nothing(tmp_path: Path, settings) -> None:
    with open_store(settings) as store:
        version = store.metadata.image.version
        made, copied = back_up(settings, store.context, tmp_path / "backup")
        assert copied is None and made.version == store.metadata.refresh().version == version
        assert (made.objects, made.oldest) == ("", 0)


def test_no_place_is_overwritten_and_no_bucket_mixed(tmp_path: Path, settings) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    with open_store(settings) as store:
        with pytest.raises(BackupRefused, match="is not empty"):
            back_up(settings, store.context, tmp_path / "full")
        with pytest.raises(BackupBucketRefused, match="is the bucket of a store"):
            back_up(settings, store.context, tmp_path / "backup", open_bucket(settings.buckets[0]))
        assert not store.metadata.refresh().pins, "a pin that is left keeps objects for a day"
    with pytest.raises(DamagedBackup, match="is no complete backup"):
        read_manifest(tmp_path / "backup")


def test_an_object_that_is_missing_makes_no_backup(tmp_path: Path, settings) -> None:
    object_files(settings.folder)[0].unlink()
    with open_store(settings) as store, pytest.raises(BackupRefused, match="is in none of its buckets"):
        back_up(settings, store.context, tmp_path / "backup", MemoryStore(ManualClock(), "backups"))
    assert not (tmp_path / "backup" / MANIFEST_FILE).exists()


@pytest.mark.parametrize("oldest", [0, 9, 16])
def test_objects_of_every_version_are_found(tmp_path: Path, oldest: int) -> None:
    world = queried_world()
    with closing(SqliteLog(tmp_path / "log")) as log:
        for number, records in enumerate(world.log):
            log.append(
                encode_entry(LogEntry(f"{number + 1:032x}", records, log.head().append_id)), log.head()
            )
        wanted = {
            object_id
            for image in world.images[oldest:]
            for object_id, one in image.objects.items()
            if one.state is ObjectState.COMMITTED
        }
        found = objects_of_all_versions(log, oldest)
        assert [each.object_id for each in found] == sorted(wanted)
        assert all(each == world.image.objects[each.object_id] for each in found)
