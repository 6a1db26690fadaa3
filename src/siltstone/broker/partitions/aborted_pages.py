"""Which aborted transactions of a partition are in pages, and which the next snapshot holds itself. Pure.

A partition may have millions of aborted transactions, for example one that retention never trims. A snapshot holds the
newest of them; the older ones are in pages beside it, which are written once (``object_formats.aborted_page``). A page
is needed while the log still has the marker of its last transaction.
"""

from collections.abc import Iterable, Sequence

from siltstone.model.limits import ABORTED_PER_PAGE_MAX
from siltstone.object_formats.aborted_page import ENTRY_BYTES
from siltstone.object_formats.partition_snapshot import AbortedPage, AbortedTransaction
from siltstone.offline.transactions import AbortedTransactions

BEFORE_ALL = -1

SNAPSHOT_PART = 4
"""A page, and the transactions behind the pages, take at most a quarter of an append: the rest of a snapshot has to fit
beside them."""


def entries_per_page(append_bytes_max: int) -> int:
    return max(1, min(ABORTED_PER_PAGE_MAX, append_bytes_max // SNAPSHOT_PART // ENTRY_BYTES))


class AbortedPages:
    """``all`` are the pages that the next snapshot names, oldest first."""

    def __init__(self, entries_per_page: int, pages: Iterable[AbortedPage] = ()) -> None:
        self._entries_per_page = entries_per_page
        self.all = tuple(pages)

    @property
    def _in_pages_until(self) -> int:
        """The offset of the marker of the last transaction that is in a page."""
        return self.all[-1].marker_offset if self.all else BEFORE_ALL

    def split(
        self, aborted: AbortedTransactions
    ) -> tuple[list[list[AbortedTransaction]], list[AbortedTransaction]]:
        """Returns the transactions that are in no page yet: the ones that fill pages, page by page, and the rest."""
        waiting = aborted.behind(self._in_pages_until)
        size = self._entries_per_page
        full = len(waiting) // size * size
        return [waiting[at : at + size] for at in range(0, full, size)], waiting[full:]

    def written(self, meta_offset: int, page: Sequence[AbortedTransaction]) -> None:
        """Records that a page was appended to the meta stream."""
        self.all = (*self.all, AbortedPage(meta_offset, page[-1].marker_offset))

    def trim(self, start_offset: int) -> None:
        """Drops the pages whose markers are all before the start of the log."""
        self.all = tuple(page for page in self.all if page.marker_offset >= start_offset)

    def oldest_needed(self, snapshot_offset: int) -> int:
        """Returns the offset to which the meta stream may be trimmed when the snapshot there is durable."""
        return min((page.meta_offset for page in self.all), default=snapshot_offset)
