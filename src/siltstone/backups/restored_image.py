"""What the metadata of a restored store is, and what it lacks of the newest that the backup knows. Pure.

The restored store is another store: it has no id yet, one bucket, and no node. So the image of the point is changed:

- streams are CLOSED, and end where their objects end: what was only in the logs of brokers is lost;
- only committed objects are kept, all in bucket 0, and ids continue after the highest of the whole backup;
- nodes are fenced, have no log here, and lead their partitions until other nodes of the new store take them over;
- records that were erased from the original by their keys are erased again (``offline.erasures``);
- jobs that ran have failed, pins and the keys that belong to the places of the original are gone.

Topics, configurations, users, rights and quotas are those of the point. So are the offsets of groups, which are records
of a topic.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import JobMetadata, JobState, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import DEFAULT_BUCKET_ID, ObjectState
from siltstone.offline.erasures import ERASURE_PREFIX, Erasure, applied_again, encode_erasure

KEYS_OF_PLACES = (
    "store/", "kafka/cluster-id", "node-address/", "node-listener", "flush/", "unreachable-from/", "lost-log/",
    "audit-note/", "copies-listed/", "erased-object/", "erased-rows/", "empty-log/",
)  # fmt: skip
"""The beginnings of keys that say where the original is, or who its nodes are."""


class LostOffsets(msgspec.Struct, frozen=True):
    """Offsets of a partition that the newest metadata of the backup has and the restored store lacks."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int


class RestoredLosses(msgspec.Struct, frozen=True):
    """``offsets``: what was written after the point. ``open_partitions`` had records that may have been in no object at
    the point: those of its last minute. ``topics``: names of topics that exist only after the point."""

    offsets: tuple[LostOffsets, ...]
    open_partitions: tuple[str, ...]
    topics: tuple[str, ...]

    @property
    def offset_count(self) -> int:
        return sum(each.end_offset - each.start_offset for each in self.offsets)


def restored_image(
    point: MetadataImage, newest: MetadataImage, erasures: Sequence[Erasure] = ()
) -> MetadataImage:
    """Returns the image of a store that is restored at ``point``; ``newest`` is that of the whole backup. ``erasures``
    are all that are known of the original: the restored store has to apply them again."""
    objects = {
        object_id: replace(one, bucket_id=DEFAULT_BUCKET_ID, copies=(), uncertain=())
        for object_id, one in point.objects.items()
        if one.state is ObjectState.COMMITTED
    }
    return replace(
        point,
        next_object_id=max(point.next_object_id, newest.next_object_id),
        next_stream_id=max(point.next_stream_id, newest.next_stream_id),
        next_job_id=max(point.next_job_id, newest.next_job_id),
        streams=ShardedMap(
            (
                stream_id,
                replace(stream, state=StreamState.CLOSED) if stream.state is StreamState.OPENED else stream,
            )
            for stream_id, stream in point.streams.items()
        ),
        objects=ShardedMap(objects.items()),
        prepared=ShardedMap(),
        destroyed=ShardedMap(),
        nodes=ShardedMap(
            (node_id, replace(node, is_fenced=True, log_epoch=0)) for node_id, node in point.nodes.items()
        ),
        keys=ShardedMap(
            (
                {key: value for key, value in point.keys.items() if not key.startswith(KEYS_OF_PLACES)}
                | dict(_erasures(point, erasures))
            ).items()
        ),
        jobs=ShardedMap((job_id, _ended(job)) for job_id, job in point.jobs.items()),
        pins=ShardedMap(),
    )


def _erasures(point: MetadataImage, erasures: Sequence[Erasure]) -> Iterator[tuple[str, bytes]]:
    ends = {
        topic.topic_id: [point.streams[each.data_stream_id].end_offset for each in topic.partitions]
        for topic in point.topics.values()
    }
    for erasure in applied_again(erasures, ends):
        yield f"{ERASURE_PREFIX}{erasure.erasure_id}", encode_erasure(erasure)


def _ended(job: JobMetadata) -> JobMetadata:
    if job.state is not JobState.RUNNING:
        return job
    return replace(
        job, state=JobState.FAILED, finished_ms=job.started_ms, report="it ran when the backup was made"
    )


def losses(point: MetadataImage, newest: MetadataImage) -> RestoredLosses:
    """Returns what a store that is restored at ``point`` lacks of ``newest``."""
    return RestoredLosses(
        tuple(_lost_offsets(point, newest)),
        tuple(
            f"{topic.name}-{number}"
            for topic in sorted(point.topics.values(), key=lambda each: each.name)
            for number, partition in enumerate(topic.partitions)
            if (stream := point.streams.get(partition.data_stream_id)) is not None
            and stream.state is StreamState.OPENED
        ),
        tuple(sorted(topic.name for topic in newest.topics.values() if topic.topic_id not in point.topics)),
    )


def _lost_offsets(point: MetadataImage, newest: MetadataImage) -> Iterator[LostOffsets]:
    for topic in sorted(newest.topics.values(), key=lambda each: each.name):
        for number, partition in enumerate(topic.partitions):
            later = newest.streams.get(partition.data_stream_id)
            before = point.streams.get(partition.data_stream_id)
            start = 0 if before is None else before.end_offset
            if later is not None and later.end_offset > start:
                yield LostOffsets(topic.name, number, max(start, later.start_offset), later.end_offset)
