"""Which sources share a stream with another one (T04). Worked out again each time a limit takes a source away."""

import numpy as np

from siltstone.maintenance.planning.columns import Integers, Table, Truths


class Sharing:
    """Every pair (stream, source) of a table once, so that the question costs pairs, not blocks."""

    def __init__(self, table: Table, source_count: int) -> None:
        self._source_count = source_count
        _, stream = np.unique(table["stream_id"], return_inverse=True)
        pairs = np.unique(stream.astype(np.int64) * source_count + table["source"])
        self._stream: Integers = pairs // max(1, source_count)
        self._source: Integers = pairs % max(1, source_count)

    def sharing(self, active: Truths) -> Truths:
        """Of the active sources those that share a stream with another active one."""
        counted = active[self._source]
        holders = np.bincount(self._stream[counted], minlength=1)
        shared = counted & (holders[self._stream.clip(max=len(holders) - 1)] > 1)
        found = np.zeros(self._source_count, dtype=np.bool_)
        found[self._source[shared]] = True
        return found

    def streams_of_sources(self) -> Integers:
        """How many streams each source holds."""
        return np.bincount(self._source, minlength=self._source_count)
