"""The ranges an object holds, from its index entries: what its commit tells the metadata."""

from collections.abc import Iterable
from itertools import groupby

from siltstone.model.block import BlockEntry
from siltstone.model.objects import ObjectRange


def ranges_of_entries(entries: Iterable[BlockEntry], object_id: int) -> tuple[ObjectRange, ...]:
    """One range for each contiguous run of a stream's blocks, in index order."""
    return tuple(
        _range_of_run(run, object_id)
        for _, blocks in groupby(entries, key=lambda entry: entry.stream_id)
        for run in _contiguous_runs(blocks)
    )


def _contiguous_runs(blocks: Iterable[BlockEntry]) -> Iterable[list[BlockEntry]]:
    run: list[BlockEntry] = []
    for block in blocks:
        if run and run[-1].end_offset != block.start_offset:
            yield run
            run = []
        run.append(block)
    yield run


def _range_of_run(run: list[BlockEntry], object_id: int) -> ObjectRange:
    return ObjectRange(
        stream_id=run[0].stream_id,
        object_id=object_id,
        start_offset=run[0].start_offset,
        end_offset=run[-1].end_offset,
        size_bytes=sum(block.size_bytes for block in run),
        largest_timestamp_ms=max(block.largest_timestamp_ms for block in run),
    )
