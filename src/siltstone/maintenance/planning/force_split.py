"""Which old stream set objects are split into stream objects whatever their neighbours (T07).

Those of one round are split together, so runs that continue from one into the next become one stream object. An
object of more streams than the round may add stays an ordinary candidate, or it would be in the way for ever.
"""

from collections.abc import Sequence

import numpy as np

from siltstone.maintenance.planning.candidates import is_old
from siltstone.maintenance.planning.columns import Table
from siltstone.maintenance.planning.grouping import Runs
from siltstone.maintenance.planning.sources import Source
from siltstone.maintenance.settings import CompactionSettings


def choose_aged(
    sources: Sequence[Source], tables: Sequence[Table], settings: CompactionSettings, now_ms: int
) -> set[int]:
    """The numbers of the sources to split, oldest first within the limit of stream objects."""
    aged: set[int] = set()
    room = settings.stream_objects_max
    for number, source in enumerate(sources):
        if is_old(source.metadata, settings, now_ms) and (cost := _cost(tables[number], settings)) <= room:
            aged.add(number)
            room -= cost
    return aged


def _cost(table: Table, settings: CompactionSettings) -> int:
    """At most so many stream objects: one for each run, and one for each cut at the memory limit."""
    if not len(table):
        return 0
    runs = Runs(np.sort(table, order=["stream_id", "start_offset"]), 0, settings.split_size_bytes)
    return len(runs) + int(2 * runs.size_bytes.sum() // settings.memory_bytes)
