"""Which objects are worth rewriting, and which of them together. Pure.

The *ratio* of an object is its live bytes to all its bytes, of a stream set object to at least the target size. Below
the threshold, strictly, it is a candidate; the smallest ratio first, of equal ones the oldest data.

Two reasons, told apart because the second alone would go on for ever:

sparse   of the bytes of its blocks less than the threshold is live: rewriting it frees the rest
small    it is small for a stream set object: rewriting it frees nothing, but with another one there is one less

A stream object is never small here: joining those of a stream is what stream object compaction does.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from siltstone.foundation.portions import portions
from siltstone.maintenance.collecting.live_bytes import Estimate, LiveBytes
from siltstone.maintenance.planning.sources import Source
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.objects import ObjectKind


class Candidate(msgspec.Struct, frozen=True):
    source: Source
    live: LiveBytes
    ratio: float
    is_sparse: bool

    @property
    def metadata(self) -> ObjectMetadata:
        return self.source.metadata

    @property
    def object_id(self) -> int:
        return self.metadata.object_id


Round = tuple[Candidate, ...]


def is_worth_a_look(
    kind: ObjectKind | None, estimate: Estimate, threshold: float, target_size_bytes: int
) -> bool:
    """Whether its index may show that it is a candidate: what a trim has cut through may be nearly all dead, however
    many offsets are left."""
    return estimate.whole_bytes / _whole(kind, estimate.total_bytes, target_size_bytes) < threshold


def expected_ratio(metadata: ObjectMetadata, estimate: Estimate, target_size_bytes: int) -> float:
    return estimate.live_bytes / _whole(metadata.kind, estimate.total_bytes, target_size_bytes)


def judged(source: Source, live: LiveBytes, threshold: float, target_size_bytes: int) -> Candidate | None:
    """None for an object that is no candidate."""
    metadata = source.metadata
    ratio = live.live_bytes / _whole(metadata.kind, metadata.size_bytes, target_size_bytes)
    is_sparse = live.live_bytes < threshold * live.block_bytes
    is_small = metadata.kind is ObjectKind.STREAM_SET_OBJECT and metadata.size_bytes < target_size_bytes
    # What makes it less than the threshold besides is its index, and that would be as large again.
    return (
        Candidate(source, live, ratio, is_sparse) if ratio < threshold and (is_sparse or is_small) else None
    )


def ordered(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda each: (each.ratio, each.metadata.data_time_ms, each.object_id))


def rounds(candidates: Sequence[Candidate], round_bytes: int, objects_max: int) -> Iterator[Round]:
    """Stream set objects in their order, as many together as the limit of live bytes allows; one larger goes alone."""
    return portions(candidates, objects_max, lambda candidate: (candidate.live.live_bytes,), (round_bytes,))


def is_worth_a_round(members: Sequence[Candidate]) -> bool:
    """Not for a small one that finds nobody to be put together with."""
    return len(members) > 1 or members[0].is_sparse


def _whole(kind: ObjectKind | None, total_bytes: int, target_size_bytes: int) -> int:
    is_set = kind is ObjectKind.STREAM_SET_OBJECT
    return max(1, total_bytes, target_size_bytes if is_set else 0)
