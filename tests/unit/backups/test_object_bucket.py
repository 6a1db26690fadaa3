"""A bucket for backups is that of one store, and never the bucket of a store."""

import pytest

from siltstone.backups.object_bucket import (
    BACKUP_MARKER_KEY,
    BackupBucketRefused,
    backed_up_store,
    claim_for_backups,
    refuse_objects_of_another,
)
from siltstone.object_formats.identity import DamagedIdentity
from siltstone.object_store.bucket_identity import mark
from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock

OURS, OTHERS = "ab" * 16, "cd" * 16


def bucket() -> MemoryStore:
    return MemoryStore(ManualClock(), "backups")


def test_the_first_store_has_the_bucket() -> None:
    place = bucket()
    assert backed_up_store(place) is None
    claim_for_backups(place, OURS)
    claim_for_backups(place, OURS)
    assert backed_up_store(place) == OURS
    with pytest.raises(BackupBucketRefused, match=f"has the objects of store {OURS}, this is store {OTHERS}"):
        claim_for_backups(place, OTHERS)
    refuse_objects_of_another(place, OURS)
    with pytest.raises(BackupBucketRefused):
        refuse_objects_of_another(place, OTHERS)


def test_the_bucket_of_a_store_takes_no_backups_and_gives_its_objects() -> None:
    place = bucket()
    mark(place, OURS)
    with pytest.raises(BackupBucketRefused, match="is the bucket of a store"):
        claim_for_backups(place, OURS)
    refuse_objects_of_another(place, OURS)
    with pytest.raises(BackupBucketRefused, match=f"has the objects of store {OURS}"):
        refuse_objects_of_another(place, OTHERS)


def test_a_bucket_of_nobody_gives_nothing() -> None:
    with pytest.raises(BackupBucketRefused, match="has no objects of a store"):
        refuse_objects_of_another(bucket(), OURS)


def test_a_damaged_marker_is_named() -> None:
    place = bucket()
    place.put(BACKUP_MARKER_KEY, [b"{"])
    with pytest.raises(DamagedIdentity):
        backed_up_store(place)
