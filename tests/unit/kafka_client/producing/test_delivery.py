"""Exactly once and in order, whatever happens on the way."""

import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import BrokerGone, TopicUnknown
from siltstone.kafka_client.producing.delivery import (
    DELIVERY_TIME_LIMIT_MS,
    REQUESTS_UNDER_WAY_MAX,
    Delivery,
    OutgoingBatch,
    RecordsRefused,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.produce import ProducedPartition, RecordError
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from support.kafka.fake_cluster import LOST_AFTER, LOST_BEFORE, FakeCluster

PARTITIONS = 2


class Sender:
    """Batches of two records for each partition in turn: record n has the value n."""

    def __init__(self, *faults: object) -> None:
        self.cluster = FakeCluster(PARTITIONS, faults)
        self.acknowledged: list[tuple[int, int]] = []
        self.troubles: list[str] = []
        self.delivery = Delivery(
            self.cluster,
            lambda batch, offset: self.acknowledged.append((batch.number, offset)),
            self.troubles.append,
        )
        self._number = 0
        self._values: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}

    def batch(self, partition: int = 0) -> OutgoingBatch:
        self._number += 1
        sent = self._values[partition]
        values = [b"%d" % (len(sent) + place) for place in range(2)]
        data = build_batch([Record(value=value, timestamp_ms=1) for value in values], producer_id=7, producer_epoch=3,
                           base_sequence=len(sent))  # fmt: skip
        sent += values
        lines = [10 * self._number, 10 * self._number + 1]
        return OutgoingBatch(
            number=self._number, partition=TopicPartition("t", partition), data=data, lines=lines
        )

    def send(self, requests: int) -> None:
        for number in range(requests):
            self.delivery.send([self.batch(number % PARTITIONS)])
        self.delivery.wait()

    @property
    def is_exact(self) -> bool:
        kept = {key.partition: values for key, values in self.cluster.logs.items()}
        return kept == {number: values for number, values in self._values.items() if values}


def test_batches_arrive_in_order_and_several_are_under_way() -> None:
    sender = Sender()
    sender.send(20)
    assert sender.is_exact
    assert sorted(number for number, _ in sender.acknowledged) == [*range(1, 21)]
    assert sender.cluster.under_way_max == REQUESTS_UNDER_WAY_MAX
    assert not sender.troubles


def test_one_request_takes_batches_of_several_partitions() -> None:
    sender = Sender()
    sender.delivery.send([sender.batch(0), sender.batch(1)])
    sender.delivery.wait()
    assert len(sender.cluster.requests) == 1 and sender.is_exact
    assert sender.acknowledged == [(1, 0), (2, 0)]


def test_the_first_batch_of_a_partition_travels_alone() -> None:
    """The second, sent beside it, would be taken by a broker that has refused the first for a moment."""
    sender = Sender(ErrorCode.NOT_ENOUGH_REPLICAS)
    for _ in range(3):
        sender.delivery.send([sender.batch()])
    sender.delivery.wait()
    assert sender.is_exact


@pytest.mark.parametrize(
    "fault", [LOST_BEFORE, LOST_AFTER, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE]
)
@pytest.mark.parametrize("position", [0, 1, 5, 11])
def test_after_a_trouble_all_that_is_not_acknowledged_comes_again(fault: object, position: int) -> None:
    sender = Sender(*[None] * position, fault)
    sender.send(12)
    assert sender.is_exact
    assert len(sender.troubles) == isinstance(fault, str)
    assert sorted({number for number, _ in sender.acknowledged}) == [*range(1, 13)]


def test_a_leader_that_is_on_its_way_is_no_trouble_unless_it_stays_away() -> None:
    sender = Sender(*[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 4)
    sender.send(2)
    assert sender.troubles == ["partition t-0: refused (NOT_LEADER_OR_FOLLOWER)"]


@pytest.mark.parametrize("seed", range(40))
def test_many_troubles_one_after_another(seed: int) -> None:
    faults = (None, None, None, LOST_BEFORE, LOST_AFTER, ErrorCode.KAFKA_STORAGE_ERROR)
    sender = Sender()
    sender.cluster.faults.extend(sender.cluster.rng.choices(faults, k=seed * 3))
    sender.send(30)
    assert sender.is_exact
    assert len(sender.acknowledged) == 30


def test_an_answer_that_the_broker_has_forgotten_is_an_acknowledgement_without_an_offset() -> None:
    sender = Sender(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    sender.delivery.send([sender.batch()])
    sender.delivery.wait()
    assert sender.acknowledged == [(1, -1)]


def test_records_that_are_refused_are_named_by_their_line() -> None:
    sender = Sender()
    sender.cluster.refusals[TopicPartition("t", 1)] = ProducedPartition(
        index=1,
        error_code=ErrorCode.INVALID_RECORD,
        error_message="of the batch",
        record_errors=[RecordError(batch_index=1, message="no key")],
    )
    with pytest.raises(RecordsRefused, match=r"line 21: no key \(INVALID_RECORD\)"):
        sender.send(2)
    assert sender.delivery.records_unacknowledged == 0


def test_with_a_refusal_what_else_is_under_way_is_heard() -> None:
    sender = Sender()
    sender.delivery.send([sender.batch(0), sender.batch(1)])
    sender.delivery.wait()
    sender.cluster.faults.append(ErrorCode.MESSAGE_TOO_LARGE)
    sender.delivery.send([sender.batch(0)])
    sender.delivery.send([sender.batch(1)])
    with pytest.raises(RecordsRefused, match="line 30: larger than the topic allows"):
        sender.delivery.wait()
    assert [number for number, _ in sender.acknowledged] == [1, 2, 4]


def test_it_gives_up_when_the_time_is_over() -> None:
    sender = Sender(*[LOST_BEFORE] * 10_000)
    began = sender.cluster.clock.monotonic_ms()
    with pytest.raises(BrokerGone):
        sender.send(1)
    assert (
        DELIVERY_TIME_LIMIT_MS * 0.9 < sender.cluster.clock.monotonic_ms() - began <= DELIVERY_TIME_LIMIT_MS
    )


def test_progress_gives_it_new_time() -> None:
    per_batch = 40  # with pauses of about a second
    faults = ([LOST_BEFORE] * per_batch + [None]) * 10
    sender = Sender(*faults)
    sender.send(10)
    assert sender.is_exact
    assert sender.cluster.clock.monotonic_ms() - 1_700_000_000_000 > DELIVERY_TIME_LIMIT_MS


def test_a_topic_that_is_deleted_meanwhile_ends_it_at_once() -> None:
    sender = Sender(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    sender.cluster.is_topic_there = False
    with pytest.raises(TopicUnknown):
        sender.send(1)


def test_a_sequence_that_stays_wrong_ends_it_at_once() -> None:
    """Nothing that the producer could still do makes it right."""
    sender = Sender(*[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 10_000)
    with pytest.raises(
        RecordsRefused, match="line 10: the broker has lost the sequence numbers of this producer"
    ):
        sender.send(1)
    assert len(sender.cluster.requests) == 2
