"""Decides which files of a table are rewritten in a round. Pure.

In a table that is only appended to, the small files of a partition value are joined when there are many of them. In a
table with the newest record of each key, the files of each bucket that has new records are merged with the new records.

A file is rewritten without the rows that other programs have deleted of it (rule 16). If that cannot be done, the file
is left out of joins, and no merge may need it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from siltstone.model.limits import MIB
from siltstone.tables.failures import TableFileRefused
from siltstone.tables.formats.port import DataFile, PartitionValue, TableFile
from siltstone.tables.task_input import FILE_BYTES

SMALL_BYTES = 32 * MIB
SMALL_FILES_MAX = 10
"""When a partition value that gets new rows has so many files below 32 MiB, they become one. A quiet topic is exported
every five minutes; a reader would otherwise open 288 files for a day. Each row is written again some times, until its
file has 32 MiB: at most three bytes for each byte of the file, in a table of files of 10 MiB."""

JOINS_MAX = 32
"""At most this many partition values are joined in a round, so that a round does not take much longer than its
export."""

Values = tuple[PartitionValue, ...]


class Rewrite(msgspec.Struct, frozen=True):
    """The ``old`` files of a partition value become new ones. ``staged`` files have records to merge into them."""

    values: Values
    old: tuple[TableFile, ...]
    staged: tuple[DataFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The bytes of the files that are read."""
        return sum(each.size_bytes for each in (*self.old, *self.staged))


def joins(there: Iterable[TableFile], added: Sequence[DataFile]) -> list[Rewrite]:
    """Returns the joins of small files. Only partition values that get rows in this round are considered."""
    small: dict[Values, list[TableFile]] = {each.partition: [] for each in added}
    for each in there:
        if each.partition in small and each.size_bytes < SMALL_BYTES and not (each.unreadable or each.kept):
            small[each.partition].append(each)
    found = [(values, files) for values, files in small.items() if len(files) >= SMALL_FILES_MAX]
    found.sort(key=lambda each: -len(each[1]))
    return [Rewrite(values, _fitting(files)) for values, files in found[:JOINS_MAX]]


def _fitting(files: list[TableFile]) -> tuple[TableFile, ...]:
    """Returns the smallest files, as many as together become one file."""
    chosen: list[TableFile] = []
    size_bytes = 0
    for each in sorted(files, key=lambda file: (file.size_bytes, file.path)):
        size_bytes += each.size_bytes
        if size_bytes > FILE_BYTES and len(chosen) > 1:
            break
        chosen.append(each)
    return tuple(chosen)


def merges(
    table: str, there: Iterable[TableFile], staged: Sequence[DataFile], *, of_all_buckets: bool = False
) -> list[Rewrite]:
    """Returns the merges of staged files, one for each bucket for which they have records, or for all buckets with
    rows, too. Raises TableFileRefused."""
    by_bucket: dict[Values, list[DataFile]] = {}
    for each in staged:
        by_bucket.setdefault(each.partition, []).append(each)
    old: dict[Values, list[TableFile]] = {values: [] for values in by_bucket}
    for each in there:
        if of_all_buckets:
            old.setdefault(each.partition, [])
        if each.is_divided_otherwise or each.partition in old:
            if reason := each.unreadable or each.kept:
                raise TableFileRefused(table, each.path, "merged with newer records", reason)
            old[each.partition].append(each)
    return [Rewrite(values, tuple(files), tuple(by_bucket.get(values, ()))) for values, files in old.items()]


def tasks_of(rewrites: Sequence[Rewrite], slots: int) -> list[list[Rewrite]]:
    """Divides the rewrites into tasks, in their order. A task gets small ones until it reads 32 MiB, or its share of
    the bytes of all if there are fewer than 32 MiB for each of the ``slots``, which run one task each."""
    enough_bytes = min(SMALL_BYTES, -(-sum(each.size_bytes for each in rewrites) // slots))
    found: list[list[Rewrite]] = []
    room_bytes = 0
    for each in rewrites:
        if room_bytes <= 0:
            found.append([])
            room_bytes = enough_bytes
        found[-1].append(each)
        room_bytes -= each.size_bytes
    return found
