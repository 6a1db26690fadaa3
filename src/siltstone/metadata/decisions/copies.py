"""Decides the commands about copies of objects in several buckets: a further copy is prepared and added (B26), objects
that were only in a lost bucket are replaced, and the bucket is given up.

The metadata names every copy before it is put, so a copy is deleted with its object even if its put had an unknown
outcome (B24). Lost data is dropped by records of its own (rule 4): RangesLost names the offsets, and the objects that
hold these offsets afterwards have no records.
"""

from collections.abc import Iterable

from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.copies import AcceptLoss, AddCopies, GiveUpBucket, PrepareCopies, WithdrawCopies
from siltstone.metadata.decisions.buckets import check_buckets_writable, refuse_log_in, removal
from siltstone.metadata.decisions.coverage import check_coverage
from siltstone.metadata.decisions.fences import Decision, running_job
from siltstone.metadata.decisions.new_objects import (
    NewObjects,
    check_form,
    check_waiting,
    commitment,
    committed_sources,
    destruction,
    was_done,
)
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import ImageView
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.records import (
    BucketLost,
    CopiesAdded,
    CopiesPrepared,
    CopiesUncertain,
    ObjectsForgotten,
    RangesLost,
)
from siltstone.metadata.refusals import BucketInUse, BucketNotListed, CommandMalformed, ObjectNotExist
from siltstone.model.limits import COMPACTION_STREAM_OBJECTS_MAX
from siltstone.model.objects import ObjectKind, ObjectState


def decide_prepare_copies(view: ImageView, command: PrepareCopies, now_ms: int) -> Decision[tuple[int, ...]]:
    running_job(view, command.job_id)
    check_buckets_writable(view, (command.bucket_id,))
    wanted = [
        found
        for object_id in sorted(set(command.object_ids))
        if (found := committed_object(view, object_id)) is not None
        and command.bucket_id not in found.bucket_ids
    ]
    new = tuple(each.object_id for each in wanted if command.bucket_id not in each.uncertain)
    records = (CopiesPrepared(new, command.bucket_id),) if new else ()
    return Decision(records, tuple(each.object_id for each in wanted))


def decide_add_copies(view: ImageView, command: AddCopies, now_ms: int) -> Decision[None]:
    """Decides to add copies. A copy of an object that was destroyed meanwhile is refused: a sweep may have deleted it
    before it was put, and would not look for it again."""
    wanted = sorted(set(command.object_ids))
    found = {each: committed_object(view, each) for each in wanted}
    if all(each is not None and command.bucket_id in each.bucket_ids for each in found.values()):
        return Decision((), None)
    running_job(view, command.job_id)
    gone = [
        each for each, held in found.items() if held is None or command.bucket_id not in held.every_bucket_id
    ]
    if gone:
        raise ObjectNotExist(
            f"objects {gone[:10]} have no place for a copy in bucket {command.bucket_id}: they were compacted or"
            " destroyed meanwhile; delete the copy"
        )
    new = tuple(each for each, held in found.items() if held and command.bucket_id in held.uncertain)
    return Decision((CopiesAdded(new, command.bucket_id),), None)


def decide_withdraw_copies(
    view: ImageView, command: WithdrawCopies, now_ms: int
) -> Decision[tuple[int, ...]]:
    withdrawn = tuple(
        object_id
        for object_id in sorted(set(command.object_ids))
        if (found := committed_object(view, object_id)) is not None
        and found.copies
        and command.bucket_id in found.bucket_ids
    )
    records = (CopiesUncertain(withdrawn, command.bucket_id),) if withdrawn else ()
    return Decision(records, withdrawn)


def decide_accept_loss(view: ImageView, command: AcceptLoss, now_ms: int) -> Decision[None]:
    objects = NewObjects(
        (
            *((ObjectKind.STREAM_SET_OBJECT, new) for new in command.stream_set_objects),
            *((ObjectKind.STREAM_OBJECT, new) for new in command.stream_objects),
        )
    )
    if not command.lost or not 1 <= len(objects.members) <= COMPACTION_STREAM_OBJECTS_MAX:
        raise CommandMalformed(
            f"{len(command.lost)} lost objects are replaced by {len(objects.members)}; name at least one of each, and"
            f" at most {COMPACTION_STREAM_OBJECTS_MAX} new ones"
        )
    check_form(objects)
    if was_done(view, objects.ids):
        return Decision((), None)
    running_job(view, command.job_id)
    _refuse_writable(view, command.bucket_id)
    sources = committed_sources(view, command.lost)
    if elsewhere := [each.object_id for each in sources if each.bucket_ids != (command.bucket_id,)]:
        raise BucketInUse(
            f"objects {elsewhere[:10]} are not in bucket {command.bucket_id} alone: they are not lost with it"
        )
    check_waiting(view, objects.ids, now_ms)
    ranges = tuple(held for source in sources for held in source.ranges)
    check_coverage(view, ranges, objects.ranges())
    lost = RangesLost(
        command.bucket_id, tuple((held.stream_id, held.start_offset, held.end_offset) for held in ranges)
    )
    data_time_ms = min(source.data_time_ms for source in sources)
    # The old ranges must be removed first: the new ranges hold the same offsets.
    left = destruction(view, [source.object_id for source in sources], now_ms)
    return Decision((lost, *left, *commitment(view, objects, data_time_ms, now_ms)), None)


def decide_give_up_bucket(view: ImageView, command: GiveUpBucket, now_ms: int) -> Decision[None]:
    listed = bucket_list_of(view)
    lost_id = command.bucket_id
    if lost_id in listed.removed:
        return Decision((), None)
    found = listed.bucket(lost_id)
    if found is None:
        raise BucketNotListed(f"there is no bucket {lost_id}")
    _refuse_writable(view, lost_id)
    refuse_log_in(view, lost_id)
    only_there = only_in_bucket(view.objects.values(), lost_id)
    committed = sum(each.state is ObjectState.COMMITTED for each in only_there)
    if committed:
        raise BucketInUse(
            f"bucket {lost_id} has the only copy of {committed:,} committed objects; accept their loss first"
        )
    prepared = [each.object_id for each in only_there if each.state is ObjectState.PREPARED]
    forgotten = tuple(sorted(each.object_id for each in only_there if not each.uncertain))
    return Decision(
        (
            *destruction(view, prepared, now_ms),
            *((ObjectsForgotten(forgotten),) if forgotten else ()),
            BucketLost(lost_id),
            *removal(listed, found),
        ),
        None,
    )


def only_in_bucket(objects: Iterable[ObjectMetadata], bucket_id: int) -> list[ObjectMetadata]:
    """Returns the objects, in any state, without a copy that counts in another bucket."""
    return [each for each in objects if each.bucket_ids == (bucket_id,)]


def _refuse_writable(view: ImageView, bucket_id: int) -> None:
    """Raises BucketInUse if new objects may be put into the bucket: none may appear there once it is given up."""
    found = bucket_list_of(view).bucket(bucket_id)
    if found is not None and found.is_writable:
        raise BucketInUse(f"bucket {bucket_id} takes new objects; make it read-only before it is given up")
