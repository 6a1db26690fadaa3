"""Streams in portions: those of one run together on the runner, and are committed when it ends."""

from collections.abc import Iterator, Sequence

from siltstone.foundation.portions import portions
from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan


def waves(plans: Sequence[StreamPlan], bytes_max: int, streams_max: int) -> Iterator[tuple[StreamPlan, ...]]:
    """In their order. Each has at least one, however large."""
    return portions(plans, streams_max, lambda plan: (plan.bytes_read,), (bytes_max,))
