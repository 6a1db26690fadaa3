"""The result of a decision, and the fences: checks of node epoch, stream epoch, stream owner and job (rule 7; T23).

Within this package a refusal is raised; ``table.decide`` catches it and returns it.
"""

from typing import Generic, TypeVar

import msgspec

from siltstone.metadata.entities import (
    JobMetadata,
    JobState,
    NodeMetadata,
    StreamMetadata,
    StreamState,
    TopicMetadata,
)
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import Record
from siltstone.metadata.refusals import (
    FencedNode,
    JobNotRunning,
    NodeEpochExpired,
    NodeEpochNotExist,
    NodeSuspended,
    StreamEpochUnknown,
    StreamFenced,
    StreamNotExist,
    StreamOfTopic,
    TopicNotExist,
)

R = TypeVar("R")


class Decision(msgspec.Struct, Generic[R], frozen=True):
    """``records`` are appended to the log; ``result`` is the answer once they are written. A decision without records
    means that the command's effect exists already."""

    records: tuple[Record, ...]
    result: R


def check_node(view: ImageView, node_id: int, node_epoch: int) -> NodeMetadata:
    """Returns the node if ``node_epoch`` is its current epoch. Raises NodeEpochNotExist; NodeEpochExpired, or
    FencedNode when the node was fenced or failed over since; NodeSuspended when it is fenced in this epoch."""
    node = view.nodes.get(node_id)
    if node is None or node_epoch > node.node_epoch:
        raise NodeEpochNotExist(
            f"node {node_id} is not registered under epoch {node_epoch}; register it first"
        )
    if node_epoch < node.node_epoch:
        fenced = NodeEpochExpired if node.is_live else FencedNode
        raise fenced(
            f"node {node_id} was registered again with epoch {node.node_epoch}, so epoch {node_epoch} is fenced; "
            "stop this process"
        )
    if node.is_fenced:
        raise NodeSuspended(
            f"node {node_id} was silent and is fenced in its epoch {node_epoch}; resume it, then ask again"
        )
    return node


def existing_stream(view: ImageView, stream_id: int) -> StreamMetadata:
    """Returns the stream. Raises StreamNotExist, also when it was deleted."""
    stream = view.streams.get(stream_id)
    if stream is None or stream.state is StreamState.DELETED:
        raise StreamNotExist(f"stream {stream_id} does not exist; look up its id again")
    return stream


def check_stream_epoch(stream: StreamMetadata, stream_epoch: int) -> None:
    """Raises StreamFenced when ``stream_epoch`` is lower than the stream's, StreamEpochUnknown when it is higher."""
    if stream_epoch < stream.epoch:
        raise StreamFenced(
            f"stream {stream.stream_id} has epoch {stream.epoch}, so epoch {stream_epoch} is fenced; stop writing to it"
        )
    if stream_epoch > stream.epoch:
        raise StreamEpochUnknown(
            f"stream {stream.stream_id} has epoch {stream.epoch}, not yet {stream_epoch}; open it first"
        )


def check_owner(stream: StreamMetadata, node_id: int) -> None:
    """Raises StreamFenced when another node owns the stream."""
    if stream.owner != node_id:
        raise StreamFenced(
            f"stream {stream.stream_id} is owned by node {stream.owner}, so node {node_id} is fenced; "
            "stop writing to it"
        )


def owned_stream(view: ImageView, node_id: int, stream_id: int, stream_epoch: int) -> StreamMetadata:
    """Returns the stream if the node owns it under this epoch. Raises StreamNotExist, StreamFenced,
    StreamEpochUnknown."""
    stream = existing_stream(view, stream_id)
    check_stream_epoch(stream, stream_epoch)
    check_owner(stream, node_id)
    return stream


def existing_topic(view: ImageView, topic_id: str) -> TopicMetadata:
    """Raises TopicNotExist."""
    topic = view.topics.get(topic_id)
    if topic is None:
        raise TopicNotExist(f"topic {topic_id} does not exist; look up its id again")
    return topic


def partition_of(view: ImageView, stream: StreamMetadata) -> tuple[TopicMetadata, int] | None:
    """Returns the topic and the number of the partition that the stream belongs to, or None. Its tags only say where
    to look: they are no proof, since CreateStream accepts any tags."""
    topic_id = view.topic_ids.get(stream.tags.get("topic", ""))
    number = stream.tags.get("partition", "")
    if topic_id is None or not number.isdecimal():
        return None
    topic, index = view.topics[topic_id], int(number)
    if index >= len(topic.partitions):
        return None
    partition = topic.partitions[index]
    if stream.stream_id not in (partition.data_stream_id, partition.meta_stream_id):
        return None
    return topic, index


def check_of_no_topic(view: ImageView, stream: StreamMetadata) -> None:
    """Raises StreamOfTopic when the stream belongs to a partition."""
    if partition_of(view, stream) is not None:
        raise StreamOfTopic(
            f"stream {stream.stream_id} belongs to topic {stream.tags['topic']}; delete the topic instead"
        )


def running_job(view: ImageView, job_id: int) -> JobMetadata:
    """Returns the job if it is RUNNING. An expired lease does not matter until another driver takes the job over.
    Raises JobNotRunning."""
    job = view.jobs.get(job_id)
    if job is None or job.state is not JobState.RUNNING:
        raise JobNotRunning(f"job {job_id} has finished or was taken over; start a new job")
    return job
