"""The tables ``nodes`` and ``jobs``. Pure."""

from collections.abc import Iterator

from siltstone.metadata.entities import NO_NODE, JobMetadata, NodeMetadata
from siltstone.metadata_tables.columns import (
    MetadataTable,
    MetadataType,
    computed,
    field,
    labelled,
    time,
    whole,
)
from siltstone.metadata_tables.moment import Moment

_JOB_STATES = (None, "RUNNING", "SUCCEEDED", "FAILED")


def _nodes(moment: Moment, topic: str | None) -> Iterator[NodeMetadata]:
    del topic
    return (moment.image.nodes[each] for each in sorted(moment.image.nodes))


def _listeners(moment: Moment, row: NodeMetadata) -> str:
    del moment
    return ",".join(f"{each.name}://{each.host}:{each.port}" for each in row.listeners)


NODES = MetadataTable(
    "nodes",
    "The brokers that are registered.",
    (
        whole("node_id", "The number of the node."),
        whole(
            "epoch", "How often it was registered; commands under a lower epoch are refused.", "node_epoch"
        ),
        computed(
            "state",
            MetadataType.TEXT,
            "`live`, `fenced`, `failing over` or `failed over`.",
            lambda _, row: row.state.value,
        ),
        field("is_draining", MetadataType.FLAG, "Whether it gets no more partitions."),
        computed(
            "leads",
            MetadataType.WHOLE,
            "How many partitions it leads.",
            lambda moment, row: moment.image.leader_counts.get(row.node_id, 0),
        ),
        field("rack", MetadataType.TEXT, "Its rack; null if it has none."),
        computed(
            "listeners",
            MetadataType.TEXT,
            "Where clients reach it, such as `PLAINTEXT://host:9092`, with commas between them.",
            _listeners,
        ),
        whole("log_epoch", "The epoch of its newest write-ahead log; 0 before it opened a stream."),
        computed(
            "claimed_by",
            MetadataType.WHOLE,
            "The node that replays its log; null if none does.",
            lambda _, row: None if row.claimed_by == NO_NODE else row.claimed_by,
        ),
    ),
    _nodes,
)


def _jobs(moment: Moment, topic: str | None) -> Iterator[JobMetadata]:
    del topic
    return (moment.image.jobs[each] for each in sorted(moment.image.jobs))


def _seconds(moment: Moment, row: JobMetadata) -> float:
    return max(0, (row.finished_ms or moment.now_ms) - row.started_ms) / 1000


JOBS = MetadataTable(
    "jobs",
    "The runs of maintenance that the metadata still has: running ones, and the newest of each kind.",
    (
        whole("job_id", "The number of the job."),
        field("kind", MetadataType.TEXT, "The kind of maintenance."),
        labelled("state", "`RUNNING`, `SUCCEEDED` or `FAILED`.", "state", _JOB_STATES),
        field("driver", MetadataType.TEXT, "The process that carries it out."),
        field("description", MetadataType.TEXT, "What it was to do."),
        time("started_at", "When it began.", "started_ms"),
        time("finished_at", "When it ended; null while it runs.", "finished_ms"),
        computed("seconds", MetadataType.NUMBER, "How long it ran, or has run so far.", _seconds),
        time("lease_until_at", "From then on another driver may take it over.", "lease_until_ms"),
        field("report", MetadataType.TEXT, "What it did, in a sentence; empty while it runs."),
    ),
    _jobs,
)
