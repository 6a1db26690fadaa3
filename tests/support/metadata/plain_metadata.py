"""A plain, slow model of the metadata: dictionaries that change record by record, and the rows that follow from them by
loops. It shares no code with the image or the tables."""

from collections.abc import Iterable
from typing import Any

from siltstone.metadata.records import Record

NOT_MODELLED = frozenset({
    "KeySet", "KeyRemoved", "NumbersTaken", "ScanPinned", "ScanUnpinned", "SegmentsRolled", "StreamCleaned",
    "JobRenewed", "TopicConfigured",
})  # fmt: skip
"""Records that change none of the rows below."""


class PlainMetadata:
    def __init__(self) -> None:
        self.streams: dict[int, dict[str, Any]] = {}
        self.objects: dict[int, dict[str, Any]] = {}
        self.topics: dict[str, dict[str, Any]] = {}
        self.nodes: dict[int, dict[str, Any]] = {}
        self.jobs: dict[int, str] = {}

    def apply(self, records: Iterable[Record]) -> None:
        for record in records:
            name = type(record).__name__
            if name not in NOT_MODELLED:
                getattr(self, f"_{name}")(record)

    # -- rows --------------------------------------------------------------------------------------------

    def object_rows(self) -> list[dict[str, Any]]:
        rows = []
        for object_id, one in sorted(self.objects.items()):
            live = sum(held[3] for held in one["ranges"] if self._is_live(held))
            topics = {self.streams[held[0]]["topic"] for held in one["ranges"]}
            rows.append({
                "object_id": object_id, "kind": one["kind"], "state": one["state"], "bucket": one["bucket"],
                "topic": topics.pop() if len(topics) == 1 else None, "bytes": one["bytes"], "live_bytes": live,
                "dead_bytes": one["bytes"] - live, "ranges": len(one["ranges"]),
            })  # fmt: skip
        return rows

    def range_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "object_id": object_id, "stream_id": held[0], "topic": self.streams[held[0]]["topic"],
                "start_offset": held[1], "end_offset": held[2], "bytes": held[3], "is_live": self._is_live(held),
            }
            for object_id, one in sorted(self.objects.items())
            for held in one["ranges"]
        ]  # fmt: skip

    def stream_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "stream_id": stream_id, "topic": one["topic"], "state": one["state"], "epoch": one["epoch"],
                "start_offset": one["start"], "end_offset": one["end"],
                "bytes": sum(
                    held[3] for each in self.objects.values() for held in each["ranges"] if held[0] == stream_id
                ),
            }
            for stream_id, one in sorted(self.streams.items())
        ]  # fmt: skip

    def partition_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": topic["name"], "partition": number, "leader": None if leader < 0 else leader,
                "target": None if target < 0 else target, "start_offset": self.streams[data]["start"],
                "end_offset": self.streams[data]["end"], "data_stream_id": data,
            }
            for topic in sorted(self.topics.values(), key=lambda each: each["name"])
            for number, (data, _, leader, target) in enumerate(topic["partitions"])
        ]  # fmt: skip

    def node_rows(self) -> list[dict[str, Any]]:
        leaders = [one[2] for topic in self.topics.values() for one in topic["partitions"]]
        return [
            {
                "node_id": node_id,
                "epoch": one["epoch"],
                "is_draining": one["draining"],
                "leads": leaders.count(node_id),
            }
            for node_id, one in sorted(self.nodes.items())
        ]

    def job_rows(self) -> list[dict[str, Any]]:
        return [{"job_id": job_id, "state": state} for job_id, state in sorted(self.jobs.items())]

    def _is_live(self, held: tuple[int, int, int, int]) -> bool:
        stream = self.streams[held[0]]
        return stream["state"] != "DELETED" and held[2] > stream["start"]

    # -- records -----------------------------------------------------------------------------------------

    def _StreamCreated(self, record: Any) -> None:  # noqa: N802
        self.streams[record.stream_id] = {
            "start": 0, "end": 0, "state": "CLOSED", "epoch": -1, "topic": record.tags.get("topic"),
        }  # fmt: skip

    def _StreamOpened(self, record: Any) -> None:  # noqa: N802
        self.streams[record.stream_id] |= {"state": "OPENED", "epoch": record.epoch}

    def _StreamClosed(self, record: Any) -> None:  # noqa: N802
        self.streams[record.stream_id]["state"] = "CLOSED"

    def _StreamTrimmed(self, record: Any) -> None:  # noqa: N802
        """A stream may be trimmed past what is in objects; then it ends where it begins."""
        stream = self.streams[record.stream_id]
        stream |= {"start": record.start_offset, "end": max(stream["end"], record.start_offset)}

    def _StreamsAdvanced(self, record: Any) -> None:  # noqa: N802
        for stream_id, end in record.ends:
            self.streams[stream_id]["end"] = max(self.streams[stream_id]["end"], end)

    def _StreamsLoaded(self, record: Any) -> None:  # noqa: N802
        for stream_id, epoch, end in record.loads:
            self.streams[stream_id] |= {"epoch": epoch, "end": end}

    def _StreamDeleted(self, record: Any) -> None:  # noqa: N802
        self.streams[record.stream_id]["state"] = "DELETED"

    def _StreamForgotten(self, record: Any) -> None:  # noqa: N802
        del self.streams[record.stream_id]

    def _ObjectsPrepared(self, record: Any) -> None:  # noqa: N802
        for object_id in range(record.first_id, record.first_id + record.count):
            self.objects[object_id] = {
                "state": "PREPARED", "kind": None, "bucket": record.bucket_id, "bytes": 0, "ranges": [],
            }  # fmt: skip

    def _ObjectCommitted(self, record: Any) -> None:  # noqa: N802
        self.objects[record.object_id] |= {
            "state": "COMMITTED", "kind": {1: "SSO", 2: "SO"}[int(record.kind)], "bytes": record.size_bytes,
            "ranges": [
                (held.stream_id, held.start_offset, held.end_offset, held.size_bytes) for held in record.ranges
            ],
        }  # fmt: skip

    def _ObjectsDestroyed(self, record: Any) -> None:  # noqa: N802
        for object_id in record.object_ids:
            self.objects[object_id] |= {"state": "DESTROYED", "ranges": []}

    def _ObjectsForgotten(self, record: Any) -> None:  # noqa: N802
        for object_id in record.object_ids:
            del self.objects[object_id]

    def _TopicCreated(self, record: Any) -> None:  # noqa: N802
        self.topics[record.topic_id] = {"name": record.name, "partitions": [*map(_placed, record.partitions)]}

    def _PartitionsAdded(self, record: Any) -> None:  # noqa: N802
        self.topics[record.topic_id]["partitions"] += [*map(_placed, record.partitions)]

    def _TopicDeleted(self, record: Any) -> None:  # noqa: N802
        del self.topics[record.topic_id]

    def _PartitionsPlaced(self, record: Any) -> None:  # noqa: N802
        for number, leader in record.leaders:
            self.topics[record.topic_id]["partitions"][number][2:] = [leader, -1]

    def _PartitionsMoving(self, record: Any) -> None:  # noqa: N802
        for number, target in record.targets:
            self.topics[record.topic_id]["partitions"][number][3] = target

    def _NodeRegistered(self, record: Any) -> None:  # noqa: N802
        """Any registration ends a drain."""
        self.nodes[record.node_id] = {"epoch": record.node_epoch, "draining": False}

    def _NodeDraining(self, record: Any) -> None:  # noqa: N802
        self.nodes[record.node_id]["draining"] = record.is_draining

    def _NodeUnregistered(self, record: Any) -> None:  # noqa: N802
        del self.nodes[record.node_id]

    def _NodeFenced(self, record: Any) -> None:  # noqa: N802
        assert record.node_id in self.nodes

    _NodeResumed = _FailoverClaimed = _NodeFenced

    def _JobStarted(self, record: Any) -> None:  # noqa: N802
        self.jobs[record.job_id] = "RUNNING"

    def _JobFinished(self, record: Any) -> None:  # noqa: N802
        self.jobs[record.job_id] = record.state.name

    def _JobForgotten(self, record: Any) -> None:  # noqa: N802
        del self.jobs[record.job_id]


def _placed(partition: Any) -> list[int]:
    return [partition.data_stream_id, partition.meta_stream_id, partition.leader, partition.target]
