"""Reads the source objects of a task: opens stores by URL, reads ranges side by side, and verifies the checksums of
blocks before they are written to a new object.

A read that fails because of one object raises an error with the object's id, so that the task can report it. Bytes are
not copied in memory: a block that lies in two reads is a list of two views.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from threading import Lock

from siltstone.foundation.crc32c import crc32c
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.model.objects import object_key
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import DamagedBlock, verify_block
from siltstone.object_store.copies import Copies
from siltstone.object_store.opening import open_store
from siltstone.object_store.port import ObjectNotFound, ObjectStore, ObjectTruncated
from siltstone.object_store.retrying import passing
from siltstone.offline.blocks.columns import Read, Table
from siltstone.offline.tasks.pacing import running_pace
from siltstone.offline.tasks.runner import TaskFailure, failure_in_one_line

log = logging.getLogger(__name__)

_opened: dict[str, ObjectStore] = {}
_lock = Lock()


def store_at(url: str, *, create: bool = False) -> ObjectStore:
    """Returns the store at a URL, which is opened once in each process and never closed; a missing folder is made only
    if ``create``. In a task, the pace of the task holds its requests (``PacedThreads``). Raises what ``open_store``
    raises."""
    with _lock:
        store = _opened.get(url)
        if store is None:
            store = _opened[url] = open_store(url, create=create)
    pace = running_pace()
    return store if pace is None else passing(store, pace.passage(url))


class UnusableSource(CorruptData):
    """A source object is gone, or shorter than its index says. ``object_id`` names it."""

    def __init__(self, object_id: int, cause: Exception) -> None:
        super().__init__(f"object {object_id} cannot be read: {failure_in_one_line(cause)}")
        self.object_id = object_id


@contextmanager
def blaming(object_id: int) -> Iterator[None]:
    """Turns a store's error about a missing or truncated object, inside the ``with`` block, into UnusableSource."""
    try:
        yield
    except (ObjectNotFound, ObjectTruncated) as cause:
        raise UnusableSource(object_id, cause) from cause


def copies_at(urls: Sequence[tuple[int, str]], object_id: int) -> Copies:
    """Returns the copies of an object in the buckets of these ids and URLs. Raises what ``open_store`` raises."""

    def note(bucket_id: int, failure: SiltstoneError) -> None:
        log.warning(
            "object %d could not be read from bucket %d, and was read from another one: %s",
            object_id, bucket_id, failure,
        )  # fmt: skip

    return Copies([(bucket_id, store_at(url)) for bucket_id, url in urls], note)


def read_source(copies: Copies, object_id: int, start: int, end: int) -> bytes:
    """Reads bytes [start, end) of a source object. Raises UnusableSource, and what the stores raise."""
    with blaming(object_id):
        return copies.read(lambda store: store.get_range(object_key(object_id), start, end))


def read_block(copies: Copies, object_id: int, entry: BlockEntry) -> bytes:
    """Reads an undamaged copy of a block of a source object, after a damaged one was read. Raises DamagedBlock,
    UnusableSource, and what the stores raise."""

    def undamaged(store: ObjectStore) -> bytes:
        block = store.get_range(object_key(object_id), entry.position, entry.end_position)
        verify_block(block, entry, object_id)
        return block

    with blaming(object_id):
        return copies.read(undamaged)


SourceError = (UnusableSource, DamagedBlock)
"""Errors that one source object has caused."""


def blame(error: UnusableSource | DamagedBlock) -> TaskFailure:
    return TaskFailure(failure_in_one_line(error), error.object_id)


Views = list[memoryview]


class SourceBytes:
    """Holds the bytes of planned reads. All reads are submitted when this object is made; the executor decides how many
    run side by side. They are submitted in the order in which the outputs need them (``wanted`` has source and position
    of each block, in the order of writing), so the first object is written while the blocks of the last are still
    read."""

    def __init__(
        self,
        reads: Sequence[Read],
        wanted: Iterable[tuple[int, int]],
        fetch: Callable[[Read], bytes],
        readers: Executor,
    ) -> None:
        self._reads = list(reads)
        self._starts = [(read.source, read.start) for read in reads]
        assert self._starts == sorted(self._starts), "reads are ordered by source and position"
        first_wanted = dict.fromkeys(self._holding(*block) for block in wanted)
        order = dict.fromkeys((*first_wanted, *range(len(self._reads))))
        begun = {at: readers.submit(fetch, self._reads[at]) for at in order}
        self._brought: list[Future[bytes]] = [begun[at] for at in range(len(self._reads))]

    def _holding(self, source: int, position: int) -> int:
        """Returns the number of the read that holds the position."""
        return bisect_right(self._starts, (source, position)) - 1

    def views(self, source: int, position: int, size_bytes: int) -> Views:
        """Returns the bytes of a block, and waits until they have been read. Raises what the read raised."""
        views: Views = []
        at = self._holding(source, position)
        end = position + size_bytes
        while position < end:
            read = self._reads[at]
            assert read.source == source and read.start <= position < read.end, f"no read holds {position}"
            until = min(end, read.end)
            whole = memoryview(self._brought[at].result())
            views.append(whole[position - read.start : until - read.start])
            position, at = until, at + 1
        return views


def checked_blocks(
    blocks: Table, sources: SourceBytes, object_ids: Sequence[int], copies_of: Callable[[int], Copies]
) -> list[memoryview]:
    """Returns the bytes of the blocks one after another, each block verified by its checksum: rewriting a damaged block
    would give the damage a valid checksum. A damaged block is read from another copy, if its object has one.
    ``object_ids`` are the ids of the sources, by source number, as ``copies_of`` takes. Raises DamagedBlock."""
    buffers: list[memoryview] = []
    columns = (blocks["source"], blocks["position"], blocks["size_bytes"], blocks["crc32c"])
    for at, (source, position, size, crc) in enumerate(
        zip(*(each.tolist() for each in columns), strict=True)
    ):
        views = sources.views(source, position, size)
        if crc32c(views) != crc:
            copies = copies_of(source)
            if not copies.are_several:
                raise _damaged(blocks, at, object_ids)
            *fields, _ = blocks[at].tolist()
            views = [memoryview(read_block(copies, object_ids[source], BlockEntry(*fields)))]
        buffers += views
    return buffers


def _damaged(blocks: Table, at: int, object_ids: Sequence[int]) -> DamagedBlock:
    *fields, source = blocks[at].tolist()
    return DamagedBlock(BlockEntry(*fields), object_ids[source], "is damaged: run siltstone check")
