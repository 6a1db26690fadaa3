"""CommitKeyCompaction: replaces stream objects by others of the same offsets with fewer records, and sets the offset up
to which the stream is clean. One commit does both, so that neither is ever visible without the other."""

from siltstone.metadata.commands import CommitKeyCompaction
from siltstone.metadata.decisions.coverage import check_coverage
from siltstone.metadata.decisions.fences import Decision, existing_stream, running_job
from siltstone.metadata.decisions.new_objects import (
    NewObjects,
    check_form,
    check_waiting,
    commitment,
    committed_sources,
    destruction,
    was_done,
)
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import Record, StreamCleaned
from siltstone.metadata.refusals import CommandMalformed, CompactionTooLate, TopicConfiguredOtherwise
from siltstone.model.limits import COMPACTION_STREAM_OBJECTS_MAX
from siltstone.model.objects import ObjectKind, ObjectState


def decide_commit_key_compaction(
    view: ImageView, command: CommitKeyCompaction, now_ms: int
) -> Decision[None]:
    """Decides the commit of a key compaction. Whether the commit was done before is checked first, for the reason in
    ``decide_commit_compaction``."""
    objects = NewObjects.of(None, command.stream_objects)
    _check_command(command)
    check_form(objects)
    if _was_done(view, command, objects):
        return Decision((), None)
    running_job(view, command.job_id)
    stream = existing_stream(view, command.stream_id)
    _check_topic(view, command)
    if now_ms > command.latest_ms:
        raise CompactionTooLate(
            f"the key compaction of stream {command.stream_id} commits {now_ms - command.latest_ms} ms too late: the "
            "delete horizons of its tombstones were computed for an earlier commit; compact again, with a longer "
            "maintenance.key_compaction.allowance_ms if it is too late again"
        )
    if command.cleaned_offset > stream.end_offset:
        raise CommandMalformed(
            f"stream {command.stream_id} ends at {stream.end_offset}, so it cannot be clean up to "
            f"{command.cleaned_offset}"
        )
    replaced = _replacement(view, command, objects, now_ms) if objects.members else ()
    given_up = destruction(view, _released(view, command), now_ms)
    cleaned_offset = max(command.cleaned_offset, stream.start_offset)
    return Decision((*replaced, *given_up, *_cleaned(stream, cleaned_offset)), None)


def _was_done(view: ImageView, command: CommitKeyCompaction, objects: NewObjects) -> bool:
    if objects.members:
        return was_done(view, objects.ids)
    stream = view.streams.get(command.stream_id)
    is_clean = stream is not None and stream.cleaned_offset >= command.cleaned_offset
    return is_clean and not _released(view, command)


def _replacement(
    view: ImageView, command: CommitKeyCompaction, objects: NewObjects, now_ms: int
) -> tuple[Record, ...]:
    sources = committed_sources(view, command.compacted)
    _check_sources(command, sources)
    check_waiting(view, objects.ids, now_ms)
    check_coverage(view, (held for source in sources for held in source.ranges), objects.ranges())
    if command.cleaned_offset > max(held.end_offset for held in objects.ranges()):
        raise CommandMalformed(
            f"the new objects of stream {command.stream_id} end before {command.cleaned_offset}, up to which the "
            "command calls it clean"
        )
    data_time_ms = min(source.data_time_ms for source in sources)
    # The old ranges must be removed first: the new ranges hold the same offsets.
    left = destruction(view, command.compacted, now_ms)
    return (*left, *commitment(view, objects, data_time_ms, now_ms))


def _cleaned(stream: StreamMetadata, cleaned_offset: int) -> tuple[StreamCleaned, ...]:
    if cleaned_offset <= stream.cleaned_offset:
        return ()
    return (StreamCleaned(stream.stream_id, cleaned_offset),)


def _check_command(command: CommitKeyCompaction) -> None:
    if bool(command.compacted) != bool(command.stream_objects):
        raise CommandMalformed(
            "a key compaction names compacted objects or new ones only; name both, or neither"
        )
    if len(command.stream_objects) > COMPACTION_STREAM_OBJECTS_MAX:
        raise CommandMalformed(
            f"a key compaction names {len(command.stream_objects)} new objects; "
            f"at most {COMPACTION_STREAM_OBJECTS_MAX} are allowed"
        )
    if len(set(command.compacted)) < len(command.compacted):
        raise CommandMalformed("a key compaction names a compacted object twice")


def _check_topic(view: ImageView, command: CommitKeyCompaction) -> None:
    """Raises TopicConfiguredOtherwise: which records may be removed depends on the topic's configuration."""
    topic = view.topics.get(command.topic_id)
    if topic is None or topic.configs != command.configs:
        raise TopicConfiguredOtherwise(
            f"topic {command.topic_id} of stream {command.stream_id} was deleted, or its configuration has changed "
            "since; compact again"
        )


def _check_sources(command: CommitKeyCompaction, sources: list[ObjectMetadata]) -> None:
    for source in sources:
        held = {each.stream_id for each in source.ranges}
        if source.kind is not ObjectKind.STREAM_OBJECT or held - {command.stream_id}:
            raise CommandMalformed(
                f"object {source.object_id} is not a stream object of stream {command.stream_id}"
            )


def _released(view: ImageView, command: CommitKeyCompaction) -> list[int]:
    named = {new.object_id for new in command.stream_objects}
    if named & set(command.released):
        raise CommandMalformed("a key compaction commits and releases the same object")
    return [
        object_id
        for object_id in command.released
        if object_id in view.objects and view.objects[object_id].state is ObjectState.PREPARED
    ]
