"""Applies records to an image draft: one small function for each type of record, in one table.

The rules were checked when a record was decided and are not checked again here, except for two: offsets never move
back, and a record that does not fit the image is corrupt data, for which no repair is attempted. Next: ``streams``.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from siltstone.metadata import streams as stream_steps
from siltstone.metadata.acls import ACL_APPLIERS
from siltstone.metadata.applying_access import ACCESS_APPLIERS
from siltstone.metadata.entities import (
    NO_EPOCH,
    NO_NODE,
    JobMetadata,
    JobState,
    NodeMetadata,
    ObjectMetadata,
    PartitionMetadata,
    ScanPin,
    StreamState,
    TopicMetadata,
)
from siltstone.metadata.image import ImageDraft
from siltstone.metadata.levels import LEVEL_APPLIERS
from siltstone.metadata.quotas import QUOTA_APPLIERS
from siltstone.metadata.records import (
    BucketLost,
    CopiesAdded,
    CopiesPrepared,
    CopiesUncertain,
    FailoverClaimed,
    JobFinished,
    JobForgotten,
    JobRenewed,
    JobStarted,
    KeyRemoved,
    KeySet,
    LogMoved,
    NodeDraining,
    NodeFenced,
    NodeRegistered,
    NodeResumed,
    NodeUnregistered,
    NumbersTaken,
    ObjectCommitted,
    ObjectsDestroyed,
    ObjectsForgotten,
    ObjectsPrepared,
    PartitionsAdded,
    PartitionsMoving,
    PartitionsPlaced,
    RangesLost,
    Record,
    ScanPinned,
    ScanUnpinned,
    SegmentsRolled,
    StreamCleaned,
    StreamClosed,
    StreamCreated,
    StreamDeleted,
    StreamForgotten,
    StreamOpened,
    StreamsAdvanced,
    StreamsLoaded,
    StreamTrimmed,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from siltstone.metadata.streams import inserted, without_objects
from siltstone.model.errors import CorruptData, InvalidRequest
from siltstone.model.objects import ObjectState


class RecordContradictsImage(CorruptData):
    """A record does not fit the image: this program's decisions did not write the log, or entries are missing."""


class MetadataMoved(InvalidRequest):
    """The log has ended: the metadata of the store is in another log, which the text names."""


def apply_records(draft: ImageDraft, records: Iterable[Record]) -> None:
    """Applies the records in order. Raises RecordContradictsImage, MetadataMoved, LevelUnknown; the draft must then be
    thrown away."""
    for record in records:
        try:
            _APPLIERS[type(record)](draft, record)
        except (KeyError, AssertionError) as error:
            raise RecordContradictsImage(
                f"{type(record).__name__} does not fit the image ({error}); restore the database from a backup"
            ) from error


def _node_registered(draft: ImageDraft, record: NodeRegistered) -> None:
    """Applies a registration, which ends a fence and a drain. The claim on the node's failover outlives only the
    claimer's own registration."""
    standing = draft.nodes.get(record.node_id)
    claimed = standing if record.failover else None
    draft.nodes[record.node_id] = NodeMetadata(
        node_id=record.node_id,
        node_epoch=record.node_epoch,
        incarnation=record.incarnation,
        failover=record.failover,
        wal_location=record.wal_location,
        log_epoch=0 if standing is None else standing.log_epoch,
        listeners=record.listeners,
        rack=record.rack,
        claimed_by=NO_NODE if claimed is None else claimed.claimed_by,
        claimed_by_epoch=NO_EPOCH if claimed is None else claimed.claimed_by_epoch,
    )


def _node_fenced(draft: ImageDraft, record: NodeFenced) -> None:
    node = draft.nodes[record.node_id]
    assert node.node_epoch == record.node_epoch, f"node {record.node_id} is in epoch {node.node_epoch}"
    draft.nodes[record.node_id] = replace(node, is_fenced=True)


def _node_resumed(draft: ImageDraft, record: NodeResumed) -> None:
    node = draft.nodes[record.node_id]
    assert node.node_epoch == record.node_epoch, f"node {record.node_id} is in epoch {node.node_epoch}"
    draft.nodes[record.node_id] = replace(node, is_fenced=False)


def _node_draining(draft: ImageDraft, record: NodeDraining) -> None:
    draft.nodes[record.node_id] = replace(draft.nodes[record.node_id], is_draining=record.is_draining)


def _node_unregistered(draft: ImageDraft, record: NodeUnregistered) -> None:
    del draft.nodes[record.node_id]


def _failover_claimed(draft: ImageDraft, record: FailoverClaimed) -> None:
    node = draft.nodes[record.node_id]
    draft.nodes[record.node_id] = replace(node, claimed_by=record.by, claimed_by_epoch=record.by_epoch)


def _stream_created(draft: ImageDraft, record: StreamCreated) -> None:
    draft.streams[record.stream_id] = stream_steps.created(record.stream_id, record.tags)
    draft.next_stream_id = max(draft.next_stream_id, record.stream_id + 1)


def _stream_opened(draft: ImageDraft, record: StreamOpened) -> None:
    stream = draft.streams[record.stream_id]
    draft.streams[record.stream_id] = stream_steps.opened(stream, record.epoch, record.node_id)
    node = draft.nodes[record.node_id]
    if node.log_epoch != node.node_epoch:
        draft.nodes[record.node_id] = replace(node, log_epoch=node.node_epoch)


def _stream_closed(draft: ImageDraft, record: StreamClosed) -> None:
    draft.streams[record.stream_id] = stream_steps.closed(draft.streams[record.stream_id])


def _stream_trimmed(draft: ImageDraft, record: StreamTrimmed) -> None:
    stream = draft.streams[record.stream_id]
    draft.streams[record.stream_id] = stream_steps.trimmed(stream, record.start_offset)


def _streams_advanced(draft: ImageDraft, record: StreamsAdvanced) -> None:
    for stream_id, end_offset in record.ends:
        draft.streams[stream_id] = stream_steps.advanced(draft.streams[stream_id], end_offset)


def _stream_deleted(draft: ImageDraft, record: StreamDeleted) -> None:
    draft.streams[record.stream_id] = stream_steps.deleted(draft.streams[record.stream_id])


def _stream_forgotten(draft: ImageDraft, record: StreamForgotten) -> None:
    stream = draft.streams[record.stream_id]
    assert stream.state is StreamState.DELETED, f"stream {stream.stream_id} was never deleted"
    assert not stream.ranges, f"stream {stream.stream_id} still has ranges"
    del draft.streams[record.stream_id]


def _segments_rolled(draft: ImageDraft, record: SegmentsRolled) -> None:
    for stream_id, segment in record.rolled:
        draft.streams[stream_id] = stream_steps.rolled(draft.streams[stream_id], segment)


def _stream_cleaned(draft: ImageDraft, record: StreamCleaned) -> None:
    stream = draft.streams[record.stream_id]
    draft.streams[record.stream_id] = stream_steps.cleaned(stream, record.cleaned_offset)


def _streams_loaded(draft: ImageDraft, record: StreamsLoaded) -> None:
    for stream_id, epoch, end_offset in record.loads:
        draft.streams[stream_id] = stream_steps.loaded(draft.streams[stream_id], epoch, end_offset)


def _objects_prepared(draft: ImageDraft, record: ObjectsPrepared) -> None:
    for object_id in range(record.first_id, record.first_id + record.count):
        draft.objects[object_id] = ObjectMetadata(
            object_id=object_id,
            state=ObjectState.PREPARED,
            bucket_id=record.bucket_id,
            kind=None,
            size_bytes=0,
            deadline_ms=record.deadline_ms,
            committed_ms=0,
            destroyed_ms=0,
            data_time_ms=0,
            ranges=(),
        )
        draft.prepared[object_id] = record.deadline_ms
    draft.next_object_id = max(draft.next_object_id, record.first_id + record.count)


def _object_committed(draft: ImageDraft, record: ObjectCommitted) -> None:
    del draft.prepared[record.object_id]
    draft.objects[record.object_id] = replace(
        draft.objects[record.object_id],
        state=ObjectState.COMMITTED,
        kind=record.kind,
        size_bytes=record.size_bytes,
        deadline_ms=0,
        committed_ms=record.committed_ms,
        data_time_ms=record.data_time_ms,
        ranges=record.ranges,
    )
    streams = draft.streams
    for held in record.ranges:
        stream = streams[held.stream_id]
        streams[held.stream_id] = replace(stream, ranges=inserted(stream.ranges, held))


def _copies_prepared(draft: ImageDraft, record: CopiesPrepared) -> None:
    for object_id in record.object_ids:
        metadata = draft.objects[object_id]
        assert record.bucket_id not in metadata.every_bucket_id, f"object {object_id} has a place there"
        draft.objects[object_id] = replace(metadata, uncertain=(*metadata.uncertain, record.bucket_id))


def _copies_added(draft: ImageDraft, record: CopiesAdded) -> None:
    for object_id in record.object_ids:
        metadata = draft.objects[object_id]
        assert record.bucket_id in metadata.uncertain, f"object {object_id} has no place there"
        draft.objects[object_id] = replace(
            metadata,
            copies=(*metadata.copies, record.bucket_id),
            uncertain=tuple(each for each in metadata.uncertain if each != record.bucket_id),
        )


def _copies_uncertain(draft: ImageDraft, record: CopiesUncertain) -> None:
    for object_id in record.object_ids:
        metadata = draft.objects[object_id]
        first, *others = (each for each in metadata.bucket_ids if each != record.bucket_id)
        draft.objects[object_id] = replace(
            metadata,
            bucket_id=first,
            copies=tuple(others),
            uncertain=(*metadata.uncertain, record.bucket_id),
        )


def _bucket_lost(draft: ImageDraft, record: BucketLost) -> None:
    lost = record.bucket_id
    concerned = [each for each in draft.objects.values() if lost in each.every_bucket_id]
    for metadata in concerned:
        left = [each for each in metadata.bucket_ids if each != lost]
        uncertain = tuple(each for each in metadata.uncertain if each != lost)
        if not left:
            assert metadata.state is not ObjectState.COMMITTED, f"object {metadata.object_id} is nowhere else"
            left, uncertain = list(uncertain[:1]), uncertain[1:]
        draft.objects[metadata.object_id] = replace(
            metadata, bucket_id=left[0] if left else lost, copies=tuple(left[1:]), uncertain=uncertain
        )


def _ranges_lost(draft: ImageDraft, record: RangesLost) -> None:
    """Applies the record that is the log's evidence of a loss. The records after it change the image."""
    for stream_id, _, _ in record.ranges:
        assert stream_id in draft.streams, f"stream {stream_id} does not exist"


def _objects_destroyed(draft: ImageDraft, record: ObjectsDestroyed) -> None:
    """Applies the destruction of objects. All are removed together, so a stream with many ranges is scanned once, not
    once for each object."""
    leaving: defaultdict[int, set[int]] = defaultdict(set)
    for object_id in record.object_ids:
        metadata = draft.objects[object_id]
        assert metadata.state is not ObjectState.DESTROYED, f"object {object_id} is destroyed already"
        for held in metadata.ranges:
            leaving[held.stream_id].add(object_id)
        if metadata.state is ObjectState.PREPARED:
            del draft.prepared[object_id]
        draft.objects[object_id] = replace(
            metadata,
            state=ObjectState.DESTROYED,
            destroyed_ms=record.destroyed_ms,
            destroyed_version=draft.version,
            ranges=(),
        )
        draft.destroyed[object_id] = record.destroyed_ms
    for stream_id, object_ids in leaving.items():
        stream = draft.streams[stream_id]
        draft.streams[stream_id] = replace(stream, ranges=without_objects(stream.ranges, object_ids))


def _objects_forgotten(draft: ImageDraft, record: ObjectsForgotten) -> None:
    for object_id in record.object_ids:
        del draft.destroyed[object_id]
        del draft.objects[object_id]


def _key_set(draft: ImageDraft, record: KeySet) -> None:
    draft.keys[record.key] = record.value


def _key_removed(draft: ImageDraft, record: KeyRemoved) -> None:
    del draft.keys[record.key]


def _job_started(draft: ImageDraft, record: JobStarted) -> None:
    draft.jobs[record.job_id] = JobMetadata(
        job_id=record.job_id,
        kind=record.kind,
        state=JobState.RUNNING,
        driver=record.driver,
        description=record.description,
        started_ms=record.started_ms,
        lease_until_ms=record.lease_until_ms,
        finished_ms=0,
        report="",
    )
    draft.next_job_id = max(draft.next_job_id, record.job_id + 1)


def _job_renewed(draft: ImageDraft, record: JobRenewed) -> None:
    draft.jobs[record.job_id] = replace(draft.jobs[record.job_id], lease_until_ms=record.lease_until_ms)


def _job_finished(draft: ImageDraft, record: JobFinished) -> None:
    draft.jobs[record.job_id] = replace(
        draft.jobs[record.job_id], state=record.state, finished_ms=record.finished_ms, report=record.report
    )


def _job_forgotten(draft: ImageDraft, record: JobForgotten) -> None:
    del draft.jobs[record.job_id]


def _topic_created(draft: ImageDraft, record: TopicCreated) -> None:
    assert record.topic_id not in draft.topics, f"topic {record.topic_id} exists already"
    assert record.name not in draft.topic_ids, f"topic {record.name} exists already"
    _check_streams(draft, record.partitions)
    draft.topics[record.topic_id] = TopicMetadata(
        topic_id=record.topic_id,
        name=record.name,
        partitions=record.partitions,
        configs=record.configs,
        replication_factor=record.replication_factor,
        created_ms=record.created_ms,
        is_internal=record.is_internal,
    )
    draft.topic_ids[record.name] = record.topic_id
    _count_leaders(draft, record.partitions, 1)


def _partitions_added(draft: ImageDraft, record: PartitionsAdded) -> None:
    topic = draft.topics[record.topic_id]
    _check_streams(draft, record.partitions)
    draft.topics[record.topic_id] = replace(topic, partitions=(*topic.partitions, *record.partitions))
    _count_leaders(draft, record.partitions, 1)


def _count_leaders(draft: ImageDraft, partitions: Iterable[PartitionMetadata], change: int) -> None:
    counts = draft.leader_counts
    for partition in partitions:
        leader = partition.leader
        if leader == NO_NODE:
            continue
        count = counts.get(leader, 0) + change
        if count > 0:
            counts[leader] = count
        elif leader in counts:
            del counts[leader]


def _check_streams(draft: ImageDraft, partitions: Iterable[PartitionMetadata]) -> None:
    for partition in partitions:
        for stream_id in (partition.data_stream_id, partition.meta_stream_id):
            assert stream_id in draft.streams, f"stream {stream_id} does not exist"


def _topic_configured(draft: ImageDraft, record: TopicConfigured) -> None:
    draft.topics[record.topic_id] = replace(draft.topics[record.topic_id], configs=record.configs)


def _topic_deleted(draft: ImageDraft, record: TopicDeleted) -> None:
    topic = draft.topics[record.topic_id]
    del draft.topic_ids[topic.name]
    del draft.topics[record.topic_id]
    _count_leaders(draft, topic.partitions, -1)


def _partitions_placed(draft: ImageDraft, record: PartitionsPlaced) -> None:
    topic = draft.topics[record.topic_id]
    partitions = list(topic.partitions)
    for index, leader in record.leaders:
        assert 0 <= index < len(partitions), f"topic {topic.name} has no partition {index}"
        placed = replace(partitions[index], leader=leader, target=NO_NODE)
        _count_leaders(draft, (partitions[index],), -1)
        _count_leaders(draft, (placed,), 1)
        partitions[index] = placed
    draft.topics[record.topic_id] = replace(topic, partitions=tuple(partitions))


def _partitions_moving(draft: ImageDraft, record: PartitionsMoving) -> None:
    topic = draft.topics[record.topic_id]
    partitions = list(topic.partitions)
    for index, target in record.targets:
        assert 0 <= index < len(partitions), f"topic {topic.name} has no partition {index}"
        partitions[index] = replace(partitions[index], target=target)
    draft.topics[record.topic_id] = replace(topic, partitions=tuple(partitions))


def _numbers_taken(draft: ImageDraft, record: NumbersTaken) -> None:
    taken_before = draft.sequences.get(record.sequence, 0)
    assert taken_before < record.next_number, f"{record.sequence} is at {taken_before} already"
    draft.sequences[record.sequence] = record.next_number


def _scan_pinned(draft: ImageDraft, record: ScanPinned) -> None:
    standing = draft.pins.get(record.token)
    draft.pins[record.token] = (
        ScanPin(record.token, draft.version, record.until_ms, record.holder)
        if standing is None
        else replace(standing, until_ms=record.until_ms)
    )


def _scan_unpinned(draft: ImageDraft, record: ScanUnpinned) -> None:
    del draft.pins[record.token]


def _log_moved(_: ImageDraft, record: LogMoved) -> None:
    raise MetadataMoved(
        f"the metadata of this store was moved to {record.url}; name that log, with --metadata or in siltstone.toml"
    )


_APPLIERS: dict[type[Record], Callable[[ImageDraft, Any], None]] = {
    NodeRegistered: _node_registered,
    NodeFenced: _node_fenced,
    NodeResumed: _node_resumed,
    NodeDraining: _node_draining,
    NodeUnregistered: _node_unregistered,
    FailoverClaimed: _failover_claimed,
    StreamCreated: _stream_created,
    StreamOpened: _stream_opened,
    StreamClosed: _stream_closed,
    StreamTrimmed: _stream_trimmed,
    StreamsAdvanced: _streams_advanced,
    StreamDeleted: _stream_deleted,
    StreamForgotten: _stream_forgotten,
    SegmentsRolled: _segments_rolled,
    StreamCleaned: _stream_cleaned,
    StreamsLoaded: _streams_loaded,
    ObjectsPrepared: _objects_prepared,
    ObjectCommitted: _object_committed,
    ObjectsDestroyed: _objects_destroyed,
    ObjectsForgotten: _objects_forgotten,
    CopiesPrepared: _copies_prepared,
    CopiesAdded: _copies_added,
    CopiesUncertain: _copies_uncertain,
    BucketLost: _bucket_lost,
    RangesLost: _ranges_lost,
    KeySet: _key_set,
    KeyRemoved: _key_removed,
    JobStarted: _job_started,
    JobRenewed: _job_renewed,
    JobFinished: _job_finished,
    JobForgotten: _job_forgotten,
    TopicCreated: _topic_created,
    PartitionsAdded: _partitions_added,
    TopicConfigured: _topic_configured,
    TopicDeleted: _topic_deleted,
    PartitionsPlaced: _partitions_placed,
    PartitionsMoving: _partitions_moving,
    NumbersTaken: _numbers_taken,
    ScanPinned: _scan_pinned,
    ScanUnpinned: _scan_unpinned,
    LogMoved: _log_moved,
    **ACCESS_APPLIERS,
    **ACL_APPLIERS,
    **QUOTA_APPLIERS,
    **LEVEL_APPLIERS,
}
