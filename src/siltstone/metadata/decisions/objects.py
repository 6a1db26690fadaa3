"""Decides the commands about the life cycle of objects: prepare, expire, forget (T27). Commits are decided in other
files."""

from collections.abc import Iterator
from itertools import groupby

from siltstone.foundation.quantity_words import seconds_words
from siltstone.metadata.commands import ExpireObjects, ForgetObjects, PrepareObjects
from siltstone.metadata.decisions.buckets import check_buckets_writable
from siltstone.metadata.decisions.fences import Decision, check_node, running_job
from siltstone.metadata.decisions.new_objects import destruction
from siltstone.metadata.decisions.sinks import check_sink_driver
from siltstone.metadata.image import ImageView
from siltstone.metadata.lookup import expired_objects, grace_is_over, is_pinned, pinned_from
from siltstone.metadata.records import CopiesPrepared, ObjectsForgotten, ObjectsPrepared
from siltstone.metadata.refusals import CommandMalformed, GracePeriodRunning, ObjectNotDestroyed, ObjectPinned
from siltstone.metadata.sinks import sink_of


def decide_prepare_objects(view: ImageView, command: PrepareObjects, now_ms: int) -> Decision[int]:
    if command.count < 1 or command.time_limit_ms < 1:
        raise CommandMalformed(
            f"{command.count} objects cannot be prepared for {command.time_limit_ms} ms; prepare at least one object "
            "for at least one millisecond"
        )
    if command.bucket_ids and len(command.bucket_ids) != command.count:
        raise CommandMalformed(
            f"{command.count} objects are prepared for {len(command.bucket_ids)} buckets; give one for each object"
        )
    _check_requester(view, command)
    bucket_ids = command.bucket_ids or (command.bucket_id,)
    copies = command.copies
    if len(set(copies)) < len(copies):
        raise CommandMalformed(f"the buckets {list(copies)} of copies name a bucket twice")
    check_buckets_writable(view, (*bucket_ids, *copies))
    first_id = view.next_object_id
    deadline_ms = now_ms + command.time_limit_ms
    places = list(enumerate(command.bucket_ids or bucket_ids * command.count, first_id))
    further = tuple(
        CopiesPrepared(ids, bucket_id)
        for bucket_id in copies
        if (ids := tuple(object_id for object_id, first in places if first != bucket_id))
    )
    if len(set(bucket_ids)) == 1:
        return Decision(
            (ObjectsPrepared(first_id, command.count, bucket_ids[0], deadline_ms), *further), first_id
        )
    return Decision((*_prepared(first_id, bucket_ids, deadline_ms), *further), first_id)


def _prepared(first_id: int, bucket_ids: tuple[int, ...], deadline_ms: int) -> Iterator[ObjectsPrepared]:
    """Yields one record for each run of objects in the same bucket."""
    for bucket_id, run in groupby(bucket_ids):
        count = len([*run])
        yield ObjectsPrepared(first_id, count, bucket_id, deadline_ms)
        first_id += count


def _check_requester(view: ImageView, command: PrepareObjects) -> None:
    match command.node_id, command.node_epoch, command.job_id, command.sink_id:
        case int(node_id), int(node_epoch), None, None:
            check_node(view, node_id, node_epoch)
        case None, None, int(job_id), None:
            running_job(view, job_id)
        case None, None, None, str(sink_id):
            check_sink_driver(sink_id, sink_of(view, sink_id), command.sink_driver)
        case _:
            raise CommandMalformed(
                "objects are prepared for a node with its epoch, for a job or for a sink; give exactly one of them"
            )


def decide_expire_objects(view: ImageView, command: ExpireObjects, now_ms: int) -> Decision[tuple[int, ...]]:
    expired = tuple(expired_objects(view, now_ms, command.count_max, command.object_ids))
    return Decision(destruction(view, expired, now_ms), expired)


def decide_forget_objects(view: ImageView, command: ForgetObjects, now_ms: int) -> Decision[None]:
    """Checks rule 6 again, although the sweep has selected only objects that are due. A pin that was put after the
    sweep selected the objects holds none of them, so objects whose bytes are deleted can always be forgotten."""
    known = sorted({object_id for object_id in command.object_ids if object_id in view.objects})
    held_from = pinned_from(view)
    for object_id in known:
        _check_forgettable(view, object_id, now_ms, command.grace_period_ms)
        if is_pinned(view.objects[object_id], held_from):
            raise ObjectPinned(
                f"object {object_id} may still be read by a scan that was planned before it was destroyed; forget it "
                "when the scan's pin has ended"
            )
    return Decision((ObjectsForgotten(tuple(known)),) if known else (), None)


def _check_forgettable(view: ImageView, object_id: int, now_ms: int, grace_period_ms: int) -> None:
    destroyed_ms = view.destroyed.get(object_id)
    if destroyed_ms is None:
        raise ObjectNotDestroyed(
            f"object {object_id} is not destroyed; only destroyed objects may be forgotten"
        )
    if not grace_is_over(destroyed_ms, now_ms, grace_period_ms):
        left_ms = destroyed_ms + grace_period_ms - now_ms
        raise GracePeriodRunning(
            f"object {object_id} may still be read: its grace period ends in {seconds_words(left_ms / 1000)}; "
            "forget it then"
        )
