"""Gives up a bucket that is lost for good: finds the ranges that were only there, and replaces their objects.

An object that is in another bucket, too, loses nothing. Each other object is replaced by a new one that holds the same
offsets in empty batches, so that every offset stays covered once (rule 3): consumers read on behind the loss, as they
do where key compaction has removed records, and the log of the metadata says what was lost (rule 4). The empty batches
keep the largest timestamp of each range, so retention drops them when it would have dropped the records.
"""

from collections.abc import Iterator, Sequence

import msgspec

from siltstone.carrying.committing import prepare
from siltstone.carrying.jobs import running_job
from siltstone.kafka_protocol.batch_header import MAGIC, BatchHeader
from siltstone.kafka_protocol.records.building import seal_batch
from siltstone.maintenance.copies.kind import JOB_KIND
from siltstone.metadata.buckets import SetBucketState, bucket_list_of
from siltstone.metadata.commands import NewObject, PrepareObjects
from siltstone.metadata.copies import AcceptLoss, GiveUpBucket
from siltstone.metadata.decisions.copies import only_in_bucket
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.refusals import BucketNotListed
from siltstone.metadata.store_id import store_id_of
from siltstone.model.buckets import BucketState
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.model.limits import MINUTE_MS
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState, object_key
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import encode_empty_frame_header
from siltstone.object_formats.object_layout import EncodedObject, ObjectBuilder, ranges_of_entries
from siltstone.object_store.bucket_identity import marked_identity
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.output_buckets import OutputBuckets
from siltstone.offline.topic_streams import Role, topic_streams
from siltstone.runtime.tasks import OnProgress

LEASE_MS = 2 * MINUTE_MS
TIME_LIMIT_MS = 60 * MINUTE_MS

OFFSETS_PER_BATCH_MAX = 2**31 - 1
"""Kafka's batches have the last offset relative to the first one in 32 bits."""

ROUNDS_MAX = 10
"""A node may commit an object that it had prepared in the bucket just before, but cannot prepare another one there: so
two rounds are enough."""


class BucketAnswers(InvalidRequest):
    """The bucket is there, and is this store's: it is not lost."""


class LostRange(msgspec.Struct, frozen=True):
    """Offsets whose only copy was in the lost bucket. ``partition`` is its name, such as flights-0; None for a stream
    of no topic. ``is_data``: the offsets are records, and not a broker's snapshots of a partition."""

    partition: str | None
    is_data: bool
    stream_id: int
    object_id: int
    start_offset: int
    end_offset: int
    size_bytes: int


class GivenUp(msgspec.Struct, frozen=True):
    """The ranges that were lost with a bucket, and the number of objects that are still in others."""

    lost: tuple[LostRange, ...]
    kept_objects: int


def lost_ranges(image: MetadataImage, bucket_id: int) -> Iterator[LostRange]:
    """Yields the ranges of committed objects that are in this bucket alone, sorted by partition and offset."""
    streams = topic_streams(image)
    found = [
        LostRange(
            of.name if (of := streams.get(held.stream_id)) else None,
            of is None or of.role is Role.BATCHES,
            held.stream_id,
            held.object_id,
            held.start_offset,
            held.end_offset,
            held.size_bytes,
        )
        for each in _committed_only_there(image, bucket_id)
        for held in each.ranges
    ]
    yield from sorted(found, key=lambda each: (each.partition or "", each.stream_id, each.start_offset))


def kept_objects(image: MetadataImage, bucket_id: int) -> int:
    """Counts the committed objects that are in this bucket and in others."""
    return sum(
        each.state is ObjectState.COMMITTED and bucket_id in each.bucket_ids and bool(each.copies)
        for each in image.objects.values()
    )


def refuse_unless_lost(context: MaintenanceContext, bucket_id: int) -> None:
    """Raises BucketNotListed, and BucketAnswers if the bucket has the marker of this store and so can be drained."""
    listed = bucket_list_of(context.metadata.refresh())
    found = listed.bucket(bucket_id)
    if found is None or found.is_removed:
        known = ", ".join(map(str, listed.urls)) or "none"
        raise BucketNotListed(f"there is no bucket {bucket_id}; the store has {known}")
    try:
        marked = marked_identity(context.buckets.store(bucket_id))
    except SiltstoneError:
        return
    if marked is not None and marked.store_id == store_id_of(context.metadata.image):
        raise BucketAnswers(
            f"bucket {bucket_id} ({found.url}) answers, and has this store's marker: it is not lost. To take it out of "
            f"service, drain it: siltstone buckets drain {bucket_id}"
        )


def give_up(context: MaintenanceContext, bucket_id: int, on_progress: OnProgress | None = None) -> GivenUp:
    """Gives the bucket up, with everything that was only there. The call may be repeated after any failure.
    ``on_progress`` is called with (lost objects replaced, lost objects in all). Raises what ``refuse_unless_lost``, the
    metadata and the other buckets raise, and JobRunning."""
    refuse_unless_lost(context, bucket_id)
    context.metadata.execute(SetBucketState(bucket_id, BucketState.READ_ONLY))
    lost: list[LostRange] = []
    kept = kept_objects(context.metadata.refresh(), bucket_id)
    with running_job(context, JOB_KIND, LEASE_MS, f"bucket {bucket_id} is lost") as job:
        for _ in range(ROUNDS_MAX):
            image = context.metadata.refresh()
            objects = _committed_only_there(image, bucket_id)
            if not objects:
                break
            lost += lost_ranges(image, bucket_id)
            outputs = OutputBuckets(context)
            for number, each in enumerate(objects, start=1):
                _replace(context, job.job_id, bucket_id, each, outputs)
                if on_progress is not None:
                    on_progress(number, len(objects))
        context.metadata.execute(GiveUpBucket(bucket_id))
        job.report = f"{len(lost)} ranges lost, {kept} objects are in other buckets"
    return GivenUp(tuple(lost), kept)


def _committed_only_there(image: MetadataImage, bucket_id: int) -> list[ObjectMetadata]:
    found = only_in_bucket(image.objects.values(), bucket_id)
    return sorted(
        (each for each in found if each.state is ObjectState.COMMITTED), key=lambda each: each.object_id
    )


def _replace(
    context: MaintenanceContext, job_id: int, bucket_id: int, lost: ObjectMetadata, outputs: OutputBuckets
) -> None:
    """Puts an object without records into every bucket that a new object has to be in, and commits it in the place of
    the lost object. A lost object that was trimmed or destroyed meanwhile is not replaced."""
    is_set = lost.kind is ObjectKind.STREAM_SET_OBJECT
    first = outputs.of_set() if is_set else outputs.of_stream(lost.ranges[0].stream_id)
    command = PrepareObjects(1, TIME_LIMIT_MS, first, job_id=job_id)
    object_id = prepare(context, command, outputs)
    encoded = emptied(lost.ranges)
    places = context.metadata.image.objects[object_id].every_bucket_id
    for place in places:
        context.buckets.store(place).put(object_key(object_id), encoded.buffers)
    new = (NewObject(object_id, encoded.size_bytes, ranges_of_entries(encoded.entries, object_id), places),)
    if committed_object(context.metadata.refresh(), lost.object_id) is None:
        return
    context.metadata.execute(
        AcceptLoss(job_id, bucket_id, (lost.object_id,), new if is_set else (), () if is_set else new)
    )


def emptied(ranges: Sequence[ObjectRange]) -> EncodedObject:
    """Makes an object that holds the offsets of the ranges and no record."""
    builder = ObjectBuilder()
    for held in sorted(ranges, key=lambda each: each.stream_id):
        for start in range(held.start_offset, held.end_offset, OFFSETS_PER_BATCH_MAX):
            batch = _empty_batch(held, start, min(start + OFFSETS_PER_BATCH_MAX, held.end_offset))
            builder.append(batch, encode_empty_frame_header(batch))
    return builder.finish()


def _empty_batch(held: ObjectRange, start: int, end: int) -> RecordBatch:
    """Makes a batch without records, as Kafka's log cleaner leaves it."""
    timestamp_ms = held.largest_timestamp_ms
    header = BatchHeader(
        base_offset=start,
        batch_length=0,
        partition_leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=end - start - 1,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=0,
    )
    payload = bytes(seal_batch(header, b"", 0))
    return RecordBatch(held.stream_id, 0, start, end, 0, timestamp_ms, timestamp_ms, payload)
