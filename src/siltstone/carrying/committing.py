"""The objects of a compaction, from their ids to their commit: ids are prepared, the new objects are copied from their
first bucket into the others under replication, and one commit replaces the old objects by them.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec

from siltstone.carrying.outcomes import ObjectCommit, settle
from siltstone.carrying.pipeline.kind import Attempt
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.commands import CommitCompaction, CommitKeyCompaction, NewObject, PrepareObjects
from siltstone.metadata.decisions.coverage import check_coverage
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.refusals import CompactedObjectsNotFound
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX
from siltstone.model.objects import object_key
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.output_buckets import OutputBuckets
from siltstone.offline.tasks.runner import RunFailed
from siltstone.offline.tasks.whole_copies import CODEC, WholeCopyInput, run_whole_copy

log = logging.getLogger(__name__)

FAILURES_SHOWN_MAX = 3
"""The most failures that a message lists: copies of many objects usually fail for one reason."""


AnyCommit: TypeAlias = CommitCompaction | CommitKeyCompaction


def prepare(
    context: MaintenanceContext, command: PrepareObjects, outputs: OutputBuckets | None = None
) -> int:
    """Prepares ids for new objects, under replication in all their buckets, and writes the mark of the metadata's
    version there (rule 11). Returns the first id. Raises TooFewBuckets, the Refusal, and what the metadata and the
    buckets raise."""
    copies = (outputs or OutputBuckets(context)).of_copies()
    command = msgspec.structs.replace(command, copies=copies)
    first_id = context.metadata.execute(command)
    end_of = {command.bucket_id: command.count} if not command.bucket_ids else {}
    end_of |= {bucket_id: number + 1 for number, bucket_id in enumerate(command.bucket_ids)}
    end_of |= dict.fromkeys(copies, command.count)
    for bucket_id, count in end_of.items():
        guard = context.guard(bucket_id)
        if guard is not None:
            guard.cover(first_id, count, context.metadata.image)
    return first_id


class Standing(msgspec.Struct, frozen=True):
    """The buckets in which a new object is. ``failure``: one line that says why they are too few."""

    bucket_ids: tuple[int, ...]
    failure: str = ""


def copy_outputs(attempt: Attempt, sizes: Mapping[int, int]) -> dict[int, Standing]:
    """Puts new objects, each of which is complete in its first bucket, into the further buckets for which it was
    prepared, before they are committed. ``sizes``: the size of each by id. Raises RunFailed, RunnerUnusable,
    Cancelled."""
    context = attempt.context
    image = context.metadata.image
    needed = bucket_list_of(image).strategy.copies_needed
    wanted = [(object_id, target) for object_id in sizes for target in image.objects[object_id].uncertain]
    store = context.buckets.store
    inputs = [
        CODEC.encode_input(
            WholeCopyInput(
                object_id=object_id,
                size_bytes=sizes[object_id],
                sources=((first := image.objects[object_id].bucket_id, store(first).url),),
                target_url=store(target).url,
            )
        )
        for object_id, target in wanted
    ]
    answers: list[bytes] = []
    if inputs:
        report_progress = attempt.watch.steps("copy outputs", sum(sizes[each] for each, _ in wanted))
        label = attempt.label([f"copy of object {each}" for each, _ in wanted])
        answers = attempt.start_runner().run(run_whole_copy, inputs, report_progress, label)
    places = {object_id: [image.objects[object_id].bucket_id] for object_id in sizes}
    failures: dict[int, str] = {}
    for (object_id, target), answer in zip(wanted, answers, strict=True):
        failure = CODEC.decode_result(answer).failure
        if failure is None:
            places[object_id].append(target)
        else:
            failures[object_id] = f"its copy in bucket {target} failed: {failure.reason}"
    return {
        object_id: Standing(
            tuple(places[object_id]), failures.get(object_id, "") if len(places[object_id]) < needed else ""
        )
        for object_id in sizes
    }


def with_copies(attempt: Attempt, objects: Sequence[NewObject]) -> tuple[NewObject, ...]:
    """Copies the objects into all their buckets, and returns them with the buckets in which they are. Raises RunFailed
    if one is in too few, and what ``copy_outputs`` raises."""
    standing = copy_outputs(attempt, {new.object_id: new.size_bytes for new in objects})
    if failures := [each.failure for each in standing.values() if each.failure]:
        raise RunFailed("; ".join(failures[:FAILURES_SHOWN_MAX]))
    return tuple(
        msgspec.structs.replace(new, bucket_ids=standing[new.object_id].bucket_ids) for new in objects
    )


def commit(context: MaintenanceContext, command: AnyCommit) -> None:
    """Commits the outputs of a compaction. Raises as ``settle``."""
    settle(
        context,
        ObjectCommit(
            command,
            f"the compaction of objects {list(command.compacted[:10])}",
            lambda: _delete_outputs(context, command),
            lambda: _check_coverage(context, command),
        ),
    )
    _note_version(context)


def _note_version(context: MaintenanceContext) -> None:
    """Marks in all buckets that objects were replaced, because an older copy of the metadata would delete the new
    objects. The commit remains whether or not that succeeds."""
    image = context.metadata.image
    for bucket_id in context.buckets.urls:
        guard = context.guard(bucket_id)
        if guard is not None:
            with suppress(SiltstoneError):
                guard.note(image)


def check_sources(image: MetadataImage, compacted: Sequence[int]) -> None:
    """Raises CompactedObjectsNotFound when another driver has replaced some of the objects since the plan was made."""
    gone = [object_id for object_id in compacted if committed_object(image, object_id) is None]
    if gone:
        raise CompactedObjectsNotFound(f"objects {gone[:10]} were compacted by another driver; plan again")


def _check_coverage(context: MaintenanceContext, command: AnyCommit) -> None:
    """Checks coverage before the commit. The commit's decision checks it again; a refusal here costs the metadata store
    nothing. Raises CompactedObjectsNotFound, CoverageNotMatched."""
    image = context.metadata.refresh()
    check_sources(image, command.compacted)
    check_coverage(
        image,
        (held for object_id in command.compacted for held in image.objects[object_id].ranges),
        (held for new in _new_objects(command) for held in new.ranges),
    )


def _new_objects(command: AnyCommit) -> list[NewObject]:
    if isinstance(command, CommitCompaction) and command.stream_set_object is not None:
        return [command.stream_set_object, *command.stream_objects]
    return list(command.stream_objects)


def _delete_outputs(context: MaintenanceContext, command: AnyCommit) -> None:
    """Deletes the outputs, each from the buckets that it was prepared for, so that their space is free before their
    time limit. What cannot be deleted now is deleted by the sweep."""
    by_bucket: defaultdict[int, list[str]] = defaultdict(list)
    objects = context.metadata.image.objects
    for new in _new_objects(command):
        if new.object_id in objects:
            for bucket_id in objects[new.object_id].every_bucket_id:
                by_bucket[bucket_id].append(object_key(new.object_id))
    for bucket_id, keys in by_bucket.items():
        try:
            for first in range(0, len(keys), DELETE_BATCH_KEYS_MAX):
                context.buckets.store(bucket_id).delete(keys[first : first + DELETE_BATCH_KEYS_MAX])
        except SiltstoneError as trouble:
            log.warning("refused outputs in bucket %d are left to the sweep: %s", bucket_id, trouble)
