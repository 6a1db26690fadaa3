"""The source bytes of an iteration: reads under way, and views of the blocks in what they brought.

Nothing is joined in memory: a block that lies in two reads is a list of two views.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future

from siltstone.maintenance.planning.reads import Read

Views = list[memoryview]


class SourceBytes:
    """Begins all reads at once; the executor decides how many run side by side. They are begun in the order in which
    the outputs need them (``wanted``: source and position of each block, as it is written), so the first object is
    written while the blocks of the last are still being read."""

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
        """The bytes of a block, when they have been read. Raises what the read raised."""
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
