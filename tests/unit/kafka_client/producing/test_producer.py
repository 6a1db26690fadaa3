from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.producing.delivery import OutgoingRecord
from siltstone.kafka_client.producing.producer import (
    BATCH_BYTES,
    OPEN_BYTES_MAX,
    REQUEST_BYTES,
    PartitionDelivery,
    Producer,
    partition_of_key,
)
from siltstone.kafka_protocol.batch_header import Codec, read_batch_header
from siltstone.kafka_protocol.records.reading import iterate_records
from support.kafka.fake_cluster import FakeCluster
from support.values.left_out import numbers_left_out


def headers(cluster: FakeCluster) -> list[tuple[int, object]]:
    """Partition and header of each batch sent."""
    return [
        (data.index, read_batch_header(data.records))
        for request in cluster.requests
        for topic in request.topics
        for data in topic.partitions
    ]


def test_nothing_is_sent_before_a_batch_is_full_or_flushed() -> None:
    cluster = FakeCluster()
    producer = Producer(cluster, "t", 1)
    producer.add(OutgoingRecord(line=1, value=b"a"))
    assert cluster.requests == [] and producer.records == 0
    producer.flush()
    assert producer.records == 1
    assert producer.partitions == {0: PartitionDelivery(records=1, first_offset=0, last_offset=0)}


def test_full_batches_go_by_themselves_with_sequences_that_go_on() -> None:
    cluster = FakeCluster()
    producer = Producer(cluster, "t", 1)
    for line in range(1, 601):
        producer.add(OutgoingRecord(line=line, key=b"k", value=b"x" * 1000))
    assert producer.batches == 2
    producer.flush()
    batches = [header for _, header in headers(cluster)]
    assert [header.base_sequence for header in batches] == [
        0,
        batches[0].record_count,
        2 * batches[0].record_count,
    ]
    assert all(header.size_bytes <= BATCH_BYTES for header in batches)
    assert {(header.producer_id, header.producer_epoch) for header in batches} == {(7, 3)}
    assert len(cluster.logs[TopicPartition("t", 0)]) == 600
    assert producer.partitions[0] == PartitionDelivery(records=600, first_offset=0, last_offset=599)


def test_a_topic_that_takes_less_gets_smaller_batches() -> None:
    cluster = FakeCluster()
    producer = Producer(cluster, "t", 1, batch_bytes_max=2_000)
    for line in range(1, 21):
        producer.add(OutgoingRecord(line=line, value=b"x" * 500))
    producer.add(OutgoingRecord(line=21, value=b"x" * 9_000))  # the broker may judge it
    producer.flush()
    assert [header.record_count for _, header in headers(cluster)] == [3, 3, 3, 3, 3, 3, 2, 1]


def test_keys_decide_and_records_without_one_take_turns_by_batch() -> None:
    cluster = FakeCluster(4)
    producer = Producer(cluster, "t", 4)
    for line in range(1, 9):
        producer.add(OutgoingRecord(line=line, key=b"%d" % line, value=b"%d" % line))
    producer.flush()
    for partition, values in cluster.logs.items():
        assert {partition_of_key(value, 4) for value in values} == {partition.partition}
    cluster.sent.clear()
    for line in range(1, 5):
        producer.add(OutgoingRecord(line=line, value=b"x"))
        producer.flush()
    assert sorted(partition for partition, _ in headers(cluster)) == [0, 1, 2, 3]


def test_a_partition_that_is_said_wins_over_the_key() -> None:
    cluster = FakeCluster(4)
    producer = Producer(cluster, "t", 4)
    producer.add(OutgoingRecord(line=1, key=b"k", value=b"v", partition=3))
    producer.flush()
    assert [partition for partition, _ in headers(cluster)] == [3]


def test_a_record_keeps_its_time_and_gets_the_clocks_otherwise() -> None:
    cluster = FakeCluster()
    producer = Producer(cluster, "t", 1, compression=Codec.GZIP)
    producer.add(OutgoingRecord(line=1, value=b"a", timestamp_ms=5, headers=(("h", b"1"),)))
    producer.add(OutgoingRecord(line=2, key=None, value=None))
    producer.flush()
    (batch,) = [data.records for topic in cluster.requests[0].topics for data in topic.partitions]
    assert read_batch_header(batch).codec == Codec.GZIP
    first, second = iterate_records(batch)
    assert (first.timestamp_ms, first.headers) == (5, (("h", b"1"),))
    assert (second.timestamp_ms, second.key, second.value) == (cluster.clock.now_ms(), None, None)


def test_open_batches_of_many_partitions_are_bounded_together() -> None:
    cluster = FakeCluster(200)
    producer = Producer(cluster, "t", 200)
    for line in range(1, 201):
        producer.add(OutgoingRecord(line=line, value=b"x" * (BATCH_BYTES - 100), partition=line - 1))
    sent = len(headers(cluster))
    assert (200 - sent) * BATCH_BYTES <= OPEN_BYTES_MAX
    producer.flush()
    sizes = [sum(len(data.records) for data in request.topics[0].partitions) for request in cluster.requests]
    assert max(sizes) <= REQUEST_BYTES + BATCH_BYTES
    assert producer.records == 200


def test_what_is_left_out() -> None:
    assert numbers_left_out(PartitionDelivery) == {"records": 0, "first_offset": -1, "last_offset": -1}


def test_what_went_over_the_wire_is_counted() -> None:
    cluster = FakeCluster(2)
    producer = Producer(cluster, "t", 2)
    assert (producer.batches, producer.wire_bytes, producer.records) == (0, 0, 0)
    for line in (1, 2):
        producer.add(OutgoingRecord(line=line, value=b"x" * line, partition=line - 1))
    producer.flush()
    sent = [len(data.records) for topic in cluster.requests[0].topics for data in topic.partitions]
    assert (producer.batches, producer.wire_bytes) == (2, sum(sent))


def test_records_without_an_answer_are_counted_until_there_is_one() -> None:
    producer = Producer(FakeCluster(), "t", 1)
    assert producer.records_unacknowledged == 0
    producer.add(OutgoingRecord(line=1, value=b"a"))
    producer._send_open()
    assert (producer.records_unacknowledged, producer.records) == (1, 0)
    producer.flush()
    assert (producer.records_unacknowledged, producer.records) == (0, 1)


def test_a_batch_is_full_when_the_next_record_does_not_fit() -> None:
    """61 bytes of header, and for each record its value and at most 32 bytes more."""
    for limit, counts in ((61 + 2 * 132, [2, 1]), (61 + 2 * 132 - 1, [1, 1, 1])):
        cluster = FakeCluster()
        producer = Producer(cluster, "t", 1, batch_bytes_max=limit)
        for line in range(1, 4):
            producer.add(OutgoingRecord(line=line, value=b"x" * 100))
        producer.flush()
        assert [header.record_count for _, header in headers(cluster)] == counts


def test_headers_and_keys_take_room_too() -> None:
    cluster = FakeCluster()
    producer = Producer(cluster, "t", 1, batch_bytes_max=400)
    for line in range(1, 4):
        producer.add(
            OutgoingRecord(line=line, key=b"k" * 60, value=b"v" * 60, headers=(("h" * 30, b"x" * 60),))
        )
    producer.flush()
    assert [header.record_count for _, header in headers(cluster)] == [1, 1, 1]
    assert all(header.size_bytes <= 400 for _, header in headers(cluster))
