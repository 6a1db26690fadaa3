"""Which broker is asked about which groups, and what is made of its answer."""

import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import GroupUnknown, KafkaRefusal, RequestNotSpoken
from siltstone.kafka_client.groups import (
    all_groups,
    commit_offsets,
    committed_offsets,
    delete_groups,
    find_group,
    find_groups,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedPartitions,
)
from siltstone.kafka_protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from siltstone.kafka_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from siltstone.kafka_protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from siltstone.kafka_protocol.messages.share_group_describe import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from support.kafka.answering_cluster import AnsweringCluster

COORDINATORS = {"readers": 1, "writers": 2, "newer": 2}
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ASSIGNED = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + b"\0\0\0\1"


class World:
    """Broker 1 coordinates readers; broker 2 writers, and newer, whose protocol it does not describe. ``states``: group
    → what its listing says and what its description says. ``errors``: of groups, and of t-1 and u-0."""

    def __init__(self, *, speaks_of_consumers: bool = False, **errors: ErrorCode) -> None:
        self.errors = errors
        self.speaks_of_consumers = speaks_of_consumers
        self.states = {
            "readers": ("Stable", "Stable"),
            "writers": ("Empty", "Empty"),
            "newer": ("Stable", "Dead"),
        }
        self.offsets = {T0: 5, T1: 0, U0: -1}
        self.cluster = AnsweringCluster(
            coordinators=COORDINATORS,
            answers={
                ListGroupsRequest: self._listed,
                DescribeGroupsRequest: self._described,
                ConsumerGroupDescribeRequest: self._described_consumers,
                ShareGroupDescribeRequest: self._described_shares,
                OffsetFetchRequest: self._fetched,
                OffsetCommitRequest: self._committed,
                DeleteGroupsRequest: self._deleted,
            },
        )

    def _error(self, name: str) -> ErrorCode:
        return self.errors.get(name, ErrorCode.NONE)

    def _listed(self, node_id: int, _: ListGroupsRequest) -> ListGroupsResponse:
        groups = [
            ListedGroup(group_id=group_id, group_state=state)
            for group_id, (state, _) in self.states.items()
            if COORDINATORS[group_id] == node_id
        ]
        return ListGroupsResponse(groups=groups, error_code=self._error(f"broker{node_id}"))

    def _described(self, _: int, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        member = DescribedGroupMember(
            member_id="m", group_instance_id="i", client_id="c", client_host="/h", member_assignment=ASSIGNED
        )
        groups = [
            DescribedGroup(
                error_code=self._error(group_id),
                group_id=group_id,
                group_state=self.states[group_id][1],
                protocol_data="range",
                members=[member] if group_id == "readers" else [],
            )
            for group_id in request.groups
        ]
        return DescribeGroupsResponse(groups=groups)

    def _described_shares(self, _: int, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
        unknown = ErrorCode.GROUP_ID_NOT_FOUND
        rows = [DescribedShareGroup(group_id=each, error_code=unknown) for each in request.group_ids]
        return ShareGroupDescribeResponse(groups=rows)

    def _described_consumers(
        self, _: int, request: ConsumerGroupDescribeRequest
    ) -> ConsumerGroupDescribeResponse:
        if not self.speaks_of_consumers:
            raise RequestNotSpoken("the broker does not support ConsumerGroupDescribe")
        partitions = [DescribedPartitions(topic_name="t", partitions=[0, 1])]
        member = DescribedConsumerMember(
            member_id="m", client_id="c", client_host="/h",
            assignment=DescribedAssignment(topic_partitions=partitions),
        )  # fmt: skip
        rows = [
            DescribedConsumerGroup(
                group_id=group_id, group_state="Reconciling", assignor_name="uniform", members=[member]
            )
            if group_id == "newer"
            else DescribedConsumerGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
            for group_id in request.group_ids
        ]
        return ConsumerGroupDescribeResponse(groups=rows)

    def _fetched(self, _: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        assert [group.topics for group in request.groups] == [None] * len(request.groups), "all topics"
        groups = []
        for group in request.groups:
            topics = [
                OffsetFetchResponseTopics(
                    name=key.topic,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=key.partition,
                            committed_offset=offset,
                            error_code=self._error(f"{key.topic}{key.partition}"),
                        )
                    ],
                )
                for key, offset in self.offsets.items()
            ]
            code = self._error(group.group_id)
            groups.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=code))
        return OffsetFetchResponse(groups=groups)

    def _committed(self, _: int, request: OffsetCommitRequest) -> OffsetCommitResponse:
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=self._error(f"{topic.name}{each.partition_index}"),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    def _deleted(self, _: int, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        rows = [
            DeletableGroupResult(group_id=group_id, error_code=self._error(group_id))
            for group_id in request.groups_names
        ]
        return DeleteGroupsResponse(results=rows)

    @property
    def nodes_asked(self) -> list[int]:
        return [node_id for node_id, _ in self.cluster.asked]


def test_every_broker_lists_its_groups_and_each_coordinator_describes_them() -> None:
    world = World()
    newer, readers, writers = all_groups(world.cluster)
    assert world.nodes_asked[:2] == [1, 2]
    assert sorted(world.nodes_asked[2:]) == [1, 2, 2, 2], "broker 2 is asked of newer by the other APIs, too"
    assert (readers.group_id, readers.state, readers.assignor, readers.coordinator) == (
        "readers",
        "Stable",
        "range",
        1,
    )
    (member,) = readers.members
    assert (member.member_id, member.instance_id, member.client_id) == ("m", "i", "c")
    assert (member.host, member.partitions) == ("h", (T1,))
    assert (writers.group_id, writers.coordinator, writers.members) == ("writers", 2, ())
    assert (newer.group_id, newer.state, newer.members) == ("newer", "Stable", None)


def test_a_group_of_kip_848_is_described_with_its_members() -> None:
    newer, readers, _ = all_groups(World(speaks_of_consumers=True).cluster)
    assert (newer.protocol, newer.state, newer.assignor, newer.coordinator) == (
        "consumer", "Reconciling", "uniform", 2,
    )  # fmt: skip
    assert [(member.member_id, member.host, member.partitions) for member in newer.members] == [
        ("m", "h", (T0, T1))
    ]
    assert readers.protocol == "classic"


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION])
def test_a_group_that_is_listed_and_not_described_has_no_known_members(code: ErrorCode) -> None:
    group = find_group(World(readers=code).cluster, "readers")
    assert (group.state, group.coordinator, group.members) == ("Stable", -1, None)


@pytest.mark.parametrize("listed", ["", "Dead"])
def test_a_dead_group_is_as_it_is_described(listed: str) -> None:
    world = World()
    world.states["writers"] = (listed, "Dead")
    group = find_group(world.cluster, "writers")
    assert (group.state, group.coordinator, group.members) == ("Dead", 2, ())


def test_groups_are_found_in_the_order_asked() -> None:
    found = find_groups(World().cluster, ["writers", "readers"])
    assert [(group.group_id, group.state) for group in found] == [("writers", "Empty"), ("readers", "Stable")]


def test_a_group_that_is_not_there_is_answered_with_those_of_like_names() -> None:
    with pytest.raises(GroupUnknown, match=r"no consumer group reader: did you mean readers\?"):
        find_group(World().cluster, "reader")
    with pytest.raises(GroupUnknown, match="siltstone groups lists them"):
        find_groups(World().cluster, ["readers", "zzz"])


def test_a_broker_that_refuses_is_not_passed_over() -> None:
    with pytest.raises(KafkaRefusal, match="the groups of broker 2"):
        all_groups(World(broker2=ErrorCode.CLUSTER_AUTHORIZATION_FAILED).cluster)
    with pytest.raises(KafkaRefusal, match="group writers"):
        all_groups(World(writers=ErrorCode.GROUP_AUTHORIZATION_FAILED).cluster)


def test_the_committed_offsets_of_each_group() -> None:
    world = World()
    kept = {T0: 5, T1: 0}  # −1 is none
    assert committed_offsets(world.cluster, ["readers", "writers"]) == {"readers": kept, "writers": kept}
    assert world.nodes_asked == [1, 2]
    assert committed_offsets(world.cluster, []) == {}


@pytest.mark.parametrize(("name", "told"), [("readers", "group readers"), ("t1", "group readers, t-1")])
def test_offsets_that_are_refused(name: str, told: str) -> None:
    with pytest.raises(KafkaRefusal, match=told):
        committed_offsets(World(**{name: ErrorCode.GROUP_AUTHORIZATION_FAILED}).cluster, ["readers"])


def test_offsets_are_committed_with_the_group_s_coordinator() -> None:
    world = World()
    commit_offsets(world.cluster, "writers", {T0: 7, U0: 8, T1: 9})
    ((node_id, request),) = world.cluster.asked
    assert (node_id, request.group_id) == (2, "writers")
    assert {
        topic.name: [(each.partition_index, each.committed_offset) for each in topic.partitions]
        for topic in request.topics
    } == {"t": [(0, 7), (1, 9)], "u": [(0, 8)]}
    with pytest.raises(KafkaRefusal, match="group writers, u-0"):
        commit_offsets(World(u0=ErrorCode.UNKNOWN_MEMBER_ID).cluster, "writers", {T0: 7, U0: 8})


def test_of_groups_to_delete_those_that_were_not_are_told_with_the_reason() -> None:
    world = World(readers=ErrorCode.NON_EMPTY_GROUP)
    refused = delete_groups(world.cluster, ["readers", "writers"])
    assert refused.keys() == {"readers"}
    assert "group readers" in refused["readers"]
    assert world.nodes_asked == [1, 2]
