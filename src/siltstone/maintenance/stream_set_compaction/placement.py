"""Placement by policy: decides which extents leave the stream set object because of their topic, not their size.

Extents of compacted topics always leave, because only stream objects are compacted by key. Of the other extents,
those of the retention class with most bytes stay. Extents of other classes leave when they are large enough, so that
short-lived data is not kept in the bucket by long-lived data in the same object; smaller ones stay, because an object
of their own would cost more than the space they hold.

A commit may add only so many stream objects. Within that limit the largest extents leave, those of compacted topics
first; the next round takes the others.
"""

import numpy as np

from siltstone.maintenance.blocks.columns import Integers, Table
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.stream_set_compaction.grouping import Extents, Fate
from siltstone.maintenance.stream_set_compaction.retention_class import Classes, RetentionClass


def place(table: Table, extents: Extents, classes: Classes, settings: CompactionSettings) -> None:
    """Changes the fate of small extents that leave the stream set object to COMPACTED or CLASS."""
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
    """The small extents of another class than the one with most bytes that have more than ``small_object_bytes``."""
    sizes = extents.size_bytes[small]
    by_class = np.bincount(held, weights=sizes, minlength=len(RetentionClass))
    misfits: Integers = small[(held != by_class.argmax()) & (sizes > small_object_bytes)]
    return misfits


def _largest(extents: Extents, numbers: Integers, count: int) -> Integers:
    if len(numbers) <= count:
        return numbers
    return numbers[np.argsort(-extents.size_bytes[numbers], kind="stable")][: max(0, count)]


def _room(extents: Extents, settings: CompactionSettings) -> int:
    """How many more stream objects the commit may add, after an upper bound of the cuts at the memory limit."""
    cuts = int(2 * extents.size_bytes.sum() // settings.memory_bytes)
    return settings.stream_objects_max - int(extents.is_split.sum()) - cuts
