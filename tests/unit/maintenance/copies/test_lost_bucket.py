"""A bucket is lost for good: offsets that were only there are dropped by records that name them, and everything else
stays."""

from itertools import pairwise
from types import SimpleNamespace

import pytest

from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.maintenance.copies import lost_bucket
from siltstone.maintenance.copies.lost_bucket import (
    BucketAnswers,
    emptied,
    give_up,
    kept_objects,
    lost_ranges,
    refuse_unless_lost,
)
from siltstone.metadata.buckets import SetWriteStrategy, bucket_list_of
from siltstone.metadata.commands import PutKey
from siltstone.metadata.refusals import BucketNotListed, LastWritableBucket
from siltstone.metadata.store_id import STORE_ID_KEY
from siltstone.model.buckets import WriteStrategy
from siltstone.model.objects import ObjectRange
from siltstone.object_formats.batch_frame import decode_frames
from siltstone.object_store.bucket_identity import mark
from siltstone.offline.topic_streams import Role
from support.maintenance.copied_world import CopiedWorld

STORE_ID = "00112233445566778899aabbccddeeff"


def vanish(world: CopiedWorld, bucket_id: int) -> None:
    """Replaces the disk by another, empty one."""
    store = world.stores[bucket_id].store
    store.delete([each.key for each in store.list()])


def filled(world: CopiedWorld) -> tuple[int, int, int]:
    """Uploads an object into buckets 0 and 1, then a stream set object of two streams into bucket 0 alone."""
    (kept,) = world.upload({0: [(0, 5, 300)]})
    world.repaired()
    world.set_strategy(2, 1)
    lost, after = world.upload({0: [(5, 9, 300), (9, 12, 300)], 1: [(0, 4, 300)]}, {0: [(12, 15, 300)]})
    world.metadata.execute(SetWriteStrategy(WriteStrategy()))
    return kept, lost, after


def test_the_ranges_that_were_only_there_are_listed_and_nothing_is_changed(world: CopiedWorld) -> None:
    _, lost, after = filled(world)
    image = world.metadata.refresh()
    found = [
        (each.object_id, each.stream_id, each.start_offset, each.end_offset) for each in lost_ranges(image, 0)
    ]
    assert found == [(lost, 0, 5, 12), (after, 0, 12, 15), (lost, 1, 0, 4)]
    assert kept_objects(image, 0) == 1 and [*lost_ranges(image, 1)] == []


def test_the_ranges_are_listed_by_partition_and_those_of_no_partition_first(
    world: CopiedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(world)
    image = world.metadata.refresh()
    of_streams = {
        each: SimpleNamespace(name=name, role=Role.BATCHES) for each, name in enumerate(("z-0", "a-0"))
    }
    for known, expected in ((of_streams, ["a-0", "z-0", "z-0"]), ({0: of_streams[0]}, [None, "z-0", "z-0"])):
        monkeypatch.setattr(lost_bucket, "topic_streams", lambda _, known=known: known)
        assert [each.partition for each in lost_bucket.lost_ranges(image, 0)] == expected


def test_what_was_only_there_is_given_up_and_the_store_is_clean_afterwards(world: CopiedWorld) -> None:
    kept, lost, _ = filled(world)
    records = world.records({kept})
    vanish(world, 0)
    told: list[tuple[int, int | None]] = []
    done = give_up(world.context, 0, lambda *each: told.append(each))
    assert len(done.lost) == 3 and done.kept_objects == 1 and told == [(1, 2), (2, 2)]
    image = world.metadata.refresh()
    assert world.places(kept) == (1,) and lost not in image.objects
    assert bucket_list_of(image).removed == {0}
    world.assert_sound()
    left = {
        stream: [each for each in held if each[2] and read_batch_header(memoryview(each[2])).record_count]
        for stream, held in world.records().items()
        if stream == 1
    }
    assert left == {1: []}, "every offset is covered, by batches without records"
    assert [(each[0], each[1]) for each in world.records()[0]] == [(0, 5), (5, 12), (12, 15)]
    assert records[0][0] == world.records()[0][0]


def test_afterwards_the_number_of_copies_comes_back(world: CopiedWorld) -> None:
    kept, *_ = filled(world)
    vanish(world, 0)
    give_up(world.context, 0)
    world.set_strategy(2)
    world.repaired()
    assert all(len(each.bucket_ids) == 2 for each in world.metadata.refresh().objects.values() if each.ranges)
    assert world.copy(kept, 1) == world.copy(kept, 2)
    world.assert_sound()


def test_nothing_is_lost_if_other_buckets_have_it(world: CopiedWorld) -> None:
    (one,) = world.upload({0: [(0, 5, 300)]})
    world.repaired()
    records = world.records()
    vanish(world, 0)
    done = give_up(world.context, 0)
    assert done.lost == () and done.kept_objects == 1
    assert world.places(one) == (1,) and world.records() == records
    world.assert_sound()


def test_it_may_be_repeated(world: CopiedWorld) -> None:
    filled(world)
    vanish(world, 0)
    give_up(world.context, 0)
    with pytest.raises(BucketNotListed):
        give_up(world.context, 0)
    world.assert_sound()


def test_a_bucket_that_answers_is_drained_and_not_given_up(world: CopiedWorld) -> None:
    world.metadata.execute(PutKey(STORE_ID_KEY, STORE_ID.encode()))
    mark(world.stores[0].store, STORE_ID, 0)
    with pytest.raises(BucketAnswers, match="siltstone buckets drain 0"):
        give_up(world.context, 0)
    vanish(world, 0)
    refuse_unless_lost(world.context, 0)


def test_new_objects_need_buckets_first(world: CopiedWorld) -> None:
    world.set_strategy(3)
    vanish(world, 2)
    with pytest.raises(LastWritableBucket, match="add another one first"):
        give_up(world.context, 2)


def test_a_range_of_more_offsets_than_a_batch_of_kafka_can_name() -> None:
    held = ObjectRange(3, 7, 5, 2**33, 10, 77)
    made = emptied([held])
    batches = [*decode_frames(b"".join(made.buffers[:-1]))]
    assert (batches[0].base_offset, batches[-1].end_offset) == (5, 2**33)
    assert all(before.end_offset == after.base_offset for before, after in pairwise(batches))
    headers = [read_batch_header(memoryview(bytes(each.payload))) for each in batches]
    assert {(each.record_count, each.max_timestamp_ms) for each in headers} == {(0, 77)}
    assert [each.base_offset + each.last_offset_delta + 1 for each in headers] == [
        each.end_offset for each in batches
    ]
