"""What the engine has to know of a relocated object: its tasks read it in its old bucket and write it into a new one,
and its commit replaces it by its copy. Readers find the old object or the copy; the old one is deleted after its grace
period, like every object that was compacted."""

from collections.abc import Callable, Sequence

from siltstone.carrying.engine import WorkKind
from siltstone.carrying.pipeline.kind import Attempt
from siltstone.maintenance.relocation.planning import MovedObject, WholeObject, tail_position
from siltstone.maintenance.stream_object_compaction.carrying_out import (
    OVERTAKEN,
    Merging,
    prepare_all,
    read_sources,
)
from siltstone.maintenance.stream_object_compaction.task import run_copies
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.objects import ObjectKind, object_key
from siltstone.offline.output_buckets import OutputBuckets
from siltstone.offline.settings import StreamObjectCompactionSettings


def moves(attempt: Attempt, settings: StreamObjectCompactionSettings) -> WorkKind[MovedObject, Merging]:
    context = attempt.context
    outputs = OutputBuckets(context)

    def bucket_of(moved: MovedObject) -> int:
        """Returns the bucket of the copy, or of the first copy under replication. Raises as ``OutputBuckets``."""
        if moved.metadata.kind is ObjectKind.STREAM_SET_OBJECT:
            return outputs.of_set()
        return outputs.of_stream(moved.metadata.ranges[0].stream_id)

    # Why a new object, and not one more copy of the old one that is withdrawn afterwards: readers with an older image
    # still read the old place, so a withdrawn copy would need a grace period in the metadata, which has no such
    # state. An object that was replaced has one already.
    def make(_: MetadataImage, objects: Sequence[MovedObject]) -> Callable[[MovedObject], Merging]:
        source_of = read_sources(attempt, [moved.metadata for moved in objects])

        def moving(moved: MovedObject) -> Merging:
            source, metadata = source_of(moved.metadata), moved.metadata
            key, position = object_key(metadata.object_id), tail_position(source)
            copies = context.buckets.copies(metadata.bucket_ids, moved.name)
            tail = copies.read(lambda store: store.get_range(key, position, metadata.size_bytes))
            whole = WholeObject(source, tail)
            work = Merging(moved.name, whole, attempt, bucket_of(moved), settings.read_request_bytes_max)
            work.source_url = context.buckets.store(moved.bucket_id).url
            return work

        return moving

    return WorkKind(
        step="copy",
        task=run_copies,
        stands=is_wanted,
        buckets=lambda moved: {bucket_of(moved), *outputs.of_copies()},
        make=make,
        prepare=lambda works: prepare_all(attempt, outputs, settings.time_limit_ms, works),
        overtaken=OVERTAKEN,
    )


def is_wanted(image: MetadataImage, moved: MovedObject) -> bool:
    """Returns whether the object is committed and its bucket is still drained."""
    is_draining = moved.bucket_id in bucket_list_of(image).draining
    return is_draining and committed_object(image, moved.metadata.object_id) is not None
