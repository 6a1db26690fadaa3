"""Compacted topics without their bytes: an image, closed segments, and what is planned from it."""

from siltstone.carrying.pipeline.kind import Scope
from siltstone.maintenance.key_compaction.planning.planner import plan_streams
from siltstone.maintenance.key_compaction.planning.stream_plan import PlannedStreams, StreamPlan
from siltstone.metadata.commands import (
    AlterTopicConfigs,
    CommitKeyCompaction,
    CreateTopic,
    OpenStream,
    RollSegments,
    TrimStream,
)
from siltstone.metadata.entities import StreamMetadata
from siltstone.model.limits import MINUTE_MS
from siltstone.model.segments import ClosedSegment
from support.metadata.metadata_world import MetadataWorld


class KeyedMetadata(MetadataWorld):
    """A store in which every offset takes ten bytes; ``topic`` makes a topic with one partition and returns its
    stream."""

    def __init__(self) -> None:
        super().__init__()
        self.register(0)

    def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> int:
        dotted = {"cleanup.policy": "compact"} | {
            key.replace("_", "."): text for key, text in configs.items()
        }
        topic_id = f"{len(self.image.topics) + 1:032x}"
        made = self.do(CreateTopic(0, 1, name, topic_id, partitions, configs=dotted))
        for partition in made.partitions:
            self.do(OpenStream(0, 1, partition.data_stream_id, 0))
        return made.partitions[0].data_stream_id

    def configure(self, name: str = "t", **configs: str) -> None:
        put = {key.replace("_", "."): text for key, text in configs.items()}
        self.do(AlterTopicConfigs(self.image.topic_ids[name], put=put))

    def objects(self, stream_id: int, *ends: int, in_set: bool = False) -> None:
        """Commits one object up to each of ``ends``: stream objects, or stream set objects."""
        for end in ends:
            held = (stream_id, self.stream(stream_id).end_offset, end)
            self.do(self.upload(held) if in_set else self.upload(alone=(held,)))

    def roll(self, stream_id: int, end_offset: int, newest_age_ms: int = 0, open_ms: int = MINUTE_MS) -> None:
        """Closes a segment whose newest record is so old, and which was begun so long ago."""
        start = self.stream(stream_id).active_offset
        segment = ClosedSegment(
            start, end_offset, 1, 1, self.now_ms - newest_age_ms, self.now_ms - open_ms, self.now_ms
        )
        self.do(RollSegments(((stream_id, segment),), node_id=0, node_epoch=1))

    def filled(self, stream_id: int, *ends: int) -> None:
        """Stream objects, all of them in closed segments."""
        self.objects(stream_id, *ends)
        self.roll(stream_id, ends[-1])

    def cleaned(self, stream_id: int, offset: int) -> None:
        """Records a key compaction that found nothing to remove."""
        job_id = self.start_job("key-compaction")
        topic = next(
            each
            for each in self.image.topics.values()
            if stream_id in [partition.data_stream_id for partition in each.partitions]
        )
        self.do(
            CommitKeyCompaction(job_id, stream_id, topic.topic_id, topic.configs, (), (), offset, self.now_ms)
        )
        self.now_ms += 60_000  # the next job takes this one over

    def trim(self, stream_id: int, offset: int) -> None:
        self.do(TrimStream(0, 1, stream_id, 0, offset))

    def stream(self, stream_id: int) -> StreamMetadata:
        return self.image.streams[stream_id]

    def planned(self, **scope: object) -> PlannedStreams:
        return plan_streams(self.image, Scope(**scope), self.now_ms)  # type: ignore[arg-type]

    def the_plan(self, **scope: object) -> StreamPlan:
        planned = self.planned(**scope)
        assert len(planned.chosen) == 1, planned
        return planned.chosen[0]

    def why_not(self, **scope: object) -> str:
        """Returns why the plan leaves out the one stream that there is."""
        planned = self.planned(**scope)
        assert not planned.chosen, planned
        (unplanned,) = planned.unplanned
        return unplanned.reason
