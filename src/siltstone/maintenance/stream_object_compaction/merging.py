"""One group being carried out: its merge, bound to what was prepared for it, and what the tasks answered."""

from collections.abc import Iterator

import msgspec

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.pipeline.kind import Outcome, UnitReport
from siltstone.maintenance.planning.stream_objects.groups import Group
from siltstone.maintenance.planning.stream_objects.merge import Merge
from siltstone.maintenance.planning.stream_objects.parts import CopiedPart, Part, ReadPart
from siltstone.maintenance.stream_object_compaction.unit import CopyResult, CopyUnit
from siltstone.metadata.commands import CommitCompaction
from siltstone.model.objects import object_key
from siltstone.object_store.port import MultipartUpload, ObjectStore, UploadedPart

PARTS_PER_TASK = 16
"""A task costs some ten milliseconds; so many parts are seconds of work, and few enough to be shared out."""


class Merging:
    """``upload`` is None before it is started, when none is needed, and once it has become an object."""

    def __init__(self, group: Group, merge: Merge, object_id: int, store: ObjectStore) -> None:
        self.group = group
        self.merge = merge
        self.object_id = object_id
        self.store = store
        self.upload: MultipartUpload | None = None
        self.failure = ""
        self._results: list[CopyResult] = []

    @property
    def key(self) -> str:
        return object_key(self.object_id)

    def start(self) -> None:
        if not self.merge.is_put:
            self.upload = self.store.start_multipart(self.key)

    def units(self, number: int, read_request_bytes_max: int) -> Iterator[CopyUnit]:
        parts = self.merge.parts
        for first in range(0, len(parts), PARTS_PER_TASK):
            copied, read, blocks = self._shared_out(parts[first : first + PARTS_PER_TASK])
            yield CopyUnit(
                number=number,
                bucket_url=self.store.url,
                key=self.key,
                upload=self.upload,
                source_ids=self.merge.source_ids,
                blocks=blocks,
                copied=copied,
                read=read,
                read_request_bytes_max=read_request_bytes_max,
            )

    def take(self, result: CopyResult) -> None:
        self._results.append(result)
        self.failure = self.failure or result.failure

    def complete(self) -> None:
        """What was written becomes an object. Raises what the store does."""
        sent = sorted((part for result in self._results for part in result.parts), key=_number)
        expected = [
            (part.part_number, part.position, self.merge.part_bytes(part)) for part in self.merge.parts
        ]
        assert [(each.part_number, each.position, each.size_bytes) for each in sent] == expected
        if self.upload is not None:
            self.store.complete_multipart(self.upload, sent)
            self.upload = None

    def command(self, job_id: int) -> CommitCompaction:
        return CommitCompaction(job_id, self.merge.source_ids, None, (self.merge.new_object(self.object_id),))

    def done(self) -> UnitReport:
        merge, results = self.merge, self._results
        objects = counted(len(merge.sources), "stream object")
        copied = sum(result.bytes_copied for result in results)
        return UnitReport(
            name=self.group.name,
            outcome=Outcome.DONE,
            text=f"{objects} became one, {size_words(merge.size_bytes)}; {size_words(copied)} copied inside the store",
            bytes_read=sum(result.bytes_read for result in results),
            bytes_written=sum(result.bytes_written for result in results),
            bytes_freed=merge.bytes_freed,
            objects_before=len(merge.sources),
            objects_after=1,
            peak_memory_bytes=max(result.peak_memory_bytes for result in results),
        )

    def _shared_out(
        self, parts: tuple[Part, ...]
    ) -> tuple[tuple[CopiedPart, ...], tuple[ReadPart, ...], bytes]:
        """Of one task's parts: those copied, those read, and the blocks that these count in."""
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
