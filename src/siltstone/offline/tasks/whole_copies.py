"""``run_whole_copy`` is the task that copies one whole object into a further bucket.

Every block is verified on its way, and read from another copy if it is damaged, so a copy is as right as the object
was. An object that is at the target already is kept if it is the same, and deleted otherwise, since the metadata does
not count it as a copy yet. A task that runs twice writes the same bytes. One part is read while the part before it is
written.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import msgspec

from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.model.limits import PART_COUNT_MAX, READ_REQUEST_BYTES_MAX
from siltstone.model.objects import object_key
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import BlockIndex, DamagedBlock, verify_block
from siltstone.object_formats.object_layout import IndexLiesBefore, index_of_tail
from siltstone.object_store.buckets import read_index
from siltstone.object_store.copies import Copies
from siltstone.object_store.port import ObjectAlreadyExists, ObjectNotFound, ObjectStore, UploadedPart
from siltstone.offline.tasks.pacing import PacedThreads
from siltstone.offline.tasks.runner import TaskCodec, TaskFailure, failure_in_one_line, peak_memory_bytes
from siltstone.offline.tasks.source_bytes import (
    SourceError,
    UnusableSource,
    blame,
    blaming,
    copies_at,
    read_block,
    read_source,
    store_at,
)


class WholeCopyInput(msgspec.Struct, frozen=True, kw_only=True):
    """``sources``: pairs of bucket id and URL of the places where the object is. ``target_url``: the bucket of the new
    copy. ``part_bytes_min``: every part but the last has at least this many bytes; 0: READ_REQUEST_BYTES_MAX."""

    object_id: int
    size_bytes: int
    sources: tuple[tuple[int, str], ...]
    target_url: str
    part_bytes_min: int = 0


class WholeCopyResult(msgspec.Struct, frozen=True, kw_only=True):
    """When ``failure`` is set, the copy could not be made, and the other fields have no meaning. An object that was at
    the target already was only read."""

    failure: TaskFailure | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    peak_memory_bytes: int = 0


CODEC = TaskCodec(WholeCopyInput, WholeCopyResult)


def run_whole_copy(data: bytes) -> bytes:
    """Runs the task. It raises only for a bug: failures are in the result."""
    given = CODEC.decode_input(data)
    try:
        return CODEC.encode_result(_run(given))
    except SourceError as error:
        return CODEC.encode_result(WholeCopyResult(failure=blame(error)))
    except SiltstoneError as error:
        return CODEC.encode_result(WholeCopyResult(failure=TaskFailure(failure_in_one_line(error))))


def _run(given: WholeCopyInput) -> WholeCopyResult:
    copy = WholeCopy(copies_at(given.sources, given.object_id), store_at(given.target_url), given)
    written = copy.make()
    return WholeCopyResult(
        bytes_read=given.size_bytes, bytes_written=written, peak_memory_bytes=peak_memory_bytes()
    )


Part = list[Buffer]


class WholeCopy:
    """Makes the copy of one object."""

    def __init__(self, copies: Copies, target: ObjectStore, given: WholeCopyInput) -> None:
        self._copies = copies
        self._target = target
        self._object_id = given.object_id
        self._key = object_key(given.object_id)
        self._size_bytes = given.size_bytes
        part_bytes = given.part_bytes_min or READ_REQUEST_BYTES_MAX
        self._part_bytes = max(part_bytes, -(-given.size_bytes // (PART_COUNT_MAX - 1)))

    def make(self) -> int:
        """Puts the copy, unless it is there already. Returns the bytes written. Raises UnusableSource, DamagedBlock,
        and what the stores raise. A small object, as most are, takes one read and one put."""
        if self._size_bytes <= self._part_bytes:
            return self._make_small()
        entries = self._entries(self._copies)
        if self._is_there(entries):
            return 0
        runs = [*self._runs(entries)]
        if len(runs) == 1:
            self._target.put(self._key, self._read(runs[0], is_last=True))
        else:
            self._upload(runs)
        return self._size_bytes

    def _make_small(self) -> int:
        def undamaged(store: ObjectStore) -> bytes:
            content = store.get_range(self._key, 0, self._size_bytes)
            for entry in self._whole(index_of_tail(content, self._size_bytes)):
                verify_block(memoryview(content)[entry.position : entry.end_position], entry, self._object_id)
            return content

        with blaming(self._object_id):
            try:
                content = self._copies.read(undamaged)
            except CorruptData as cause:
                raise UnusableSource(self._object_id, cause) from cause
        try:
            self._target.put(self._key, [content])
        except ObjectAlreadyExists:  # it has other bytes
            self._target.delete([self._key])
            self._target.put(self._key, [content])
        return self._size_bytes

    def _whole(self, index: BlockIndex | IndexLiesBefore) -> list[BlockEntry]:
        """Returns the blocks by position. Raises CorruptData unless they are the whole object except its index."""
        assert isinstance(index, BlockIndex), "the whole object was read"
        entries = sorted(index, key=lambda each: each.position)
        position = 0
        for entry in entries:
            if entry.position != position:
                raise CorruptData(f"its index does not name the bytes at {position}: run siltstone check")
            position = entry.end_position
        return entries

    def _entries(self, copies: Copies) -> list[BlockEntry]:
        """Returns the blocks of the object by position. Raises UnusableSource unless they are the whole object."""

        def read(store: ObjectStore) -> list[BlockEntry]:
            return self._whole(read_index(store, self._key, self._size_bytes))

        try:
            return copies.read(read)
        except (CorruptData, ObjectNotFound) as cause:
            raise UnusableSource(self._object_id, cause) from cause

    def _runs(self, entries: Sequence[BlockEntry]) -> Iterator[list[BlockEntry]]:
        """Yields the blocks of each part. The last part has the index and the footer, too."""
        run: list[BlockEntry] = []
        for number, entry in enumerate(entries, start=1):
            run.append(entry)
            is_full = run[-1].end_position - run[0].position >= self._part_bytes
            if is_full and number < len(entries):
                yield run
                run = []
        yield run

    def _read(self, run: Sequence[BlockEntry], *, is_last: bool) -> Part:
        """Reads the verified blocks of a part. The index at the end of the last part is verified when the target is
        read."""
        start = run[0].position if run else 0
        blocks_end = run[-1].end_position if run else 0
        end = self._size_bytes if is_last else blocks_end
        data = memoryview(read_source(self._copies, self._object_id, start, end))
        part: Part = []
        for entry in run:
            block = data[entry.position - start : entry.end_position - start]
            try:
                verify_block(block, entry, self._object_id)
            except DamagedBlock:
                if not self._copies.are_several:
                    raise
                block = memoryview(read_block(self._copies, self._object_id, entry))
            part.append(block)
        if is_last:
            part.append(data[blocks_end - start :])
        return part

    def _upload(self, runs: Sequence[list[BlockEntry]]) -> None:
        upload = self._target.start_multipart(self._key)
        try:
            sent: list[UploadedPart] = []
            for number, (position, part) in enumerate(self._parts(runs), start=1):
                sent.append(self._target.upload_part(upload, number, position, part))
            self._target.complete_multipart(upload, sent)
        except BaseException:
            self._target.abort_multipart(upload)
            raise

    def _parts(self, runs: Sequence[list[BlockEntry]]) -> Iterator[tuple[int, Part]]:
        """Yields the parts with their positions; the next part is read while the caller works on the one before."""
        with PacedThreads(1, thread_name_prefix="copy-read") as reader:
            ahead: Future[Part] | None = None
            for number, run in enumerate(runs):
                coming = reader.submit(self._read, run, is_last=number == len(runs) - 1)
                if ahead is not None:
                    yield runs[number - 1][0].position, ahead.result()
                ahead = coming
            if ahead is not None:
                yield runs[-1][0].position if runs[-1] else 0, ahead.result()

    def _is_there(self, entries: Sequence[BlockEntry]) -> bool:
        """Returns whether the object is at the target, undamaged. Another object that is there is deleted."""
        try:
            size_bytes = self._target.head(self._key).size_bytes
        except ObjectNotFound:
            return False
        there = Copies([(0, self._target)])
        try:
            if size_bytes == self._size_bytes and self._entries(there) == list(entries):
                found = WholeCopy(there, self._target, self._as_input())
                for run in self._runs(entries):
                    found._read(run, is_last=False)
                return True
        except SourceError:
            pass
        self._target.delete([self._key])
        return False

    def _as_input(self) -> WholeCopyInput:
        return WholeCopyInput(
            object_id=self._object_id,
            size_bytes=self._size_bytes,
            sources=(),
            target_url="",
            part_bytes_min=self._part_bytes,
        )
