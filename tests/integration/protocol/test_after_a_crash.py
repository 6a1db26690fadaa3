"""Items 24, 33 and 48 of docs/scenarios.md: what a broker still knows after it was killed and started again.

It is killed once, for all tests of this module.
"""

from collections.abc import Iterator

import msgspec
import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from support.broker.broker_process import BrokerProcess, checked_store
from support.groups.raw_group import RawMember, assembled, committed
from support.kafka.raw_calls import (
    RawTopic,
    batch_of,
    batches_in,
    create_topic,
    fetch,
    list_offset,
    new_producer,
    produce,
    produce_request,
    produce_well,
    read_all,
    sequenced,
)
from support.kafka.raw_kafka import RawConnection

SETTINGS = {
    "groups.group_initial_rebalance_delay_ms": "0",
    "broker.partition_snapshot_bytes": "2000",  # so that there is a snapshot, and batches after it
}
GROUP = "g"


class Before(msgspec.Struct):
    """The answers that clients got before the kill."""

    broker: BrokerProcess
    topic: RawTopic
    group_topic: RawTopic
    producer: tuple[int, int]
    cluster_id: str
    seen: list[tuple[int, bytes]]
    member_id: str
    generation: int


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Before]:
    folder = tmp_path_factory.mktemp("crash") / "store"
    with BrokerProcess(folder, SETTINGS) as broker:
        with RawConnection(broker.address) as connection, RawConnection(broker.address) as members:
            topic = create_topic(connection, "t", 3)
            producer = new_producer(connection)
            produce_well(
                connection, topic, *(sequenced(producer, 5 * n, 5, value_bytes=50) for n in range(12))
            )
            produce_well(connection, topic, batch_of(10), partition=1)
            _delete_records(connection, topic, 1, 4)
            group_topic = create_topic(connection, "offsets", 2)
            member = RawMember(members, GROUP, topics=("offsets",))
            assembled(member)
            assert member.commit(group_topic, 7, metadata="seven") == 0
            assert member.commit(group_topic, 9, partition=1) == 0
            seen = [(record.offset, bytes(record.value or b"")) for record in read_all(connection, topic)]
            # On its way when the broker dies: it may stand afterwards or not.
            connection.send(produce_request(topic, {2: batch_of()}), 9)
            cluster_id = members.ask(MetadataRequest(topics=[]), 9).cluster_id
            broker.kill()
        broker.start()
        yield Before(
            broker, topic, group_topic, producer, cluster_id, seen, member.member_id, member.generation
        )
    assert "Traceback" not in broker.log
    checked_store(folder)


def _delete_records(connection: RawConnection, topic: RawTopic, partition: int, offset: int) -> None:
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic.name, partitions=[asked])], timeout_ms=1_000
    )
    assert connection.ask(request, 1).topics[0].partitions[0].low_watermark == offset


@pytest.fixture
def connection(before: Before) -> Iterator[RawConnection]:
    with RawConnection(before.broker.address) as opened:
        yield opened


def test_item_33_what_was_read_is_still_there(connection: RawConnection, before: Before) -> None:
    found = [(record.offset, bytes(record.value or b"")) for record in read_all(connection, before.topic)]
    assert found[: len(before.seen)] == before.seen
    assert [offset for offset, _ in before.seen] == [*range(60)]


def test_item_33_what_was_deleted_does_not_come_back(connection: RawConnection, before: Before) -> None:
    assert list_offset(connection, before.topic, -2, partition=1).offset == 4
    assert fetch(connection, before.topic, 3, partition=1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert batches_in(fetch(connection, before.topic, 4, partition=1)) == [(0, 9)]


def test_item_33_a_batch_that_was_not_answered_is_there_whole_or_not_at_all(
    connection: RawConnection, before: Before
) -> None:
    assert batches_in(fetch(connection, before.topic, 0, partition=2)) in ([], [(0, 0)])


def test_item_24_batches_from_before_the_crash_are_recognised(
    connection: RawConnection, before: Before
) -> None:
    for number in range(7, 12):
        batch = sequenced(before.producer, 5 * number, 5, value_bytes=50)
        assert produce_well(connection, before.topic, batch) == [5 * number]
    forgotten = produce(connection, before.topic, sequenced(before.producer, 30, 5, value_bytes=50))
    assert forgotten.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    gap = produce(connection, before.topic, sequenced(before.producer, 65))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce_well(connection, before.topic, sequenced(before.producer, 60)) == [60]


def test_item_24_a_producer_id_is_not_given_again(connection: RawConnection, before: Before) -> None:
    assert new_producer(connection)[0] > before.producer[0]


def test_item_48_committed_offsets_are_still_there(connection: RawConnection, before: Before) -> None:
    assert committed(connection, GROUP, before.group_topic, 0, 1) == {0: (7, "seven"), 1: (9, "")}
    assert committed(connection, GROUP, None) == {0: (7, "seven"), 1: (9, "")}


def test_item_48_a_member_goes_on_or_is_told_to_join_again(connection: RawConnection, before: Before) -> None:
    member = RawMember(connection, GROUP)
    member.member_id, member.generation = before.member_id, before.generation
    told = member.beat()

    assert told in (0, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
    if told == 0:
        (group,) = connection.ask(DescribeGroupsRequest(groups=[GROUP]), 5).groups
        assert [each.member_id for each in group.members] == [before.member_id]
        assert member.commit(before.group_topic, 8) == 0
        assert committed(connection, GROUP, before.group_topic, 0) == {0: (8, "")}


def test_item_16_the_cluster_has_the_id_it_had(connection: RawConnection, before: Before) -> None:
    assert connection.ask(MetadataRequest(topics=[]), 9).cluster_id == before.cluster_id


def test_item_17_topics_have_the_ids_they_had(connection: RawConnection, before: Before) -> None:
    topics = connection.ask(MetadataRequest(topics=None), 12).topics
    assert {(each.name, bytes(each.topic_id)) for each in topics} >= {
        (before.topic.name, before.topic.id),
        (before.group_topic.name, before.group_topic.id),
    }
