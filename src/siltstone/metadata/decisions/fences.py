"""Who may write: the checks of node epoch, stream owner and running job (rule 7; T23).

What a decision is. Within this package a refusal is raised; ``table.decide`` returns it.
"""

from typing import Generic, TypeVar

import msgspec

from siltstone.metadata.entities import JobMetadata, JobState, NodeMetadata, StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import Record
from siltstone.metadata.refusals import (
    JobNotRunning,
    NodeEpochExpired,
    NodeEpochNotExist,
    NodeFenced,
    StreamEpochUnknown,
    StreamFenced,
    StreamNotExist,
    StreamOfTopic,
)

R = TypeVar("R")


class Decision(msgspec.Struct, Generic[R], frozen=True):
    """What to write, and what to answer once it is written. No records: it stands already."""

    records: tuple[Record, ...]
    result: R


def check_node(view: ImageView, node_id: int, node_epoch: int) -> NodeMetadata:
    """Raises NodeEpochNotExist, NodeEpochExpired; NodeFenced when the node is being failed over."""
    node = view.nodes.get(node_id)
    if node is None or node_epoch > node.node_epoch:
        raise NodeEpochNotExist(
            f"node {node_id} is not registered under epoch {node_epoch}; register it first"
        )
    if node_epoch < node.node_epoch:
        fenced = NodeFenced if node.failover else NodeEpochExpired
        raise fenced(
            f"node {node_id} was registered again with epoch {node.node_epoch}, not {node_epoch}; stop"
        )
    return node


def existing_stream(view: ImageView, stream_id: int) -> StreamMetadata:
    """Raises StreamNotExist, for a deleted stream too."""
    stream = view.streams.get(stream_id)
    if stream is None or stream.state is StreamState.DELETED:
        raise StreamNotExist(f"stream {stream_id} does not exist; look up its id again")
    return stream


def check_stream_epoch(stream: StreamMetadata, stream_epoch: int) -> None:
    """Raises StreamFenced, StreamEpochUnknown."""
    if stream_epoch < stream.epoch:
        raise StreamFenced(f"stream {stream.stream_id} has epoch {stream.epoch}, not {stream_epoch}; stop")
    if stream_epoch > stream.epoch:
        raise StreamEpochUnknown(
            f"stream {stream.stream_id} has epoch {stream.epoch}, not {stream_epoch}; open it first"
        )


def check_owner(stream: StreamMetadata, node_id: int) -> None:
    """Raises StreamFenced."""
    if stream.owner != node_id:
        raise StreamFenced(f"stream {stream.stream_id} is owned by node {stream.owner}, not {node_id}; stop")


def owned_stream(view: ImageView, node_id: int, stream_id: int, stream_epoch: int) -> StreamMetadata:
    """Raises StreamNotExist, StreamFenced, StreamEpochUnknown."""
    stream = existing_stream(view, stream_id)
    check_stream_epoch(stream, stream_epoch)
    check_owner(stream, node_id)
    return stream


def check_of_no_topic(view: ImageView, stream: StreamMetadata) -> None:
    """Raises StreamOfTopic. The tags only say where to look: anybody may give them to a stream of his own."""
    topic_id = view.topic_ids.get(stream.tags.get("topic", ""))
    if topic_id is None:
        return
    for partition in view.topics[topic_id].partitions:
        if stream.stream_id in (partition.data_stream_id, partition.meta_stream_id):
            raise StreamOfTopic(
                f"stream {stream.stream_id} is topic {stream.tags['topic']}'s; delete the topic"
            )


def running_job(view: ImageView, job_id: int) -> JobMetadata:
    """Raises JobNotRunning. A lease that has passed does not matter until somebody takes over."""
    job = view.jobs.get(job_id)
    if job is None or job.state is not JobState.RUNNING:
        raise JobNotRunning(f"job {job_id} is finished or was taken over; start another one")
    return job
