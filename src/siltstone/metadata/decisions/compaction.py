"""CommitCompaction: replaces objects by others of the same live offsets and changes nothing else (rule 4; T08, T25)."""

from siltstone.metadata.commands import CommitCompaction
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
from siltstone.metadata.image import ImageView
from siltstone.metadata.refusals import CommandMalformed
from siltstone.model.limits import COMPACTION_STREAM_OBJECTS_MAX
from siltstone.model.objects import ObjectState


def decide_commit_compaction(view: ImageView, command: CommitCompaction, now_ms: int) -> Decision[None]:
    """Decides the commit of a compaction. Whether the commit was done before is checked before the job's fence: a
    driver that lost the answer, and whose job was taken over since, must not be refused, or it would delete objects
    that are committed."""
    objects = NewObjects.of(command.stream_set_object, command.stream_objects)
    _check_size(command)
    check_form(objects)
    if _was_done(view, command, objects):
        return Decision((), None)
    running_job(view, command.job_id)
    sources = committed_sources(view, command.compacted)
    check_waiting(view, objects.ids, now_ms)
    check_coverage(view, (held for source in sources for held in source.ranges), objects.ranges())
    data_time_ms = min(source.data_time_ms for source in sources)
    # The old ranges must be removed first: the new ranges hold the same offsets.
    left = destruction(view, [source.object_id for source in sources], now_ms)
    return Decision((*left, *commitment(view, objects, data_time_ms, now_ms)), None)


def _check_size(command: CommitCompaction) -> None:
    if not command.compacted:
        raise CommandMalformed("the commit of a compaction names no compacted object")
    if len(command.stream_objects) > COMPACTION_STREAM_OBJECTS_MAX:
        raise CommandMalformed(
            f"the commit of a compaction names {len(command.stream_objects)} stream objects; "
            f"at most {COMPACTION_STREAM_OBJECTS_MAX} are allowed"
        )


def _was_done(view: ImageView, command: CommitCompaction, objects: NewObjects) -> bool:
    if objects.members:
        return was_done(view, objects.ids)
    return all(_is_gone(view, object_id) for object_id in command.compacted)


def _is_gone(view: ImageView, object_id: int) -> bool:
    metadata = view.objects.get(object_id)
    if metadata is None:
        return 0 <= object_id < view.next_object_id
    return metadata.state is ObjectState.DESTROYED
