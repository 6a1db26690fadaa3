"""Consumer groups: lists and describes them, reads and writes their committed offsets, and deletes them.

A member's assignment, for groups with a protocol of type ``consumer``, is big endian:

====== ============== ============================================================================
order  field          type
====== ============== ============================================================================
1      version        int16
2      topics         int32 count, then each: int16 length and UTF-8; int32 count, partitions int32
3      user data      not read
====== ============== ============================================================================

Later versions only add fields at the end. Other bytes come from an assignor of another type and count as no partitions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct, error, unpack_from

import msgspec

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.failures import (
    GroupUnknown,
    RequestNotSpoken,
    refusal,
    refuse_error,
)
from siltstone.kafka_client.offsets import by_topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from siltstone.kafka_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from siltstone.kafka_protocol.messages.share_group_describe import (
    DescribedShareMember,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from siltstone.model.buffers import Buffer
from siltstone.model.errors import did_you_mean

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")
_COUNT = Struct(">i")


def assigned_partitions(assignment: Buffer) -> tuple[TopicPartition, ...]:
    """Returns the partitions in a member's assignment; empty if ``assignment`` has another format."""
    try:
        return tuple(_read(bytes(assignment)))
    except (error, UnicodeDecodeError, ValueError):
        return ()


def _read(data: bytes) -> list[TopicPartition]:
    _, topics = _HEAD.unpack_from(data)
    position = _HEAD.size
    found: list[TopicPartition] = []
    for _ in range(topics):
        (length,) = _LENGTH.unpack_from(data, position)
        name = data[position + _LENGTH.size : position + _LENGTH.size + length].decode()
        position += _LENGTH.size + length
        (count,) = _COUNT.unpack_from(data, position)
        position += _COUNT.size
        if length < 0 or not 0 <= count <= (len(data) - position) // _COUNT.size:
            raise ValueError(f"{count} partitions of a topic cannot fit into {len(data) - position} bytes")
        found += [TopicPartition(name, number) for number in unpack_from(f">{count}i", data, position)]
        position += count * _COUNT.size
    return found


CHANCE_SHOWN = 8
_NOT_DESCRIBED = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""Errors of DescribeGroups for groups of another protocol, which ConsumerGroupDescribe may describe (KIP-848)."""


class ListedMember(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]

    @property
    def name(self) -> str:
        """A short name that distinguishes the member from others: the instance id, or the member id with its random
        part, usually 36 characters after the client id, cut off after some characters."""
        if self.instance_id is not None:
            return self.instance_id
        chance = self.member_id.removeprefix(f"{self.client_id}-")
        if chance == self.member_id or len(chance) <= CHANCE_SHOWN:
            return self.member_id
        return f"{self.client_id}-{chance[:CHANCE_SHOWN]}…"


class GroupSummary(msgspec.Struct, frozen=True):
    """A group. ``protocol``: "consumer" for KIP-848, "classic" for the one before, "share" for KIP-932,
    empty if it is not known.
    ``members`` None: the broker does not list them."""

    group_id: str
    state: str
    assignor: str = ""
    coordinator: int = -1
    members: tuple[ListedMember, ...] | None = None
    protocol: str = ""

    @property
    def is_empty(self) -> bool:
        return self.state in ("Empty", "Dead")


def all_groups(cluster: Cluster) -> list[GroupSummary]:
    """Returns all groups of the cluster, sorted by name, with their members. Raises KafkaRefusal, KafkaNotReady."""
    listed = cluster.patiently(lambda: _listed(cluster))
    described = _described(cluster, sorted(listed))
    return [_merged(group_id, listed[group_id], described.get(group_id)) for group_id in sorted(listed)]


def group_names(cluster: Cluster) -> list[str]:
    """Returns the names of all groups of the cluster, sorted. Raises KafkaRefusal, KafkaNotReady."""
    return sorted(cluster.patiently(lambda: _listed(cluster)))


def find_group(cluster: Cluster, group_id: str) -> GroupSummary:
    """Returns the group of that name. Raises GroupUnknown, KafkaRefusal, KafkaNotReady."""
    return find_groups(cluster, [group_id])[0]


def describe_group(cluster: Cluster, group_id: str) -> GroupSummary:
    """Returns the group, as its coordinator knows it. Other brokers are not asked. Raises GroupUnknown, KafkaRefusal,
    KafkaNotReady."""
    found = _described(cluster, [group_id]).get(group_id)
    if found is None:
        raise GroupUnknown(f"there is no consumer group {group_id}: siltstone groups lists them")
    return found


def find_groups(cluster: Cluster, group_ids: Sequence[str]) -> list[GroupSummary]:
    """Returns the groups in the order of ``group_ids``. Raises GroupUnknown for the first one that does not exist."""
    listed = cluster.patiently(lambda: _listed(cluster))
    for group_id in group_ids:
        if group_id not in listed:
            raise _unknown(group_id, sorted(listed))
    described = _described(cluster, group_ids)
    return [_merged(group_id, listed[group_id], described.get(group_id)) for group_id in group_ids]


def _unknown(group_id: str, known: list[str]) -> GroupUnknown:
    hint = did_you_mean(group_id, known, "siltstone groups lists them")
    return GroupUnknown(f"there is no consumer group {group_id}: {hint}")


def _listed(cluster: Cluster) -> dict[str, str]:
    """Group → state. Every broker is asked, because each lists only the groups that it coordinates."""
    cluster.learn([])
    states: dict[str, str] = {}
    for node_id in cluster.broker_ids:
        answer = cluster.broker(node_id).call(ListGroupsRequest(), ListGroupsResponse)
        refuse_error(answer.error_code, f"the groups of broker {node_id}")
        states |= {group.group_id: group.group_state for group in answer.groups}
    return states


def _described(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, GroupSummary]:
    found: dict[str, GroupSummary] = {}
    for node_id, theirs in cluster.coordinators_of(group_ids).items():
        request = DescribeGroupsRequest(groups=theirs)
        for group in cluster.broker(node_id).call(request, DescribeGroupsResponse).groups:
            if group.error_code not in _NOT_DESCRIBED:
                refuse_error(group.error_code, f"group {group.group_id}", group.error_message)
                found[group.group_id] = _group(group, node_id)
        of_consumers = [group_id for group_id in theirs if _may_be_of_consumers(found.get(group_id))]
        found |= _described_consumers(cluster, node_id, of_consumers)
        of_shares = [group_id for group_id in of_consumers if _may_be_of_consumers(found.get(group_id))]
        found |= _described_shares(cluster, node_id, of_shares)
    return found


def _may_be_of_consumers(described: GroupSummary | None) -> bool:
    """Old versions of DescribeGroups say that a group of KIP-848 is dead."""
    return described is None or described.state == "Dead"


def _described_consumers(cluster: Cluster, node_id: int, group_ids: Sequence[str]) -> dict[str, GroupSummary]:
    if not group_ids:
        return {}
    request = ConsumerGroupDescribeRequest(group_ids=list(group_ids))
    try:
        answer = cluster.broker(node_id).call(request, ConsumerGroupDescribeResponse)
    except RequestNotSpoken:
        return {}
    found: dict[str, GroupSummary] = {}
    for group in answer.groups:
        if group.error_code not in _NOT_DESCRIBED:
            refuse_error(group.error_code, f"group {group.group_id}", group.error_message)
            found[group.group_id] = _consumer_group(group, node_id)
    return found


def _described_shares(cluster: Cluster, node_id: int, group_ids: Sequence[str]) -> dict[str, GroupSummary]:
    if not group_ids:
        return {}
    request = ShareGroupDescribeRequest(group_ids=list(group_ids))
    try:
        answer = cluster.broker(node_id).call(request, ShareGroupDescribeResponse)
    except RequestNotSpoken:
        return {}
    found: dict[str, GroupSummary] = {}
    for group in answer.groups:
        if group.error_code not in _NOT_DESCRIBED:
            refuse_error(group.error_code, f"group {group.group_id}", group.error_message)
            members = tuple(_share_member(member) for member in group.members)
            found[group.group_id] = GroupSummary(
                group.group_id, group.group_state, group.assignor_name, node_id, members, "share"
            )
    return found


def _share_member(described: DescribedShareMember) -> ListedMember:
    return ListedMember(
        described.member_id,
        None,
        described.client_id,
        described.client_host.removeprefix("/"),
        tuple(
            TopicPartition(topic.topic_name, number)
            for topic in described.assignment.topic_partitions
            for number in topic.partitions
        ),
    )


def _consumer_group(described: DescribedConsumerGroup, coordinator: int) -> GroupSummary:
    return GroupSummary(
        described.group_id,
        described.group_state,
        described.assignor_name,
        coordinator,
        tuple(_consumer_member(member) for member in described.members),
        "consumer",
    )


def _consumer_member(described: DescribedConsumerMember) -> ListedMember:
    return ListedMember(
        described.member_id,
        described.instance_id,
        described.client_id,
        described.client_host.removeprefix("/"),
        tuple(
            TopicPartition(topic.topic_name, number)
            for topic in described.assignment.topic_partitions
            for number in topic.partitions
        ),
    )


def _group(described: DescribedGroup, coordinator: int) -> GroupSummary:
    return GroupSummary(
        described.group_id,
        described.group_state,
        described.protocol_data,
        coordinator,
        tuple(_member(member) for member in described.members),
        "classic",
    )


def _member(described: DescribedGroupMember) -> ListedMember:
    return ListedMember(
        described.member_id,
        described.group_instance_id,
        described.client_id,
        described.client_host.removeprefix("/"),
        assigned_partitions(described.member_assignment),
    )


def _merged(group_id: str, state: str, described: GroupSummary | None) -> GroupSummary:
    if described is None or (described.state == "Dead" and state not in ("", "Dead")):
        return GroupSummary(group_id, state)
    return described


def committed_offsets(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Group → partition → its committed offset. Raises KafkaRefusal, KafkaNotReady."""
    return cluster.patiently(lambda: _committed_offsets(cluster, group_ids))


def _committed_offsets(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    return {group.group_id: _offsets(group) for group in _fetched(cluster, group_ids)}


def _offsets(group: OffsetFetchResponseGroup) -> dict[TopicPartition, int]:
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # so Kafka answers for a share group
        return {}
    refuse_error(group.error_code, f"group {group.group_id}")
    found: dict[TopicPartition, int] = {}
    for topic in group.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            refuse_error(partition.error_code, f"group {group.group_id}, {key}")
            if partition.committed_offset >= 0:
                found[key] = partition.committed_offset
    return found


def committed_texts(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, dict[TopicPartition, str]]:
    """Group → partition → the text that was committed with its offset. Raises KafkaRefusal, KafkaNotReady."""
    return cluster.patiently(lambda: _committed_texts(cluster, group_ids))


def _committed_texts(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, dict[TopicPartition, str]]:
    found: dict[str, dict[TopicPartition, str]] = {}
    for group in _fetched(cluster, group_ids):
        there = _offsets(group)
        texts = {
            TopicPartition(topic.name, each.partition_index): each.metadata or ""
            for topic in group.topics
            for each in topic.partitions
        }
        found[group.group_id] = {key: texts[key] for key in there}
    return found


def _fetched(cluster: Cluster, group_ids: Sequence[str]) -> Iterator[OffsetFetchResponseGroup]:
    for node_id, theirs in cluster.coordinators_of(group_ids).items():
        groups = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in theirs]
        yield from cluster.broker(node_id).call(OffsetFetchRequest(groups=groups), OffsetFetchResponse).groups


QUERY_MARK = '{"siltstone_query":'
"""What the text begins with that a streaming query of Siltstone commits beside its offsets."""


class QueryText(msgspec.Struct, frozen=True):
    """The text beside an offset: the query, its backlog when it committed the offset, and the host of the process that
    plans it."""

    siltstone_query: str
    id: str
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    host: str = ""


def query_of_texts(texts: Iterable[str]) -> QueryText | None:
    """Returns the streaming query that commits for a group, from the texts of its commits; None if none does."""
    return next((found for found in map(query_of_text, texts) if found is not None), None)


def query_of_text(text: str) -> QueryText | None:
    """Returns the query that has committed an offset with the text; None for the text of another program."""
    if not text.startswith(QUERY_MARK):
        return None
    try:
        return msgspec.json.decode(text, type=QueryText)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def commit_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int], text: str = ""
) -> None:
    """Commits offsets for a group without members, each with the text. Raises KafkaRefusal, for example if the group
    has members, and KafkaNotReady."""
    cluster.patiently(lambda: _commit_offsets(cluster, group_id, offsets, text))


def offset_commit_topics(
    offsets: Mapping[TopicPartition, int], text: str = ""
) -> list[OffsetCommitRequestTopic]:
    return [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offsets[TopicPartition(topic, number)],
                    committed_metadata=text,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(offsets).items()
    ]


def _commit_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int], text: str
) -> None:
    (node_id,) = cluster.coordinators_of([group_id])
    request = OffsetCommitRequest(group_id=group_id, topics=offset_commit_topics(offsets, text))
    answer = cluster.broker(node_id).call(request, OffsetCommitResponse)
    for topic in answer.topics:
        for partition in topic.partitions:
            refuse_error(partition.error_code, f"group {group_id}, {topic.name}-{partition.partition_index}")


def delete_groups(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, str]:
    """Deletes each group independently. Returns group → reason for each group that was not deleted."""
    refused: dict[str, str] = {}
    for node_id, theirs in cluster.coordinators_of(group_ids).items():
        request = DeleteGroupsRequest(groups_names=theirs)
        for result in cluster.broker(node_id).call(request, DeleteGroupsResponse).results:
            if result.error_code:
                refused[result.group_id] = str(refusal(result.error_code, f"group {result.group_id}"))
    return refused
