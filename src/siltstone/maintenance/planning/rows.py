"""A plan for people: one row for each output, with the reason why it is what it is."""

from collections.abc import Iterator

import msgspec
import numpy as np

from siltstone.maintenance.planning.grouping import Fate
from siltstone.maintenance.planning.plan import CompactionPlan
from siltstone.model.limits import MINUTE_MS
from siltstone.model.objects import ObjectKind


class OutputRow(msgspec.Struct, frozen=True):
    """``stream_id`` and the offsets are None for the stream set object. ``sources`` are object ids."""

    kind: ObjectKind
    stream_id: int | None
    start_offset: int | None
    end_offset: int | None
    streams: int
    blocks: int
    size_bytes: int
    sources: tuple[int, ...]
    first_iteration: int
    last_iteration: int
    reason: str


def output_rows(plan: CompactionPlan) -> Iterator[OutputRow]:
    """In the order of their numbers, so of their object ids."""
    if plan.has_stream_set_object:
        yield _stream_set_row(plan)
    ends = np.array([bounds.end for bounds in plan.bounds], dtype=np.int64)
    for number in range(len(plan.pieces)):
        yield _stream_object_row(
            plan, number, int(np.searchsorted(ends, plan.pieces.first[number], "right")) + 1
        )


def _stream_set_row(plan: CompactionPlan) -> OutputRow:
    rows = plan.table[plan.small_rows]
    parts = [at for at, bounds in enumerate(plan.bounds, start=1) if bounds.part_end > bounds.part_first]
    streams = int((~plan.runs.is_split).sum())
    return OutputRow(
        kind=ObjectKind.STREAM_SET_OBJECT,
        stream_id=None,
        start_offset=None,
        end_offset=None,
        streams=streams,
        blocks=len(rows),
        size_bytes=int(rows["size_bytes"].sum()),
        sources=_source_ids(plan, rows["source"]),
        first_iteration=parts[0],
        last_iteration=parts[-1],
        reason=f"the last runs of {streams} streams, none larger than {plan.settings.split_size_bytes:,} bytes",
    )


def _stream_object_row(plan: CompactionPlan, number: int, iteration: int) -> OutputRow:
    first, end = int(plan.pieces.first[number]), int(plan.pieces.end[number])
    rows = plan.table[first:end]
    return OutputRow(
        kind=ObjectKind.STREAM_OBJECT,
        stream_id=int(rows["stream_id"][0]),
        start_offset=int(rows["start_offset"][0]),
        end_offset=int(rows["end_offset"][-1]),
        streams=1,
        blocks=len(rows),
        size_bytes=int(rows["size_bytes"].sum()),
        sources=_source_ids(plan, rows["source"]),
        first_iteration=iteration,
        last_iteration=iteration,
        reason=_reason(plan, number, first, end),
    )


def _reason(plan: CompactionPlan, number: int, first: int, end: int) -> str:
    run = int(plan.pieces.run[number])
    whole = (int(plan.runs.first[run]), int(plan.runs.end[run]))
    text = {
        Fate.AGED: f"its source is older than {plan.settings.force_split_age_ms // MINUTE_MS} minutes",
        Fate.LARGE: f"{plan.runs.size_bytes[run]:,} bytes of one stream, more than {plan.settings.split_size_bytes:,}",
        Fate.COMPACTED: "its topic is compacted",
        Fate.CLASS: "most of the stream set object is kept longer, or less long",
        Fate.GAP: f"what follows, from offset {plan.table['end_offset'][whole[1] - 1]:,}, lies in other objects",
    }[Fate(int(plan.runs.fate[run]))]
    return text if (first, end) == whole else f"{text}; cut at the memory limit"


def _source_ids(plan: CompactionPlan, numbers: "np.typing.NDArray[np.uint32]") -> tuple[int, ...]:
    return tuple(plan.sources[number].metadata.object_id for number in np.unique(numbers))
