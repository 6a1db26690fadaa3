"""What a compaction did, for people and scripts."""

from collections.abc import Callable, Sequence

import msgspec

from siltstone.maintenance.planning.plan import CompactionPlan
from siltstone.maintenance.planning.sources import LeftOut
from siltstone.maintenance.rewriting.unit import IterationResult


class CompactionProgress(msgspec.Struct, frozen=True):
    """``step`` is one of "read indexes", "rewrite", "commit"."""

    step: str
    done: int
    total: int


OnProgress = Callable[[CompactionProgress], None]


def tell_step(step: str, on_progress: OnProgress | None) -> Callable[[int, int], None]:
    """Takes (done, total) of one step."""

    def tell(done: int, total: int) -> None:
        if on_progress is not None:
            on_progress(CompactionProgress(step, done, total))

    return tell


class CompactionReport(msgspec.Struct, frozen=True):
    """``committed`` is False when there was nothing to do, and only then.

    Bytes and requests are those of the tasks' attempts that counted. ``peak_memory_bytes`` is the largest of the
    processes they ran in. ``has_remaining``: another round has work at once.
    """

    committed: bool
    job_id: int | None
    objects_before: int
    objects_after: int
    index_entries_before: int
    index_entries_after: int
    bytes_before: int
    bytes_after: int
    stream_set_object: int | None
    stream_objects: int
    iterations: int
    bytes_read: int
    read_requests: int
    bytes_written: int
    write_requests: int
    seconds: float
    peak_memory_bytes: int
    left_out: tuple[LeftOut, ...]
    has_remaining: bool

    @property
    def in_one_line(self) -> str:
        if not self.committed:
            return "nothing to do"
        return (
            f"{self.objects_before} objects became {self.objects_after}, {self.index_entries_before} index entries"
            f" {self.index_entries_after}; {self.bytes_read} bytes read in {self.read_requests} requests,"
            f" {self.bytes_written} written in {self.write_requests}; {self.seconds:.1f} s"
        )


def report_of(
    plan: CompactionPlan,
    results: Sequence[IterationResult],
    *,
    job_id: int | None,
    first_object_id: int | None,
    bytes_after: int,
    seconds: float,
) -> CompactionReport:
    """``job_id`` None: the plan was empty."""
    return CompactionReport(
        committed=job_id is not None,
        job_id=job_id,
        objects_before=len(plan.compacted_sources),
        objects_after=plan.object_count,
        index_entries_before=sum(len(source.index) for source in plan.compacted_sources),
        index_entries_after=plan.index_entries_after,
        bytes_before=sum(source.metadata.size_bytes for source in plan.compacted_sources),
        bytes_after=bytes_after,
        stream_set_object=first_object_id if plan.has_stream_set_object else None,
        stream_objects=len(plan.pieces),
        iterations=len(plan.bounds),
        bytes_read=sum(result.bytes_read for result in results),
        read_requests=sum(result.read_requests for result in results),
        bytes_written=sum(result.bytes_written for result in results),
        write_requests=sum(result.write_requests for result in results),
        seconds=seconds,
        peak_memory_bytes=max((result.peak_memory_bytes for result in results), default=0),
        left_out=plan.left_out,
        has_remaining=plan.has_remaining,
    )
