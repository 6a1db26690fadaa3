"""Copies of objects: every prepared copy is deleted, every added copy is read, and a loss has a record of its own."""

from typing import Any

import pytest

from siltstone.metadata.buckets import (
    AddBucket,
    RegisterBuckets,
    RemoveBucket,
    SetBucketState,
    SetWriteStrategy,
    bucket_list_of,
)
from siltstone.metadata.commands import CommitUpload, ForgetObjects, PrepareObjects, TrimStream
from siltstone.metadata.copies import AcceptLoss, AddCopies, GiveUpBucket, PrepareCopies, WithdrawCopies
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.refusals import (
    BucketInUse,
    BucketNotListed,
    BucketNotWritable,
    CommandMalformed,
    CoverageNotMatched,
    JobNotRunning,
    LastWritableBucket,
    ObjectNotExist,
    StrategyNotAvailable,
)
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.model.buckets import BucketState, StrategyType, WriteStrategy
from siltstone.model.objects import ObjectState
from support.metadata.metadata_world import HOUR_MS, MetadataWorld, new_object

GRACE_MS = 600_000
REPLICATION = WriteStrategy(StrategyType.REPLICATION, copies=2)


@pytest.fixture
def world() -> MetadataWorld:
    """Makes buckets 0, 1 and 2 under replication with two copies, a node, and stream 0."""
    made = MetadataWorld()
    made.do(RegisterBuckets({0: "memory:0"}, 0))
    for number in (1, 2):
        made.do(AddBucket(f"memory:{number}"))
        made.do(SetBucketState(number, BucketState.WRITABLE))
    made.do(SetWriteStrategy(REPLICATION))
    made.register(0)
    made.open_stream()
    return made


def upload(
    world: MetadataWorld, start: int, *bucket_ids: int, standing: tuple[int, ...] | None = None
) -> int:
    """Commits an object of ten offsets, prepared for these buckets, and put into ``standing`` of them. Returns its
    id."""
    first, *copies = bucket_ids
    object_id = world.do(PrepareObjects(1, HOUR_MS, first, 0, 1, copies=tuple(copies)))
    new = new_object(object_id, (0, start, start + 10))
    there = bucket_ids if standing is None else standing
    world.do(CommitUpload(0, 1, None, (type(new)(new.object_id, new.size_bytes, new.ranges, there),)))
    return object_id


def found(world: MetadataWorld, object_id: int) -> ObjectMetadata:
    return world.image.objects[object_id]


def refused(world: MetadataWorld, command: Any, cause: type[Exception]) -> None:
    assert isinstance(world.answer(command), cause), world.answer(command)


def test_b20_an_object_without_copies_is_in_its_bucket_alone(world: MetadataWorld) -> None:
    one = found(world, upload(world, 0, 1))
    assert (one.bucket_ids, one.every_bucket_id) == ((1,), (1,))


def test_what_is_prepared_counts_only_when_it_is_committed(world: MetadataWorld) -> None:
    world.do(PrepareObjects(2, HOUR_MS, 0, 0, 1, copies=(1, 2)))
    assert [(found(world, each).bucket_ids, found(world, each).uncertain) for each in (0, 1)] == [
        ((0,), (1, 2))
    ] * 2
    one = found(world, upload(world, 0, 0, 1))
    assert (one.bucket_ids, one.uncertain) == ((0, 1), ())


def test_an_objects_own_bucket_may_be_among_those_of_the_copies(world: MetadataWorld) -> None:
    world.do(PrepareObjects(2, HOUR_MS, node_id=0, node_epoch=1, bucket_ids=(0, 1), copies=(0, 1)))
    assert [found(world, each).every_bucket_id for each in (0, 1)] == [(0, 1), (1, 0)]


def test_b10_a_commit_names_the_copies_that_stand(world: MetadataWorld) -> None:
    one = found(world, upload(world, 0, 0, 1, 2, standing=(1, 2)))
    assert (one.bucket_ids, one.uncertain) == ((1, 2), (0,)), "the first of them did not"
    one = found(world, upload(world, 10, 0, 1, 2, standing=(0,)))
    assert (one.bucket_ids, one.uncertain) == ((0,), (1, 2))


def test_a_commit_cannot_name_a_bucket_that_was_not_prepared(world: MetadataWorld) -> None:
    object_id = world.do(PrepareObjects(1, HOUR_MS, 0, 0, 1, copies=(1,)))
    new = new_object(object_id, (0, 0, 10))
    there = type(new)(new.object_id, new.size_bytes, new.ranges, (0, 2))
    refused(world, CommitUpload(0, 1, None, (there,)), CommandMalformed)


def test_copies_are_prepared_in_writable_buckets_once_each(world: MetadataWorld) -> None:
    refused(world, PrepareObjects(1, HOUR_MS, 0, 0, 1, copies=(1, 1)), CommandMalformed)
    world.do(SetBucketState(2, BucketState.READ_ONLY))
    refused(world, PrepareObjects(1, HOUR_MS, 0, 0, 1, copies=(2,)), BucketNotWritable)


def test_a_strategy_needs_as_many_buckets_as_copies_and_keeps_them(world: MetadataWorld) -> None:
    refused(world, SetWriteStrategy(WriteStrategy(StrategyType.REPLICATION, copies=4)), StrategyNotAvailable)
    refused(world, SetWriteStrategy(WriteStrategy(StrategyType.REPLICATION, copies=1)), CommandMalformed)
    refused(world, SetWriteStrategy(WriteStrategy(StrategyType.FAILOVER, copies=2)), CommandMalformed)
    world.do(SetBucketState(2, BucketState.READ_ONLY))
    refused(world, SetBucketState(1, BucketState.DRAINING), LastWritableBucket)
    world.do(SetWriteStrategy(WriteStrategy(StrategyType.REPLICATION, copies=2, copies_min=1)))
    world.do(SetBucketState(1, BucketState.DRAINING))
    world.do(SetWriteStrategy(WriteStrategy()))
    assert bucket_list_of(world.image).has_copies, "for ever: there may be some"


def test_b26_a_copy_is_added_unless_its_object_is_gone(world: MetadataWorld) -> None:
    job = world.start_job("copies")
    kept, gone = upload(world, 0, 0), upload(world, 10, 0)
    assert world.do(PrepareCopies(job, (kept, gone, 99), 1)) == (kept, gone)
    assert world.do(PrepareCopies(job, (kept, gone), 1)) == (kept, gone), "again"
    assert found(world, kept).uncertain == (1,)
    world.do(TrimStream(0, 1, 0, 0, 20))
    world.do(world.compaction(job, (gone,)))
    refused(world, AddCopies(job, (gone,), 1), ObjectNotExist)
    assert found(world, gone).every_bucket_id == (0, 1), "it is deleted there, too"
    world.do(AddCopies(job, (kept,), 1))
    version = world.image.version
    world.do(AddCopies(job, (kept,), 1))
    assert (found(world, kept).bucket_ids, world.image.version) == ((0, 1), version)
    refused(world, AddCopies(job, (kept,), 2), ObjectNotExist)
    refused(world, PrepareCopies(job + 1, (kept,), 2), JobNotRunning)


def test_a_copy_that_is_withdrawn_counts_no_more_and_the_last_one_stays(world: MetadataWorld) -> None:
    one = upload(world, 0, 0, 1)
    assert world.do(WithdrawCopies((one, 99), 0)) == (one,)
    assert (found(world, one).bucket_ids, found(world, one).uncertain) == ((1,), (0,))
    assert world.do(WithdrawCopies((one,), 1)) == ()
    assert world.do(PrepareCopies(world.start_job("copies"), (one,), 0)) == (one,), (
        "it may be put there again"
    )


def test_b14_a_bucket_is_not_removed_while_a_copy_may_be_there(world: MetadataWorld) -> None:
    upload(world, 0, 0, 1, 2, standing=(0, 1))
    world.do(SetBucketState(2, BucketState.DRAINING))
    refused(world, RemoveBucket(2), BucketInUse)


def test_snapshots_have_copies(world: MetadataWorld) -> None:
    upload(world, 0, 0, 1, 2, standing=(2, 0))
    upload(world, 10, 1)
    chunks = [*encode_snapshot(world.image)]
    assert decode_snapshot(world.image.version, chunks) == world.image


def lose(world: MetadataWorld, bucket_id: int) -> int:
    world.do(SetBucketState(bucket_id, BucketState.READ_ONLY))
    return world.start_job("copies")


def test_objects_with_other_copies_go_on_without_a_lost_bucket(world: MetadataWorld) -> None:
    kept = upload(world, 0, 0, 1)
    uncertain = upload(world, 10, 0, 1, standing=(1,))
    dying = upload(world, 20, 0)
    waiting = world.do(PrepareObjects(1, HOUR_MS, 0, 0, 1))
    refused(world, GiveUpBucket(0), BucketInUse)
    job = lose(world, 0)
    refused(world, GiveUpBucket(0), BucketInUse)
    world.do(TrimStream(0, 1, 0, 0, 30))
    world.do(world.compaction(job, (dying,)))
    world.do(GiveUpBucket(0))
    assert found(world, kept).every_bucket_id == found(world, uncertain).every_bucket_id == (1,)
    assert dying not in world.image.objects and waiting not in world.image.objects
    assert bucket_list_of(world.image).removed == {0}
    version = world.image.version
    world.do(GiveUpBucket(0))
    assert world.image.version == version
    refused(world, GiveUpBucket(7), BucketNotListed)


def test_a_destroyed_object_that_may_be_elsewhere_is_deleted_there(world: MetadataWorld) -> None:
    one = upload(world, 0, 0, 1, standing=(0,))
    job = lose(world, 0)
    world.do(TrimStream(0, 1, 0, 0, 10))
    world.do(world.compaction(job, (one,)))
    world.do(GiveUpBucket(0))
    assert found(world, one).state is ObjectState.DESTROYED and found(world, one).every_bucket_id == (1,)
    world.now_ms += GRACE_MS
    world.do(ForgetObjects((one,), GRACE_MS))


def replacement(world: MetadataWorld, job: int, start: int, end: int) -> Any:
    return new_object(world.prepare_for_job(job), (0, start, end))


def test_the_only_copies_are_given_up_by_a_record_of_their_own(world: MetadataWorld) -> None:
    lost, kept = upload(world, 0, 2), upload(world, 10, 0, 2)
    job = world.start_job("copies")
    new = replacement(world, job, 0, 10)
    refused(world, AcceptLoss(job, 2, (lost,), (), (new,)), BucketInUse)
    world.do(SetBucketState(2, BucketState.READ_ONLY))
    refused(world, AcceptLoss(job, 2, (kept,), (), (new,)), BucketInUse)
    refused(world, AcceptLoss(job, 2, (lost,), (), (replacement(world, job, 0, 9),)), CoverageNotMatched)
    refused(world, AcceptLoss(job, 2, (), (), (new,)), CommandMalformed)
    world.do(AcceptLoss(job, 2, (lost,), (), (new,)))
    version = world.image.version
    world.do(AcceptLoss(job, 2, (lost,), (), (new,)))
    assert world.image.version == version
    assert world.held(0) == [(new.object_id, 0, 10), (kept, 10, 20)]
    world.do(GiveUpBucket(2))
    assert lost not in world.image.objects and found(world, kept).bucket_ids == (0,)
