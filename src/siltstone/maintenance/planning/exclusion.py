"""Limits take sources out of a round (T03): too many stream objects, too many streams in the stream set object.

One limit passed: the sources of the one run that is cheapest to give up go, and everything is worked out again. Far
beyond a limit several runs are given up at once, or a thousand sources would take a thousand rounds of planning.
"""

import numpy as np

from siltstone.maintenance.planning.columns import Integers, Table, Truths
from siltstone.maintenance.planning.grouping import Fate, Runs


def beyond_stream_objects(table: Table, runs: Runs, excess: int, source_count: int) -> set[int]:
    """Sources of the split runs with the fewest blocks; of those, the ones from the fewest sources; of those, the
    first. The aged runs alone are within the limit: ``force_split`` saw to it."""
    split = np.flatnonzero(runs.is_split & (runs.fate != Fate.AGED))
    assert len(split), "aged runs alone pass the limit of stream objects"
    run, _ = _pairs(table, runs)
    spread = np.bincount(run, minlength=len(runs))[split]
    order = split[np.lexsort((spread, runs.block_count[split]))]
    share = excess / max(1, len(split))
    return _give_up(table, runs, order, quota=int(source_count * share / 2))


def beyond_streams(
    table: Table, runs: Runs, excess: int, source_count: int, streams_of_sources: Integers
) -> set[int]:
    """Sources of the small run whose sources hold the fewest streams; of those, the first."""
    small = np.flatnonzero(~runs.is_split)
    run, source = _pairs(table, runs)
    weight = np.bincount(run, weights=streams_of_sources[source], minlength=len(runs))[small]
    order = small[np.argsort(weight, kind="stable")]
    share = excess / max(1, len(small))
    return _give_up(table, runs, order, quota=int(source_count * share / 2))


def youngest(active: Truths, share: float) -> set[int]:
    """The share of the active sources with the youngest data, at least one: sources are numbered oldest first."""
    numbers = np.flatnonzero(active)
    assert len(numbers), "aged runs alone pass the limit of stream objects"
    return set(numbers[-max(1, int(len(numbers) * share)) :].tolist())


def _give_up(table: Table, runs: Runs, order: Integers, quota: int) -> set[int]:
    """The sources of the first run, and of those after it as long as they are at most ``quota`` in all."""
    given_up: set[int] = set()
    for run in order.tolist():
        more = given_up | set(table["source"][runs.first[run] : runs.end[run]].tolist())
        if given_up and len(more) > quota:
            break
        given_up = more
        if len(given_up) >= quota:
            break
    return given_up


def _pairs(table: Table, runs: Runs) -> tuple[Integers, Integers]:
    """Every (run, source) once. Within a run a source may come, go and come back."""
    width = int(table["source"].max(initial=0)) + 1
    pairs = np.unique(runs.of_rows() * width + table["source"].astype(np.int64))
    return pairs // width, pairs % width
