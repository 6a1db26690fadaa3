"""What comes out of a fetch, and where the next one begins."""

import pytest

from siltstone.kafka_client import consuming
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.consuming import Fetcher
from siltstone.kafka_client.failures import KafkaNotReady, KafkaRefusal, RecordsDamaged
from siltstone.kafka_client.offsets import Ends
from siltstone.kafka_protocol.batch_errors import BatchChecksumWrong
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.fetch import FetchedPartition, FetchedTopic, FetchResponse
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker, build_control_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.errors import CorruptData
from support.kafka.fake_cluster import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(base_offset: int, count: int = 2) -> bytes:
    return bytes(build_batch([Record(value=b"v", timestamp_ms=1)] * count, base_offset=base_offset))


def fetcher(positions: dict[TopicPartition, int], *partitions: FetchedPartition) -> Fetcher:
    answer = FetchResponse(topics=[FetchedTopic(name="t", partitions=list(partitions))])
    return Fetcher(FakeCluster(2, fetched=lambda _: answer), positions)


def offsets(fetching: Fetcher) -> list[tuple[int, int]]:
    return [(key.partition, record.offset) for key, record in fetching.fetch(0)]


def test_records_come_in_order_and_positions_move() -> None:
    fetching = fetcher(
        {T0: 0, T1: 5},
        FetchedPartition(index=0, records=[batch(0) + batch(2, 3)]),
        FetchedPartition(index=1, records=[batch(5, 1)]),
    )
    assert offsets(fetching) == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 5)]
    assert fetching.positions == {T0: 5, T1: 6}
    request = fetching._cluster.sent[0]
    asked = {part.index: part.fetch_offset for part in request.topics[0].partitions}
    assert asked == {0: 0, 1: 5}


def test_positions_move_with_the_records_taken_out() -> None:
    """Whoever stops in the middle continues there."""
    fetching = fetcher({T0: 0}, FetchedPartition(index=0, records=[batch(0, 5)]))
    taken = fetching.fetch(0)
    assert [next(taken)[1].offset, next(taken)[1].offset] == [0, 1]
    assert fetching.positions == {T0: 2}


def test_what_lies_before_the_offset_asked_for_is_left_out() -> None:
    fetching = fetcher({T0: 4}, FetchedPartition(index=0, records=[batch(0, 3) + batch(3, 3)]))
    assert offsets(fetching) == [(0, 4), (0, 5)]


def test_control_batches_and_gaps_are_passed_over() -> None:
    marker = build_control_batch(
        TransactionMarker(Outcome.COMMIT, 0), producer_id=1, producer_epoch=0, timestamp_ms=1, base_offset=2
    )
    fetching = fetcher({T0: 0}, FetchedPartition(index=0, records=[batch(0) + bytes(marker) + batch(10, 1)]))
    assert offsets(fetching) == [(0, 0), (0, 1), (0, 10)]
    assert fetching.positions == {T0: 11}


@pytest.mark.parametrize("cut", [1, 40, 61, 70])
def test_a_batch_that_was_cut_off_is_left_for_the_next_fetch(cut: int) -> None:
    fetching = fetcher({T0: 0}, FetchedPartition(index=0, records=[batch(0) + batch(2)[:cut]]))
    assert offsets(fetching) == [(0, 0), (0, 1)]
    assert fetching.positions == {T0: 2}


def test_damaged_bytes_are_no_records() -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    with pytest.raises(BatchChecksumWrong, match="offset 0"):
        offsets(fetcher({T0: 0}, FetchedPartition(index=0, records=[bytes(damaged)])))


@pytest.mark.parametrize(
    ("code", "raised"),
    [(ErrorCode.NOT_LEADER_OR_FOLLOWER, KafkaNotReady), (ErrorCode.TOPIC_AUTHORIZATION_FAILED, KafkaRefusal)],
)
def test_errors_of_a_partition_are_raised(code: ErrorCode, raised: type[Exception]) -> None:
    with pytest.raises(raised, match="t-0"):
        offsets(fetcher({T0: 0}, FetchedPartition(index=0, error_code=code)))


@pytest.mark.parametrize(("position", "resumed"), [(3, 10), (99, 20)])
def test_what_is_gone_is_passed_over_and_told(position: int, resumed: int, monkeypatch) -> None:
    monkeypatch.setattr(consuming, "ends_of", lambda _, keys: dict.fromkeys(keys, Ends(10, 20)))
    fetching = fetcher({T0: position}, FetchedPartition(index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    told: list[object] = []
    fetching._on_gap = lambda *gap: told.append(gap)
    assert offsets(fetching) == []
    assert fetching.positions == {T0: resumed}
    assert told == [(T0, position, resumed)]


def test_damaged_records_are_an_error_of_their_own() -> None:
    fetching = fetcher({T0: 7}, FetchedPartition(index=0, error_code=ErrorCode.CORRUPT_MESSAGE))
    with pytest.raises(
        RecordsDamaged, match="partition t-0: the broker cannot read the record at offset 7"
    ) as caught:
        offsets(fetching)
    assert isinstance(caught.value, CorruptData) and caught.value.offset == 7


def test_how_much_a_fetch_asks_for() -> None:
    """At least one byte: a broker with nothing new answers when the time is over."""
    fetching = fetcher({T0: 0})
    assert [*fetching.fetch(70)] == []
    (request,) = fetching._cluster.sent
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (70, 1, consuming.FETCH_BYTES_MAX)
    assert request.topics[0].partitions[0].bytes_max == consuming.PARTITION_BYTES_MAX


def test_an_offset_that_is_out_of_range_and_is_not_is_tried_again(monkeypatch) -> None:
    monkeypatch.setattr(consuming, "ends_of", lambda _, keys: dict.fromkeys(keys, Ends(10, 20)))
    fetching = fetcher({T0: 20}, FetchedPartition(index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(KafkaNotReady, match="reports offset 20 as out of range and as valid"):
        offsets(fetching)
