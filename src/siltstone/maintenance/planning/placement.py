"""Placement by policy: which runs leave the stream set object because of what they are, not because of their size.

Streams of compacted topics always do: only stream objects are key-compacted. Of the other runs, the retention class
with most bytes stays; larger runs of other classes leave, so that nobody short-lived is pinned by somebody long-lived.
Small ones stay whatever they are: an object of their own costs more than the space they may hold.

One commit adds so many stream objects at most. Beyond that the largest leave, compacted ones first; the next round
goes on.
"""

import numpy as np

from siltstone.maintenance.planning.columns import Integers, Table
from siltstone.maintenance.planning.grouping import Fate, Runs
from siltstone.maintenance.planning.retention_class import Classes, RetentionClass
from siltstone.maintenance.settings import CompactionSettings


def place(table: Table, runs: Runs, classes: Classes, settings: CompactionSettings) -> None:
    """Changes the fate of some small runs."""
    if not classes or not len(runs):
        return
    small = np.flatnonzero(~runs.is_split)
    held = classes_of(table["stream_id"][runs.first[small]], classes)
    is_compacted = held == RetentionClass.COMPACTED
    room = _room(runs, settings)
    compacted = _largest(runs, small[is_compacted], room)
    misfits = _misfits(runs, small[~is_compacted], held[~is_compacted], settings.small_object_bytes)
    runs.fate[compacted] = Fate.COMPACTED
    runs.fate[_largest(runs, misfits, room - len(compacted))] = Fate.CLASS


def classes_of(stream_ids: Integers, classes: Classes) -> Integers:
    return np.array(
        [classes.get(stream_id, RetentionClass.NONE) for stream_id in stream_ids.tolist()], dtype=np.int64
    )


def _misfits(runs: Runs, small: Integers, held: Integers, small_object_bytes: int) -> Integers:
    """Those of another class than most of the bytes."""
    sizes = runs.size_bytes[small]
    by_class = np.bincount(held, weights=sizes, minlength=len(RetentionClass))
    misfits: Integers = small[(held != by_class.argmax()) & (sizes > small_object_bytes)]
    return misfits


def _largest(runs: Runs, numbers: Integers, count: int) -> Integers:
    if len(numbers) <= count:
        return numbers
    return numbers[np.argsort(-runs.size_bytes[numbers], kind="stable")][: max(0, count)]


def _room(runs: Runs, settings: CompactionSettings) -> int:
    """How many more stream objects the commit takes, cuts at the memory limit counted generously."""
    cuts = int(2 * runs.size_bytes.sum() // settings.memory_bytes)
    return settings.stream_objects_max - int(runs.is_split.sum()) - cuts
