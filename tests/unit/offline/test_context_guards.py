"""Rule 11: what is checked before a bucket is written to."""

import pytest

from siltstone.metadata.commands import CreateStream
from siltstone.metadata.store_id import put_claimed_url, put_store_id, store_id_of
from siltstone.model.errors import Unavailable
from siltstone.object_store.bucket_identity import BucketMissing, BucketOfAnotherStore, mark
from siltstone.object_store.metadata_mark import MetadataMark, MetadataOlderThanBucket, key_of_mark
from siltstone.offline.context import (
    MaintenanceContext,
    check_may_write,
    check_metadata_is_newest,
    newest_state,
)
from siltstone.runtime.randomness import seeded_randomness
from support.maintenance.compaction_world import CompactionWorld


@pytest.fixture
def world() -> CompactionWorld:
    made = CompactionWorld()
    made.metadata.execute(put_store_id(seeded_randomness(1)))
    return made


def marked(world: CompactionWorld) -> MaintenanceContext:
    mark(world.store, store_id_of(world.metadata.image))
    return world.context


def test_before_a_store_has_an_id_nothing_is_checked() -> None:
    context = CompactionWorld().context
    assert context.guard(0) is None
    check_may_write(context, 0)
    assert not context.guards and not context.is_admitted


def test_a_bucket_has_one_guard_which_admits_the_metadata_that_it_has_seen(world: CompactionWorld) -> None:
    context = marked(world)
    assert not context.is_admitted
    assert context.guard(0) is context.guard(0)
    assert not context.is_admitted
    check_may_write(context, 0)
    assert context.is_admitted


def test_the_newest_state_is_that_at_the_head_of_the_log(world: CompactionWorld) -> None:
    world.another_context().metadata.execute(CreateStream(0, 1))
    head = newest_state(world.metadata)
    log = world.log.head()
    assert head == MetadataMark(log.version, world.metadata.image.next_object_id, log.append_id)


def test_a_bucket_of_another_store_is_refused(world: CompactionWorld) -> None:
    mark(world.store, "f" * 32)
    with pytest.raises(BucketOfAnotherStore):
        check_may_write(world.context, 0)
    check_metadata_is_newest(world.context)
    assert not world.context.is_admitted


def test_a_bucket_that_was_exchanged_for_an_empty_one_is_refused(world: CompactionWorld) -> None:
    world.metadata.execute(put_claimed_url(0, world.store.url))
    for check in (check_may_write, lambda context, _: check_metadata_is_newest(context)):
        with pytest.raises(BucketMissing):
            check(world.context, 0)
    check_may_write(marked(world), 0)


def test_a_bucket_that_has_seen_newer_metadata_is_refused(world: CompactionWorld) -> None:
    context = marked(world)
    version = world.metadata.image.version
    check_may_write(context, 0)
    world.store.put(key_of_mark(MetadataMark(version + 5, 0)), [b""])
    older = world.another_context()
    older.metadata.refresh()
    for check in (check_may_write, lambda each, _: check_metadata_is_newest(each)):
        with pytest.raises(MetadataOlderThanBucket, match=f"version {version + 5} of this store's metadata"):
            check(older, 0)


def test_a_bucket_out_of_reach_stops_no_run(world: CompactionWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    context = marked(world)

    def unreachable(*_: object, **__: object) -> None:
        raise Unavailable("no bucket")

    monkeypatch.setattr(world.store, "list", unreachable)
    monkeypatch.setattr(world.store, "get_range", unreachable)
    with pytest.raises(Unavailable):
        check_may_write(context, 0)
    check_metadata_is_newest(context)
    assert not context.is_admitted


def test_the_space_is_measured_with_the_quota(world: CompactionWorld) -> None:
    assert world.context.space() == world.context.space()
    assert world.context.space() is not None
