"""The sweep of multipart uploads that nobody completes."""

import pytest

from siltstone.maintenance.sweep.sweeping import _Deleted, sweep
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import object_key
from support.maintenance.maintained_store import MaintainedStore
from support.maintenance.sweep_tests import destroyed_long_ago, uploads_of
from support.values.left_out import numbers_left_out


def test_forsaken_uploads_are_aborted_and_live_ones_never() -> None:
    world = MaintainedStore((0, 1))
    committed = world.append(world.new_stream())
    (forgotten,) = destroyed_long_ago(world, 1)[0]
    sweep(world.context)
    (destroyed,) = world.destroyed(1)
    prepared = world.prepare(1, time_limit_ms=1_000)
    forsaken = [world.store.start_multipart(object_key(each)) for each in (committed, forgotten, destroyed)]
    forsaken.append(world.store.start_multipart(object_key(committed)))
    live = [world.store.start_multipart(object_key(prepared)) for _ in range(2)]
    report = sweep(world.context)
    assert report.uploads_aborted == 4
    assert uploads_of(world) == set(live)
    assert set(world.store.details("abort_multipart")) == set(forsaken)
    world.clock.advance_ms(1_000)
    assert sweep(world.context).uploads_aborted == 2, "given up with its object, at once"
    assert uploads_of(world) == set()


def test_foreign_objects_and_uploads_are_left_alone() -> None:
    world = MaintainedStore()
    destroyed_long_ago(world, 1)
    beyond = object_key(world.image.next_object_id)
    for key in ("backup/of/something", "objects/00000000000000000000", beyond):
        world.store.put(key, [b"not ours"])
        world.store.start_multipart(key)
    keys, uploads = world.keys() - {object_key(0)}, uploads_of(world)
    world.clock.advance_ms(100 * HOUR_MS)
    assert sweep(world.context, 0).uploads_aborted == 0
    assert (world.keys(), uploads_of(world)) == (keys, uploads)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_upload_started_while_the_sweep_looks_is_left_alone(moment: str) -> None:
    """Before the listing is made, or between listing and image; in either case by a client this one has not seen."""
    world = MaintainedStore()

    def begin(name: str, key: str) -> None:
        if name == "list_multipart":
            world.store.start_multipart(object_key(world.prepare()))

    context = world.another_context()
    setattr(world.store, moment, begin)
    assert sweep(context).uploads_aborted == 0
    assert len(uploads_of(world)) == 1


def test_an_upload_that_ends_while_the_sweep_looks_is_no_trouble() -> None:
    world = MaintainedStore()
    object_id = world.prepare()
    upload = world.store.start_multipart(object_key(object_id))

    def complete(name: str, key: str) -> None:
        if name == "list_multipart":
            part = world.store.upload_part(upload, 1, 0, [b"whole"])
            world.store.complete_multipart(upload, [part])

    world.store.after = complete
    assert sweep(world.context).uploads_aborted == 0
    assert world.keys() == {object_key(object_id)}


def test_buckets_with_uploads_are_looked_through_even_when_no_object_is_due() -> None:
    world = MaintainedStore((0, 1))
    committed = world.append(world.new_stream(), bucket_id=1)
    world.stores[1].start_multipart(object_key(committed))
    assert sweep(world.context).uploads_aborted == 1
    assert world.keys(1) == {object_key(committed)}


def test_what_is_left_out() -> None:
    assert numbers_left_out(_Deleted) == {"objects": 0, "size_bytes": 0, "requests": 0}
