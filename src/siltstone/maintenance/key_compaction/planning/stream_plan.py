"""One stream to be compacted: what is read, from where to where, and why."""

import msgspec

from siltstone.foundation.quantity_words import count_words
from siltstone.maintenance.key_compaction.planning.dirtiness import Dirtiness
from siltstone.maintenance.key_compaction.unit import SourceObject
from siltstone.maintenance.pipeline.kind import PlannedUnit, Unplanned


class StreamPlan(msgspec.Struct, frozen=True, kw_only=True):
    """``configs`` is the topic's configuration as it is stored: the commit asks whether it still is. [``dirty_offset``,
    ``bound``) is new, ``limit`` says why it is not more."""

    name: str
    topic: str
    topic_id: str
    configs: dict[str, str]
    partition: int
    stream_id: int
    delete_retention_ms: int
    sources: tuple[SourceObject, ...]
    start_offset: int
    dirty_offset: int
    bound: int
    limit: str
    dirtiness: Dirtiness
    reason: str

    @property
    def source_bytes(self) -> int:
        return sum(source.size_bytes for source in self.sources)

    @property
    def bytes_read(self) -> int:
        """What is dirty is read twice: to map its keys, and to copy what stays."""
        return self.source_bytes + self.dirtiness.dirty_bytes


class PlannedStreams(msgspec.Struct, frozen=True):
    """``chosen``: dirtiest first."""

    chosen: tuple[StreamPlan, ...]
    unplanned: tuple[Unplanned, ...]


def planned_unit(plan: StreamPlan, object_bytes: int) -> PlannedUnit:
    """As people see it. How much will be left is not known before: written may be all that is read once."""
    return PlannedUnit(
        name=plan.name,
        reason=plan.reason,
        topic=plan.topic,
        partition=plan.partition,
        stream_id=plan.stream_id,
        bytes_read=plan.bytes_read,
        bytes_written=plan.source_bytes,
        objects_before=len(plan.sources),
        objects_after=-(-plan.source_bytes // object_bytes),
        detail={
            "new": f"offsets {count_words(plan.dirty_offset)} to {count_words(plan.bound)}",
            "dirty": plan.dirtiness.words,
            "not further": plan.limit,
        },
    )
