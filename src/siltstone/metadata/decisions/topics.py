"""Decisions about topics: create, add partitions, configure, delete. Each is one decision with all streams of the
topic, so no reader of the image sees half a topic.

The names of topics follow Kafka's rules, because Kafka's clients and tools rely on them.
"""

import re
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from siltstone.metadata.commands import AddPartitions, AlterTopicConfigs, CreateTopic, DeleteTopic
from siltstone.metadata.decisions.fences import Decision, check_node, existing_topic
from siltstone.metadata.decisions.new_objects import deletion
from siltstone.metadata.decisions.placement import check_number_of_partitions, check_room, leaders_of_new
from siltstone.metadata.entities import PartitionMetadata, TopicMetadata
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import (
    PartitionsAdded,
    StreamCreated,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from siltstone.metadata.refusals import (
    CommandMalformed,
    InvalidTopicName,
    PartitionCountNotLarger,
    TopicAlreadyExists,
    TopicConfiguredOtherwise,
    TopicNameCollides,
)
from siltstone.model.limits import TOPIC_CONFIGS_BYTES_MAX, TOPIC_NAME_CHARACTERS_MAX

_TOPIC_ID = re.compile(r"[0-9a-f]{32}")
_LEGAL = re.compile(rf"[a-zA-Z0-9._-]{{1,{TOPIC_NAME_CHARACTERS_MAX}}}")


def is_topic_name(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")


def colliding_name(name: str, standing: Iterable[str]) -> str | None:
    """Returns the first existing name that equals ``name`` once ``.`` is replaced by ``_``, or None. Metrics write
    both characters as ``_``."""
    unified = _unified(name)
    if unified == name and "_" not in name:
        return None  # only the name itself could be equal
    return next((other for other in standing if _unified(other) == unified), None)


def _unified(name: str) -> str:
    return name.replace(".", "_")


def decide_create_topic(view: ImageView, command: CreateTopic, now_ms: int) -> Decision[TopicMetadata]:
    node = check_node(view, command.node_id, command.node_epoch)
    _check_form(command)
    standing = _standing(view, command)
    if standing is not None:
        return Decision((), standing)
    _check_no_collision(view, command.name)
    if not command.is_internal:
        check_room(view, command.partition_count, command.partitions_max)
    numbers = range(command.partition_count)
    leaders = leaders_of_new(view, node, command.topic_id, numbers, command.leaders)
    created, partitions = _new_partitions(view, command.name, numbers, leaders)
    topic = TopicMetadata(
        topic_id=command.topic_id,
        name=command.name,
        partitions=partitions,
        configs=command.configs,
        replication_factor=command.replication_factor,
        created_ms=now_ms,
        is_internal=command.is_internal,
    )
    record = TopicCreated(
        topic.topic_id,
        topic.name,
        topic.partitions,
        topic.configs,
        topic.replication_factor,
        topic.created_ms,
        topic.is_internal,
    )
    return Decision((*created, record), topic)


def _check_form(command: CreateTopic) -> None:
    if not is_topic_name(command.name):
        raise InvalidTopicName(
            f"{command.name[:300]!r} cannot be a topic's name; use 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-'"
        )
    if _TOPIC_ID.fullmatch(command.topic_id) is None:
        raise CommandMalformed(f"{command.topic_id[:100]!r} is not a topic id; give 32 hex digits")
    if command.partition_count < 1 or command.replication_factor < 1:
        raise CommandMalformed(f"topic {command.name} must have at least one partition and one replica")
    check_number_of_partitions(command.partition_count)
    _check_configs(command.configs)


def _check_configs(configs: Mapping[str, str]) -> None:
    size_bytes = sum(len(key.encode()) + len(value.encode()) for key, value in configs.items())
    if size_bytes > TOPIC_CONFIGS_BYTES_MAX:
        raise CommandMalformed(
            f"the topic's configuration has {size_bytes} bytes; at most {TOPIC_CONFIGS_BYTES_MAX} are allowed"
        )


def _standing(view: ImageView, command: CreateTopic) -> TopicMetadata | None:
    """Returns the topic if an earlier attempt of this command created it. Raises TopicAlreadyExists when another topic
    has the name or the id."""
    topic_id = view.topic_ids.get(command.name)
    if topic_id is None and command.topic_id in view.topics:
        raise TopicAlreadyExists(
            f"topic id {command.topic_id} belongs to topic {view.topics[command.topic_id].name}; draw another id"
        )
    if topic_id is not None and topic_id != command.topic_id:
        raise TopicAlreadyExists(f"topic {command.name} exists; use it, or delete it first")
    return None if topic_id is None else view.topics[topic_id]


def _check_no_collision(view: ImageView, name: str) -> None:
    if other := colliding_name(name, view.topic_ids):
        raise TopicNameCollides(
            f"topic {name} collides with topic {other}: metrics write '.' and '_' alike; choose another name"
        )


def _new_partitions(
    view: ImageView, name: str, numbers: range, leaders: Iterable[int]
) -> tuple[list[StreamCreated], tuple[PartitionMetadata, ...]]:
    """Returns the records that create the streams of the partitions ``numbers``, and those partitions."""
    created: list[StreamCreated] = []
    partitions: list[PartitionMetadata] = []
    for number, leader in zip(numbers, leaders, strict=True):
        data_stream_id = view.next_stream_id + len(created)
        tags = {"topic": name, "partition": str(number)}
        created.append(StreamCreated(data_stream_id, {**tags, "kind": "data"}))
        created.append(StreamCreated(data_stream_id + 1, {**tags, "kind": "meta"}))
        partitions.append(PartitionMetadata(data_stream_id, data_stream_id + 1, leader))
    return created, tuple(partitions)


def decide_add_partitions(view: ImageView, command: AddPartitions, now_ms: int) -> Decision[TopicMetadata]:
    node = check_node(view, command.node_id, command.node_epoch)
    topic = existing_topic(view, command.topic_id)
    count = len(topic.partitions)
    if command.partition_count <= count:
        raise PartitionCountNotLarger(f"topic {topic.name} has {count} partitions; ask for more than that")
    check_number_of_partitions(command.partition_count - count)
    check_room(view, command.partition_count - count, command.partitions_max)
    numbers = range(count, command.partition_count)
    leaders = leaders_of_new(view, node, topic.topic_id, numbers, command.leaders)
    created, added = _new_partitions(view, topic.name, numbers, leaders)
    return Decision(
        (*created, PartitionsAdded(topic.topic_id, added)),
        replace(topic, partitions=(*topic.partitions, *added)),
    )


def decide_alter_topic_configs(
    view: ImageView, command: AlterTopicConfigs, now_ms: int
) -> Decision[TopicMetadata]:
    topic = existing_topic(view, command.topic_id)
    if both := command.put.keys() & set(command.remove):
        raise CommandMalformed(
            f"configurations {sorted(both)[:10]} of topic {topic.name} are both set and removed; do one of them"
        )
    kept = {} if command.replace else topic.configs
    configs = {key: value for key, value in kept.items() if key not in command.remove} | command.put
    _check_configs(configs)
    if configs == topic.configs:
        return Decision((), topic)
    if command.expected is not None and command.expected != topic.configs:
        raise TopicConfiguredOtherwise(
            f"the configuration of topic {topic.name} has changed since; read it again, then alter it"
        )
    return Decision((TopicConfigured(topic.topic_id, configs),), replace(topic, configs=configs))


def decide_delete_topic(view: ImageView, command: DeleteTopic, now_ms: int) -> Decision[None]:
    """Another node may have partitions of the topic open: it forgets them when it reads the record, and what it uploads
    for them until then is dead (N16)."""
    check_node(view, command.node_id, command.node_epoch)
    topic = existing_topic(view, command.topic_id)
    streams = [
        view.streams[stream_id]
        for partition in topic.partitions
        for stream_id in (partition.data_stream_id, partition.meta_stream_id)
    ]
    return Decision((TopicDeleted(topic.topic_id), *deletion(view, streams, now_ms)), None)
