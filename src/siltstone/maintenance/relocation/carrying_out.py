"""Carries out a wave of copies: the tasks read the object in its old bucket and write it into the new one, and each
object has a commit of its own, which replaces it by its copy. Readers find the old object or the copy; the old one is
deleted after its grace period, like every object that was compacted."""

from collections.abc import Sequence

from siltstone.carrying.committing import prepare
from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.foundation.quantity_words import size_words
from siltstone.maintenance.relocation.planning import WholeObject, tail_position
from siltstone.maintenance.stream_object_compaction.carrying_out import Group, Merging, PlannedMerge, Wave
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.commands import CommitCompaction, PrepareObjects
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import ObjectKind, object_key
from siltstone.offline.blocks.columns import LeftOut, Source
from siltstone.offline.context import check_may_write
from siltstone.offline.settings import StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import failure_in_one_line


class Copying(Merging):
    """An object that is being copied into another bucket, ``bucket_id``."""

    bucket_id = -1

    def command(self, job_id: int) -> CommitCompaction:
        new = self.new_object()
        is_set = self.merge.sources[0].kind is ObjectKind.STREAM_SET_OBJECT
        sources = self.merge.source_ids
        return (
            CommitCompaction(job_id, sources, new)
            if is_set
            else CommitCompaction(job_id, sources, None, (new,))
        )

    def done(self) -> UnitReport:
        return UnitReport(
            name=self.group.name,
            outcome=Outcome.DONE,
            text=f"{size_words(self.merge.size_bytes)} copied from bucket {self.group.bucket_id} to {self.bucket_id}",
            bytes_read=sum(result.bytes_read for result in self.results),
            bytes_written=sum(result.bytes_written for result in self.results),
            objects_before=1,
            objects_after=1,
            peak_memory_bytes=max(result.peak_memory_bytes for result in self.results),
        )


class RelocationWave(Wave):
    def __init__(self, attempt: Attempt, settings: StreamObjectCompactionSettings) -> None:
        super().__init__(attempt, settings)
        self._bucket_of: dict[str, int] = {}
        """Name of an object → the bucket of its copy."""
        self._checked: set[int] = set()

    def _check_writable(self, groups: Sequence[Group]) -> dict[int, str]:
        """Checks nothing: relocation writes nothing to the buckets of the sources, and ``_output`` checks the bucket of
        each copy."""
        return {}

    def _stands(self, image: MetadataImage, group: Group) -> bool:
        """Returns whether the object is committed and its bucket is still drained."""
        is_wanted = group.bucket_id in bucket_list_of(image).draining
        return is_wanted and committed_object(image, group.members[0].object_id) is not None

    def _merge(
        self, image: MetadataImage, group: Group, read: Sequence[Source | LeftOut]
    ) -> UnitReport | PlannedMerge:
        (source,) = read
        if isinstance(source, LeftOut):
            return self._failed(group, f"object {source.object_id}: {source.reason}")
        metadata = source.metadata
        try:
            self._bucket_of[group.name] = self._output(metadata)
            key, position = object_key(metadata.object_id), tail_position(source)
            copies = self._context.buckets.copies(metadata.bucket_ids, group.name)
            tail = copies.read(lambda store: store.get_range(key, position, metadata.size_bytes))
            return PlannedMerge(group, WholeObject(source, tail))
        except SiltstoneError as trouble:
            return self._failed(group, failure_in_one_line(trouble))

    def _output(self, metadata: ObjectMetadata) -> int:
        """Returns the bucket of the copy, or of the first copy under replication. Raises what ``OutputBuckets`` and
        ``check_may_write`` raise."""
        if metadata.kind is ObjectKind.STREAM_SET_OBJECT:
            bucket_id = self._outputs.of_set()
        else:
            bucket_id = self._outputs.of_stream(metadata.ranges[0].stream_id)
        self._outputs.of_copies()
        if bucket_id not in self._checked:
            check_may_write(self._context, bucket_id)
            self._checked.add(bucket_id)
        return bucket_id

    def _prepare(self, planned: Sequence[PlannedMerge]) -> list[Merging]:
        bucket_ids = tuple(self._bucket_of[each.group.name] for each in planned)
        command = PrepareObjects(
            len(planned), self._settings.time_limit_ms, job_id=self._attempt.job_id, bucket_ids=bucket_ids
        )
        first_id = prepare(self._context, command, self._outputs)
        copies: list[Merging] = []
        for at, (each, bucket_id) in enumerate(zip(planned, bucket_ids, strict=True)):
            copy = Copying(each.group, each.merge, first_id + at, self._context.buckets.store(bucket_id))
            copy.bucket_id = bucket_id
            copy.source_url = self._context.buckets.store(each.group.members[0].bucket_id).url
            copy.copies = self._copies_of(each.group)
            copies.append(copy)
        return copies
