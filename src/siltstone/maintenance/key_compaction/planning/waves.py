"""Streams in portions: those of one run together on the runner, and are committed when it ends."""

from collections.abc import Iterator, Sequence

from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan


def waves(plans: Sequence[StreamPlan], bytes_max: int, streams_max: int) -> Iterator[tuple[StreamPlan, ...]]:
    """In their order. Each has at least one, however large."""
    wave: list[StreamPlan] = []
    bytes_read = 0
    for plan in plans:
        if wave and (len(wave) == streams_max or bytes_read + plan.bytes_read > bytes_max):
            yield tuple(wave)
            wave, bytes_read = [], 0
        wave.append(plan)
        bytes_read += plan.bytes_read
    if wave:
        yield tuple(wave)
