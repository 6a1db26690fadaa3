"""Kafka's Java Admin with results as Python values: one method for each question of an operator. Every method raises
``JavaClientFailed``, named after the cause. Methods that ask for the state of groups need the clients of Kafka 4.
Other methods are called on ``admin.java``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from oracles.java_clients import JavaClients, java_failures

Partition = tuple[str, int]
"""The topic and the index of a partition."""


class TopicDescription(msgspec.Struct, frozen=True):
    name: str
    topic_id: str
    is_internal: bool
    leaders: tuple[int, ...]
    """Returns the leader of each partition."""


class ConfigValue(msgspec.Struct, frozen=True):
    value: str | None
    source: str
    """The source of a configuration: DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG, STATIC_BROKER_CONFIG …"""
    is_read_only: bool


class FoundOffset(msgspec.Struct, frozen=True):
    offset: int
    timestamp_ms: int
    leader_epoch: int | None


class GroupDescription(msgspec.Struct, frozen=True):
    group_id: str
    state: str
    assignor: str
    members: Mapping[str, tuple[Partition, ...]]
    """The partitions of each member, by its id."""


class JavaAdmin:
    def __init__(self, clients: JavaClients, java: Any) -> None:
        self.java = java
        self._clients = clients
        self._classes = clients.machine.classes.org.apache.kafka
        self._admin = self._classes.clients.admin

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = self._admin.NewTopic(name, partitions, replicas)
        wanted.configs(self._clients.machine.hash_map(configs or {}))
        with java_failures():
            self.java.createTopics([wanted]).all().get()

    def delete_topics(self, names: Sequence[str]) -> None:
        with java_failures():
            self.java.deleteTopics(list(names)).all().get()

    def add_partitions(self, topic: str, total: int) -> None:
        wanted = {topic: self._admin.NewPartitions.increaseTo(total)}
        with java_failures():
            self.java.createPartitions(self._clients.machine.hash_map(wanted)).all().get()

    def topic_names(self) -> set[str]:
        with java_failures():
            return set(self.java.listTopics().names().get())

    def describe_topic(self, name: str) -> TopicDescription:
        with java_failures():
            found = self.java.describeTopics([name]).allTopicNames().get()[name]
        leaders = tuple(each.leader().id() for each in found.partitions())
        return TopicDescription(found.name(), found.topicId().toString(), found.isInternal(), leaders)

    def nodes(self) -> dict[int, str]:
        """Returns the address of each node."""
        with java_failures():
            return {
                node.id(): f"{node.host()}:{node.port()}"
                for node in _each(self.java.describeCluster().nodes().get())
            }

    def cluster_id(self) -> str:
        with java_failures():
            return str(self.java.describeCluster().clusterId().get())

    def topic_configs(self, topic: str) -> dict[str, ConfigValue]:
        return self._configs("TOPIC", topic)

    def broker_configs(self, node_id: int) -> dict[str, ConfigValue]:
        return self._configs("BROKER", str(node_id))

    def set_topic_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        """Changes configurations; None sets the default value again."""
        kinds = self._admin.AlterConfigOp.OpType
        wanted = [
            self._admin.AlterConfigOp(
                self._admin.ConfigEntry(name, value or ""), kinds.DELETE if value is None else kinds.SET
            )
            for name, value in configs.items()
        ]
        changes = self._clients.machine.hash_map({self._config_resource("TOPIC", topic): wanted})
        with java_failures():
            self.java.incrementalAlterConfigs(changes).all().get()

    def earliest_offset(self, partition: Partition) -> FoundOffset:
        return self._offset(partition, self._admin.OffsetSpec.earliest())

    def latest_offset(self, partition: Partition) -> FoundOffset:
        return self._offset(partition, self._admin.OffsetSpec.latest())

    def offset_of_newest_timestamp(self, partition: Partition) -> FoundOffset:
        return self._offset(partition, self._admin.OffsetSpec.maxTimestamp())

    def offset_at(self, partition: Partition, timestamp_ms: int) -> FoundOffset:
        return self._offset(partition, self._admin.OffsetSpec.forTimestamp(timestamp_ms))

    def delete_records(self, partition: Partition, before_offset: int) -> int:
        """Deletes records, and returns the new low watermarks."""
        key = self._clients.topic_partition(*partition)
        wanted = {key: self._records_before(before_offset)}
        with java_failures():
            done = self.java.deleteRecords(self._clients.machine.hash_map(wanted))
            return int(done.lowWatermarks()[key].get().lowWatermark())

    def group_states(self) -> dict[str, str]:
        """Returns the state of each group."""
        with java_failures():
            return {
                each.groupId(): each.groupState().get().toString() if each.groupState().isPresent() else ""
                for each in _each(self.java.listGroups().all().get())
            }

    def describe_group(self, group_id: str) -> GroupDescription:
        with java_failures():
            found = self.java.describeConsumerGroups([group_id]).all().get()[group_id]
        members = {
            each.consumerId(): _partitions(each.assignment().topicPartitions())
            for each in _each(found.members())
        }
        return GroupDescription(group_id, found.groupState().toString(), found.partitionAssignor(), members)

    def committed_offsets(self, group_id: str) -> dict[Partition, int]:
        with java_failures():
            found = self.java.listConsumerGroupOffsets(group_id).partitionsToOffsetAndMetadata().get()
        return {(key.topic(), key.partition()): found[key].offset() for key in found}

    def set_committed_offsets(self, group_id: str, offsets: Mapping[Partition, int]) -> None:
        make = self._classes.clients.consumer.OffsetAndMetadata
        wanted = {self._clients.topic_partition(*key): make(offset) for key, offset in offsets.items()}
        with java_failures():
            self.java.alterConsumerGroupOffsets(group_id, self._clients.machine.hash_map(wanted)).all().get()

    def delete_committed_offsets(self, group_id: str, partitions: Sequence[Partition]) -> None:
        wanted = {self._clients.topic_partition(*each) for each in partitions}
        with java_failures():
            self.java.deleteConsumerGroupOffsets(group_id, wanted).all().get()

    def delete_groups(self, group_ids: Sequence[str]) -> None:
        with java_failures():
            self.java.deleteConsumerGroups(list(group_ids)).all().get()

    def _records_before(self, offset: int) -> Any:
        """Calls RecordsToDelete.beforeOffset(offset) by reflection: py4j would call the getter of the same name."""
        java = self._clients.machine.classes.java.lang
        records = java.Class.forName("org.apache.kafka.clients.admin.RecordsToDelete")
        made_by = self._clients.machine.array(java.Class, [java.Long.TYPE])
        argument = self._clients.machine.array(java.Object, [java.Long.valueOf(str(offset))])
        return records.getMethod("beforeOffset", made_by).invoke(None, argument)

    def _offset(self, partition: Partition, specification: Any) -> FoundOffset:
        key = self._clients.topic_partition(*partition)
        with java_failures():
            found = self.java.listOffsets(self._clients.machine.hash_map({key: specification}))
            result = found.partitionResult(key).get()
        epoch = result.leaderEpoch()
        return FoundOffset(result.offset(), result.timestamp(), epoch.get() if epoch.isPresent() else None)

    def _configs(self, kind: str, name: str) -> dict[str, ConfigValue]:
        resource = self._config_resource(kind, name)
        with java_failures():
            found = self.java.describeConfigs([resource]).all().get()[resource]
        return {
            each.name(): ConfigValue(each.value(), each.source().toString(), each.isReadOnly())
            for each in _each(found.entries())
        }

    def _config_resource(self, kind: str, name: str) -> Any:
        config = self._classes.common.config
        return config.ConfigResource(getattr(config.ConfigResource.Type, kind), name)


@contextmanager
def java_admin(clients: JavaClients, config: Mapping[str, Any] | None = None) -> Iterator[JavaAdmin]:
    with clients.admin_client(config) as java:
        yield JavaAdmin(clients, java)


def _partitions(found: Any) -> tuple[Partition, ...]:
    return tuple(sorted((each.topic(), each.partition()) for each in _each(found)))


def _each(collection: Any) -> list[Any]:
    """Makes a list: py4j iterates over lists, sets and maps, and over no other collection."""
    return list(collection.toArray())
