"""Placement by policy: which extents leave the stream set object because of what they are, not because of their size.

Streams of compacted topics always do: only stream objects are key-compacted. Of the other extents, the retention
class with most bytes stays; larger extents of other classes leave, so that nobody short-lived is pinned by somebody
long-lived. Small ones stay whatever they are: an object of their own costs more than the space they may hold.

One commit adds so many stream objects at most. Beyond that the largest leave, compacted ones first; the next round
goes on.
"""

import numpy as np

from siltstone.maintenance.blocks.columns import Integers, Table
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.stream_set_compaction.grouping import Extents, Fate
from siltstone.maintenance.stream_set_compaction.retention_class import Classes, RetentionClass


def place(table: Table, extents: Extents, classes: Classes, settings: CompactionSettings) -> None:
    """Changes the fate of some small extents."""
    if not classes or not len(extents):
        return
    small = np.flatnonzero(~extents.is_split)
    held = classes_of(table["stream_id"][extents.first[small]], classes)
    is_compacted = held == RetentionClass.COMPACTED
    room = _room(extents, settings)
    compacted = _largest(extents, small[is_compacted], room)
    misfits = _misfits(extents, small[~is_compacted], held[~is_compacted], settings.small_object_bytes)
    extents.fate[compacted] = Fate.COMPACTED
    extents.fate[_largest(extents, misfits, room - len(compacted))] = Fate.CLASS


def classes_of(stream_ids: Integers, classes: Classes) -> Integers:
    return np.array(
        [classes.get(stream_id, RetentionClass.NONE) for stream_id in stream_ids.tolist()], dtype=np.int64
    )


def _misfits(extents: Extents, small: Integers, held: Integers, small_object_bytes: int) -> Integers:
    """Those of another class than most of the bytes."""
    sizes = extents.size_bytes[small]
    by_class = np.bincount(held, weights=sizes, minlength=len(RetentionClass))
    misfits: Integers = small[(held != by_class.argmax()) & (sizes > small_object_bytes)]
    return misfits


def _largest(extents: Extents, numbers: Integers, count: int) -> Integers:
    if len(numbers) <= count:
        return numbers
    return numbers[np.argsort(-extents.size_bytes[numbers], kind="stable")][: max(0, count)]


def _room(extents: Extents, settings: CompactionSettings) -> int:
    """How many more stream objects the commit takes, cuts at the memory limit counted generously."""
    cuts = int(2 * extents.size_bytes.sum() // settings.memory_bytes)
    return settings.stream_objects_max - int(extents.is_split.sum()) - cuts
