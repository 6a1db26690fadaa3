"""A store is restored only where nothing is, from objects of the right store, at a point whose objects are kept."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from siltstone.backups.backing_up import back_up
from siltstone.backups.manifest import MANIFEST_FILE, METADATA_FILE, DamagedBackup, encode_manifest
from siltstone.backups.restoring import ObjectsNotKept, RestoreRefused, read_manifest, restore
from siltstone.maintenance.checking.check import check
from siltstone.metadata.history import TimeNotHeld, VersionNotHeld, image_at
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.metadata.store_id import RESTORED_KEY
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.opening import open_store as open_bucket
from siltstone.offline.opening.settings import StoreSettings
from siltstone.offline.opening.store import open_store
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.engine.small_store import object_files, small_store


class Place:
    """A store, its backup with objects, and a place for a restored one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.original = small_store(folder / "store")
        self.backups = MemoryStore(ManualClock(), f"backups of {folder}")
        with open_store(self.original) as store:
            self.manifest, _ = back_up(self.original, store.context, folder / "backup", self.backups)
        with closing(SqliteLog(folder / "backup" / METADATA_FILE, create=False)) as log:
            self.image = image_at(log)
        self.new = self.settings("new")

    def settings(self, name: str) -> StoreSettings:
        place = self.folder / name
        return StoreSettings(place, f"sqlite://{place}/metadata.sqlite", {0: (place / "bucket").as_uri()})

    def restore(self, sources=None, settings: StoreSettings | None = None, **point):
        settings = settings or self.new
        target = open_bucket(settings.buckets[0], create=True)
        sources = [self.backups] if sources is None else sources
        return restore(
            self.folder / "backup", settings, target, sources, ManualClock(), seeded_randomness(1), **point
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_restored_store_is_whole_and_has_the_same_streams(place: Place) -> None:
    before = {path: path.read_bytes() for path in object_files(place.original.folder)}
    done = place.restore()
    with open_store(place.new) as store:
        image = store.metadata.image
        assert check(store.context).findings == ()
    assert done.version == place.image.version and image.version == done.version + 1
    assert dict(image.streams) == dict(place.image.streams)
    origin = json.loads(image.keys[RESTORED_KEY])
    assert (origin["store"], origin["version"]) == (place.manifest.store_id, done.version)
    for path, content in before.items():
        assert path.read_bytes() == content
        copy = place.new.folder / path.relative_to(place.original.folder)
        assert copy.read_bytes() == content


def test_an_earlier_version_has_its_objects_alone(place: Place) -> None:
    """The version before the last commit of an object."""
    last = max(each.committed_ms for each in place.image.objects.values())
    versions = range(place.image.version)
    counts = {}
    for version in versions:
        settings = place.settings(f"at-{version}")
        counts[version] = place.restore(settings=settings, version=version).objects.count
        with open_store(settings) as store:
            assert check(store.context).findings == ()
    assert counts[0] == 0 and sorted(counts.values()) == list(counts.values())
    assert len(set(counts.values())) > 2
    at = place.restore(settings=place.settings("before"), time_ms=last - 1)
    assert at.objects.count <= len(place.image.objects) and at.version < place.image.version
    with pytest.raises(VersionNotHeld):
        place.restore(version=place.image.version + 1)


def test_a_time_before_the_store_is_refused_with_the_first_there_is(place: Place) -> None:
    with pytest.raises(TimeNotHeld, match="does not reach back to 1970-01-01"):
        place.restore(settings=place.settings("before"), time_ms=1)
    assert not (place.settings("before").folder / "metadata.sqlite").exists()


@pytest.mark.parametrize("there", ["metadata", "object"])
def test_nothing_is_restored_over_a_store(place: Place, there: str) -> None:
    place.restore()
    if there == "object":
        (place.new.folder / METADATA_FILE).unlink()
    before = {path: path.read_bytes() for path in place.new.folder.rglob("*") if path.is_file()}
    with pytest.raises(RestoreRefused, match=r"exists|is not empty"):
        place.restore()
    assert {path: path.read_bytes() for path in place.new.folder.rglob("*") if path.is_file()} == before


def test_objects_come_from_any_bucket_of_the_store_and_from_no_other(place: Place) -> None:
    other = Place(place.folder / "other")
    gone = open_bucket((place.folder / "nowhere").as_uri(), is_opened_later=True)
    with pytest.raises(RestoreRefused, match="there is no bucket to restore objects from"):
        place.restore([other.backups, gone])
    with pytest.raises(RestoreRefused, match="none is named"):
        place.restore([])
    done = place.restore([gone, other.backups, open_bucket(place.original.buckets[0])])
    assert done.objects.count == len(place.image.objects)


def test_a_point_whose_objects_are_gone_is_refused_and_makes_no_store(place: Place) -> None:
    object_files(place.original.folder)[1].unlink()
    with pytest.raises(ObjectsNotKept) as found:
        place.restore([open_bucket(place.original.buckets[0])])
    assert found.value.object_ids == (sorted(place.image.objects)[1],) and "t0" in str(found.value)
    assert not (place.new.folder / METADATA_FILE).exists()


def test_a_backup_that_does_not_fit_together_is_refused(place: Place) -> None:
    manifest = read_manifest(place.folder / "backup")
    (place.folder / "backup" / MANIFEST_FILE).write_bytes(
        encode_manifest(replace(manifest, append_id="00" * 16))
    )
    with pytest.raises(DamagedBackup, match="use another backup"):
        place.restore()
    (place.folder / "backup" / MANIFEST_FILE).unlink()
    with pytest.raises(DamagedBackup, match="is no complete backup"):
        place.restore()


def test_postgresql_is_no_place_for_a_restored_store(place: Place) -> None:
    settings = replace(place.new, metadata="postgresql://user@host/database?schema=x")
    with pytest.raises(RestoreRefused, match="siltstone metadata copy"):
        place.restore(settings=settings)


def test_the_backup_itself_is_not_changed(place: Place) -> None:
    shutil.copytree(place.folder / "backup", place.folder / "kept")
    place.restore()
    for path in (place.folder / "kept").iterdir():
        if path.name in (MANIFEST_FILE, METADATA_FILE):
            assert path.read_bytes() == (place.folder / "backup" / path.name).read_bytes()
