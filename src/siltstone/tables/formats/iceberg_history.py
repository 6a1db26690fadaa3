"""Finds whether an Iceberg table still comes from the snapshot of the last export, or was rolled back.

Snapshots that were expired are no longer listed, so the parents of the current snapshot alone may not tell: a program
may have expired the snapshot of the last export, a snapshot after it, or the snapshots that a rollback has undone.
Programs that expire a snapshot leave the snapshot after it with the id of a parent that is not listed, or, as pyiceberg
does, without a parent. Then the older metadata files of the table say which snapshot was the current one at each commit
since the last export.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyiceberg.serializers import FromInputFile


def comes_from(table: Any, wanted: int) -> bool:
    """Returns whether the current snapshot comes from that one. If nothing tells, a snapshot that is listed was undone,
    and one that is not listed was expired. Raises what the store raises."""
    metadata = table.metadata
    if metadata.current_snapshot_id is None:
        return False
    if _is_reached(metadata, frozenset([wanted])):
        return True
    found = _told(list(_since(table, wanted)), wanted)
    return metadata.snapshot_by_id(wanted) is None if found is None else found


def _is_reached(metadata: Any, wanted: frozenset[int]) -> bool:
    """Returns whether the listed parents of the current snapshot lead to one of these."""
    snapshot = metadata.snapshot_by_id(metadata.current_snapshot_id)
    while snapshot is not None:
        if not wanted.isdisjoint((snapshot.snapshot_id, snapshot.parent_snapshot_id)):
            return True
        parent_id = snapshot.parent_snapshot_id
        snapshot = None if parent_id is None else metadata.snapshot_by_id(parent_id)
    return False


def _since(table: Any, wanted: int) -> Iterator[Any]:
    """Yields the states of the metadata, the newest first, until one that had the wanted snapshot as its current one,
    or that is no longer there."""
    yield table.metadata
    for each in reversed(table.metadata.metadata_log):
        try:
            metadata = FromInputFile.table_metadata(table.io.new_input(each.metadata_file))
        except FileNotFoundError:
            return
        yield metadata
        if metadata.current_snapshot_id == wanted:
            return


def _told(newest_first: Sequence[Any], wanted: int) -> bool | None:
    """Returns whether the last state comes from the wanted snapshot; None if the states do not go back so far."""
    if newest_first[-1].current_snapshot_id != wanted:
        return None
    good = {wanted}
    for metadata in reversed(newest_first):
        if metadata.current_snapshot_id is not None and _is_reached(metadata, frozenset(good)):
            good.add(metadata.current_snapshot_id)
    return newest_first[0].current_snapshot_id in good
