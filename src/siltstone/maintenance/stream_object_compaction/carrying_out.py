"""What the engine has to know of a merge group: its sources, the object that is made of them, and the commit.

``Merging`` is one object that is made of the parts of others, in tasks that copy or read them. Relocation uses it, too:
a relocated object is made of all parts of one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from siltstone.carrying.committing import Standing, commit, prepare
from siltstone.carrying.engine import WorkKind
from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.stream_object_compaction.merge import CopiedPart, Merge, Part, ReadPart, plan_merge
from siltstone.maintenance.stream_object_compaction.planning import MergeGroup, held_by
from siltstone.maintenance.stream_object_compaction.task import run_copies
from siltstone.maintenance.stream_object_compaction.task_input import CODEC, CopyInput, CopyResult
from siltstone.metadata.commands import CommitCompaction, NewObject, PrepareObjects
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.streams import is_live
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import ObjectKind, object_key
from siltstone.object_store.port import MultipartUpload, ObjectStore, UploadedPart
from siltstone.offline.blocks.columns import Source, SourceUnusable
from siltstone.offline.blocks.indexes import read_indexes
from siltstone.offline.output_buckets import OutputBuckets
from siltstone.offline.settings import StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import RunFailed

PARTS_PER_TASK = 16
"""A task costs some ten milliseconds to start. This many parts are seconds of work, and a large object still makes
several tasks."""

OVERTAKEN = "its objects were replaced, trimmed or deleted meanwhile"

Place = tuple[int, str]
"""Bucket id, and the URL of the bucket."""


class Merging:
    """One new object that is being made in ``store`` of the parts of others. ``object_id`` and ``store`` are set when
    it is prepared. ``source_url``: the bucket of the sources, if it is another one than that of the object;
    ``copies``: the places of each source, if any source is in several buckets. ``upload`` is None before it is started,
    when none is needed, and once it is completed."""

    object_id: int
    store: ObjectStore

    def __init__(
        self, name: str, merge: Merge, attempt: Attempt, bucket_id: int, read_request_bytes_max: int
    ) -> None:
        self.name = name
        self.merge = merge
        self.bucket_id = bucket_id
        self.source_url = ""
        self.copies = _places(attempt, merge.sources)
        self.trouble: SiltstoneError | None = None
        self.upload: MultipartUpload | None = None
        self.results: list[CopyResult] = []
        self._attempt = attempt
        self._read_request_bytes_max = read_request_bytes_max
        self._bucket_ids: tuple[int, ...] = ()

    def prepared(self, object_id: int) -> None:
        self.object_id = object_id
        self.store = self._attempt.context.buckets.store(self.bucket_id)

    @property
    def key(self) -> str:
        return object_key(self.object_id)

    @property
    def data_bytes(self) -> int:
        return self.merge.data_bytes

    def begin(self) -> None:
        if not self.merge.is_put:
            self.upload = self.store.start_multipart(self.key)

    def inputs(self) -> Sequence[bytes]:
        return [CODEC.encode_input(given) for given in self.task_inputs()]

    def task_inputs(self) -> Iterator[CopyInput]:
        parts = self.merge.parts
        for first in range(0, len(parts), PARTS_PER_TASK):
            copied, read, blocks = self._shared_out(parts[first : first + PARTS_PER_TASK])
            yield CopyInput(
                bucket_url=self.store.url,
                key=self.key,
                upload=self.upload,
                source_ids=self.merge.source_ids,
                blocks=blocks,
                copied=copied,
                read=read,
                read_request_bytes_max=self._read_request_bytes_max,
                source_url=self.source_url,
                copies=self.copies,
            )

    def take(self, answers: Sequence[bytes]) -> None:
        self.results = [CODEC.decode_result(answer) for answer in answers]
        failures = [result.failure.reason for result in self.results if result.failure is not None]
        if failures:
            self.trouble = RunFailed(failures[0])

    def complete(self) -> None:
        sent = sorted((part for result in self.results for part in result.parts), key=_number)
        expected = [
            (part.part_number, part.position, self.merge.part_bytes(part)) for part in self.merge.parts
        ]
        assert [(each.part_number, each.position, each.size_bytes) for each in sent] == expected
        if self.upload is not None:
            self.store.complete_multipart(self.upload, sent)
            self.upload = None

    @property
    def new_objects(self) -> Mapping[int, int]:
        return {self.object_id: self.merge.size_bytes}

    def place(self, standing: Mapping[int, Standing]) -> None:
        self._bucket_ids = standing[self.object_id].bucket_ids

    def commit(self) -> None:
        new = msgspec.structs.replace(self.merge.new_object(self.object_id), bucket_ids=self._bucket_ids)
        commit(self._attempt.context, self.command(self._attempt.job_id, new))

    def command(self, job_id: int, new: NewObject) -> CommitCompaction:
        """A new object is of the kind of its sources."""
        sources = self.merge.source_ids
        if self.merge.sources[0].kind is ObjectKind.STREAM_SET_OBJECT:
            return CommitCompaction(job_id, sources, new)
        return CommitCompaction(job_id, sources, None, (new,))

    def done(self) -> UnitReport:
        return UnitReport(
            name=self.name,
            outcome=Outcome.DONE,
            text=self.words(),
            bytes_read=sum(result.bytes_read for result in self.results),
            bytes_written=sum(result.bytes_written for result in self.results),
            bytes_freed=self.merge.bytes_freed,
            objects_before=len(self.merge.sources),
            objects_after=1,
            peak_memory_bytes=max(result.peak_memory_bytes for result in self.results),
        )

    def words(self) -> str:
        size = size_words(self.merge.size_bytes)
        if self.source_url:
            return f"{size} copied from bucket {self.merge.sources[0].bucket_id} to {self.bucket_id}"
        copied = size_words(sum(result.bytes_copied for result in self.results))
        objects = counted(len(self.merge.sources), "stream object")
        return f"{objects} became one, {size}; {copied} copied inside the store"

    def abandon(self) -> None:
        if self.upload is not None:
            self.store.abort_multipart(self.upload)

    def _shared_out(
        self, parts: tuple[Part, ...]
    ) -> tuple[tuple[CopiedPart, ...], tuple[ReadPart, ...], bytes]:
        """Returns the parts of one task: those to copy, those to read, and the blocks that the parts to read consist
        of."""
        blocks: list[bytes] = []
        read: list[ReadPart] = []
        first = 0
        for part in parts:
            if isinstance(part, ReadPart):
                end = first + part.end_block - part.first_block
                read.append(msgspec.structs.replace(part, first_block=first, end_block=end))
                blocks.append(self.merge.blocks_of(part).tobytes())
                first = end
        copied = tuple(part for part in parts if isinstance(part, CopiedPart))
        return copied, tuple(read), b"".join(blocks)


def _number(part: UploadedPart) -> int:
    return part.part_number


def _places(attempt: Attempt, sources: Sequence[ObjectMetadata]) -> tuple[tuple[Place, ...], ...]:
    if not any(source.copies for source in sources):
        return ()
    store = attempt.context.buckets.store
    return tuple(tuple((each, store(each).url) for each in source.bucket_ids) for source in sources)


def merges(attempt: Attempt, settings: StreamObjectCompactionSettings) -> WorkKind[MergeGroup, Merging]:
    """The new object of a group is in the bucket of its sources, because a store copies within one bucket."""
    outputs = OutputBuckets(attempt.context)

    def make(image: MetadataImage, groups: Sequence[MergeGroup]) -> Callable[[MergeGroup], Merging]:
        source_of = read_sources(attempt, [member for group in groups for member in group.members])

        def merged(group: MergeGroup) -> Merging:
            sources = [source_of(member) for member in group.members]
            merge = plan_merge(sources, image.streams, settings)
            return Merging(group.name, merge, attempt, group.bucket_id, settings.read_request_bytes_max)

        return merged

    return WorkKind(
        step="copy",
        task=run_copies,
        stands=stands,
        buckets=lambda group: {group.bucket_id, *outputs.of_copies()},
        make=make,
        prepare=lambda works: prepare_all(attempt, outputs, settings.time_limit_ms, works),
        overtaken=OVERTAKEN,
    )


def stands(image: MetadataImage, group: MergeGroup) -> bool:
    """Returns whether all members are still committed and live. A member that was trimmed meanwhile is left to
    ``dead-objects``, and the other members become another group in the next plan."""
    return all(
        is_live(image.streams.get(held_by(member).stream_id), held_by(member))
        and committed_object(image, member.object_id) is not None
        for member in group.members
    )


def read_sources(attempt: Attempt, members: Sequence[ObjectMetadata]) -> Callable[[ObjectMetadata], Source]:
    """Reads the indexes of objects. Returns a function that gives the source of one, or raises SourceUnusable."""
    sources, left_out = read_indexes(attempt.context.buckets, members, attempt.watch.steps("read indexes"))
    found = {source.metadata.object_id: source for source in sources}
    reasons = {each.object_id: each.reason for each in left_out}

    def source_of(member: ObjectMetadata) -> Source:
        if member.object_id in reasons:
            raise SourceUnusable(f"object {member.object_id}: {reasons[member.object_id]}")
        return found[member.object_id]

    return source_of


def prepare_all(
    attempt: Attempt, outputs: OutputBuckets, time_limit_ms: int, works: Sequence[Merging]
) -> None:
    """Prepares an object for each work in its bucket."""
    bucket_ids = tuple(work.bucket_id for work in works)
    command = PrepareObjects(len(works), time_limit_ms, job_id=attempt.job_id, bucket_ids=bucket_ids)
    first_id = prepare(attempt.context, command, outputs)
    for object_id, work in enumerate(works, start=first_id):
        work.prepared(object_id)
