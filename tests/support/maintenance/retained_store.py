"""Topics in a maintained store whose segments are closed as a broker closes them; retention runs over it."""

from collections.abc import Callable, Sequence

from siltstone.carrying.pipeline.kind import Budget, Scope, StartRunner, Unplanned
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.retention.kind import Retention
from siltstone.maintenance.retention.planning import BoundOf
from siltstone.metadata.commands import CreateTopic, OpenStream, RollSegments
from siltstone.metadata.entities import StreamMetadata, TopicMetadata
from siltstone.metadata.image import ImageView
from siltstone.model.segments import ClosedSegment
from siltstone.offline.context import MaintenanceContext
from support.maintenance.maintained_store import MaintainedStore


def no_runner() -> StartRunner:
    raise AssertionError("retention runs no task")


class RetainedStore(MaintainedStore):
    """Node 0 has every partition open."""

    def __init__(self) -> None:
        super().__init__()
        self._topics = 0

    def topic(self, name: str, partitions: int = 1, **configs: str) -> TopicMetadata:
        """``retention_ms`` stands for retention.ms."""
        self._topics += 1
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        command = CreateTopic(0, 1, name, f"{self._topics:032x}", partitions, configs=dotted)
        topic = self.metadata.execute(command)
        for partition in topic.partitions:
            for stream_id in (partition.data_stream_id, partition.meta_stream_id):
                self.metadata.execute(OpenStream(0, 1, stream_id, 0))
        return topic

    def stream(self, topic: TopicMetadata, partition: int = 0) -> StreamMetadata:
        return self.image.streams[topic.partitions[partition].data_stream_id]

    def close_segment(
        self, topic: TopicMetadata, partition: int = 0, *, size_bytes: int = 100, age_ms: int = 0
    ) -> None:
        """Closes a segment of everything behind the last one; its newest record is that old."""
        stream = self.stream(topic, partition)
        written_ms = self.clock.now_ms() - age_ms
        segment = ClosedSegment(
            stream.active_offset, stream.end_offset, size_bytes, 1, written_ms, written_ms, written_ms
        )
        self.metadata.execute(RollSegments(((stream.stream_id, segment),), node_id=0, node_epoch=1))

    def fill(
        self, topic: TopicMetadata, ages_ms: Sequence[int], partition: int = 0, *, size_bytes: int = 100
    ) -> None:
        """A segment of 30 records, in an object of its own, for each age."""
        for age_ms in ages_ms:
            self.append(topic.partitions[partition].data_stream_id)
            self.close_segment(topic, partition, size_bytes=size_bytes, age_ms=age_ms)


def retain(
    context: MaintenanceContext,
    scope: Scope = Scope(),  # noqa: B008
    bounds: Callable[[ImageView], BoundOf] | None = None,
) -> RunReport:
    kind = Retention() if bounds is None else Retention(bounds)
    return run(context, kind, no_runner, scope, Budget(), Watch("retention", context.clock))


def unplanned(
    context: MaintenanceContext, bounds: Callable[[ImageView], BoundOf] | None = None
) -> dict[str, str]:
    kind = Retention() if bounds is None else Retention(bounds)
    found: Sequence[Unplanned] = kind.plan(context, Scope(), Watch("retention", context.clock)).unplanned
    return {each.name: each.reason for each in found}
