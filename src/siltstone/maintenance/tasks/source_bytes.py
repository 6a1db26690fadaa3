"""Reading the source objects of a task: stores by URL, ranged reads side by side, and blocks whose checksums are
verified before they are written to a new object.

A read that fails because of one object raises an error with the object's id, so that the task can report it. Bytes are
not copied in memory: a block that lies in two reads is a list of two views.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from threading import Lock

from siltstone.foundation.crc32c import crc32c
from siltstone.maintenance.blocks.columns import Read, Table
from siltstone.maintenance.tasks.pacing import running_pace
from siltstone.maintenance.tasks.runner import TaskFailure, failure_in_one_line
from siltstone.model.errors import CorruptData
from siltstone.model.objects import object_key
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import DamagedBlock
from siltstone.object_store.opening import open_store
from siltstone.object_store.port import ObjectNotFound, ObjectStore, ObjectTruncated
from siltstone.object_store.retrying import passing

_opened: dict[str, ObjectStore] = {}
_lock = Lock()


def store_at(url: str) -> ObjectStore:
    """The store at a URL, opened once in each process and never closed. In the thread in which a task was called, the
    bytes of its requests are held by the pace of the task: a task calls this there, and gives the store to its other
    threads. Raises what ``open_store`` raises."""
    with _lock:
        store = _opened.get(url)
        if store is None:
            store = _opened[url] = open_store(url)
    pace = running_pace()
    return store if pace is None else passing(store, pace.passage(url))


class UnusableSource(CorruptData):
    """A source object is gone, or shorter than its index says. ``object_id`` names it."""

    def __init__(self, object_id: int, cause: Exception) -> None:
        super().__init__(f"object {object_id} cannot be read: {failure_in_one_line(cause)}")
        self.object_id = object_id


@contextmanager
def blaming(object_id: int) -> Iterator[None]:
    """Inside the ``with`` block, a store's error about a missing or truncated object becomes an UnusableSource."""
    try:
        yield
    except (ObjectNotFound, ObjectTruncated) as cause:
        raise UnusableSource(object_id, cause) from cause


def read_source(store: ObjectStore, object_id: int, start: int, end: int) -> bytes:
    """Bytes [start, end) of a source object. Raises UnusableSource, and what the store raises."""
    with blaming(object_id):
        return store.get_range(object_key(object_id), start, end)


SourceError = (UnusableSource, DamagedBlock)
"""Errors for which one source object is to blame."""


def blame(error: UnusableSource | DamagedBlock) -> TaskFailure:
    return TaskFailure(failure_in_one_line(error), error.object_id)


Views = list[memoryview]


class SourceBytes:
    """The bytes of planned reads. All reads are submitted when this is made; the executor decides how many run side by
    side. They are submitted in the order in which the outputs need them (``wanted`` has source and position of each
    block, in the order of writing), so the first object is written while the blocks of the last are still read."""

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
        """The number of the read that holds the position."""
        return bisect_right(self._starts, (source, position)) - 1

    def views(self, source: int, position: int, size_bytes: int) -> Views:
        """The bytes of a block. Waits until they have been read. Raises what the read raised."""
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


def checked_blocks(blocks: Table, sources: SourceBytes, object_ids: Sequence[int]) -> list[memoryview]:
    """The bytes of the blocks one after another, each block verified by its checksum: rewriting a damaged block would
    give the damage a valid checksum. ``object_ids`` are the ids of the sources, by source number. Raises
    DamagedBlock."""
    buffers: list[memoryview] = []
    columns = (blocks["source"], blocks["position"], blocks["size_bytes"], blocks["crc32c"])
    for at, (source, position, size, crc) in enumerate(
        zip(*(each.tolist() for each in columns), strict=True)
    ):
        views = sources.views(source, position, size)
        if crc32c(views) != crc:
            raise _damaged(blocks, at, object_ids)
        buffers += views
    return buffers


def _damaged(blocks: Table, at: int, object_ids: Sequence[int]) -> DamagedBlock:
    *fields, source = blocks[at].tolist()
    return DamagedBlock(BlockEntry(*fields), object_ids[source], "is damaged: run siltstone check")
