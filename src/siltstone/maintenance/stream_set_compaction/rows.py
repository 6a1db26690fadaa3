"""Describes the outputs of a compaction plan to people: each new object, with the reason for making it."""

from collections.abc import Iterator

import numpy as np

from siltstone.maintenance.pipeline.kind import PlannedOutput
from siltstone.maintenance.stream_set_compaction.grouping import Fate
from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.model.limits import MINUTE_MS
from siltstone.model.objects import ObjectKind


def planned_outputs(plan: CompactionPlan) -> Iterator[PlannedOutput]:
    """Yields the outputs in the order of their numbers, which is that of their object ids."""
    if plan.has_stream_set_object:
        yield _stream_set_row(plan)
    ends = np.array([bounds.end for bounds in plan.bounds], dtype=np.int64)
    for number in range(len(plan.pieces)):
        yield _stream_object_row(
            plan, number, int(np.searchsorted(ends, plan.pieces.first[number], "right")) + 1
        )


def _stream_set_row(plan: CompactionPlan) -> PlannedOutput:
    rows = plan.table[plan.small_rows]
    parts = [at for at, bounds in enumerate(plan.bounds, start=1) if bounds.part_end > bounds.part_first]
    streams = int((~plan.extents.is_split).sum())
    return PlannedOutput(
        makes=ObjectKind.STREAM_SET_OBJECT.label,
        stream_id=None,
        start_offset=None,
        end_offset=None,
        streams=streams,
        blocks=len(rows),
        size_bytes=int(rows["size_bytes"].sum()),
        sources=_source_ids(plan, rows["source"]),
        first_task=parts[0],
        last_task=parts[-1],
        reason=f"small extents of {streams} streams, none larger than {plan.settings.split_size_bytes:,} bytes",
    )


def _stream_object_row(plan: CompactionPlan, number: int, iteration: int) -> PlannedOutput:
    first, end = int(plan.pieces.first[number]), int(plan.pieces.end[number])
    rows = plan.table[first:end]
    return PlannedOutput(
        makes=ObjectKind.STREAM_OBJECT.label,
        stream_id=int(rows["stream_id"][0]),
        start_offset=int(rows["start_offset"][0]),
        end_offset=int(rows["end_offset"][-1]),
        streams=1,
        blocks=len(rows),
        size_bytes=int(rows["size_bytes"].sum()),
        sources=_source_ids(plan, rows["source"]),
        first_task=iteration,
        last_task=iteration,
        reason=_reason(plan, number, first, end),
    )


def _reason(plan: CompactionPlan, number: int, first: int, end: int) -> str:
    extent = int(plan.pieces.extent[number])
    whole = (int(plan.extents.first[extent]), int(plan.extents.end[extent]))
    split = f"{plan.settings.split_size_bytes:,}"
    text = {
        Fate.AGED: f"its source is older than {plan.settings.force_split_age_ms // MINUTE_MS} minutes",
        Fate.LARGE: f"{plan.extents.size_bytes[extent]:,} bytes of one stream, more than {split}",
        Fate.COMPACTED: "its topic is compacted",
        Fate.CLASS: "most of the stream set object has another retention time",
        Fate.GAP: f"the stream continues at offset {plan.table['end_offset'][whole[1] - 1]:,} in other objects",
    }[Fate(int(plan.extents.fate[extent]))]
    return text if (first, end) == whole else f"{text}; cut at the memory limit"


def _source_ids(plan: CompactionPlan, numbers: "np.typing.NDArray[np.uint32]") -> tuple[int, ...]:
    return tuple(plan.sources[number].metadata.object_id for number in np.unique(numbers))
