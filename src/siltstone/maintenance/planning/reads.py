"""Which ranges of which sources an iteration reads: adjacent blocks joined, each request within its limit."""

import msgspec
import numpy as np

from siltstone.maintenance.planning.columns import Table


class Read(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Bytes [start, end) of source number ``source``."""

    source: int
    start: int
    end: int


def plan_reads(blocks: Table, request_bytes_max: int) -> list[Read]:
    """By source, then position. Every block lies in one span of reads that follow each other; a request may end
    inside a block, so that a span costs the fewest requests."""
    if not len(blocks):
        return []
    ordered = blocks[["source", "position", "size_bytes"]][np.lexsort((blocks["position"], blocks["source"]))]
    source, start = ordered["source"], ordered["position"]
    end = start + ordered["size_bytes"]
    begins = np.ones(len(blocks), dtype=np.bool_)
    begins[1:] = (source[1:] != source[:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(blocks)) - 1
    spans = zip(source[first].tolist(), start[first].tolist(), end[last].tolist(), strict=True)
    return [
        Read(number, position, min(position + request_bytes_max, span_end))
        for number, span_start, span_end in spans
        for position in range(span_start, span_end, request_bytes_max)
    ]
