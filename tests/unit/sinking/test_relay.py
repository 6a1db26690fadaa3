"""The relay of a batch, with brokers whose answers the test sets: each record once, and with its own sequence."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import KafkaRefusal, TopicUnknown
from siltstone.kafka_client.offsets import FoundOffset
from siltstone.kafka_client.producing.delivery import OutgoingBatch
from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.metadata.sinks import SinkBatch, SinkState, SinkTarget
from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock
from siltstone.sinking import relay as module
from siltstone.sinking.failures import SinkBatchStuck
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.relay import Relay, RelayOverlaps, start_offsets
from siltstone.sinking.staging import StagedPart

PRODUCER_ID = 77
TOPIC_ID = "0f" * 16
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)

Written = tuple[TopicPartition, int, list[bytes]]
"""Partition, first sequence and values of a record batch."""


class Brokers:
    """``told`` and ``found`` are the producer's last sequence by what brokers remember, and by what partitions hold."""

    def __init__(self) -> None:
        self.told: dict[TopicPartition, int] = {}
        self.found: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {ZERO: 100, ONE: 200}
        self.looked: list[tuple[TopicPartition, int, int]] = []
        self.sent: list[OutgoingBatch] = []
        self.topic_ids: dict[str, bytes] = {}
        self.waits = 0
        self.refusal: Exception | None = None

    # -- what the relay asks of the client

    def delivery(
        self, cluster: object, delivered: object, warn: object, topic_ids: dict[str, bytes], name: str | None
    ) -> Any:
        assert name is None
        self.topic_ids = topic_ids
        return SimpleNamespace(send=self.sent.extend, wait=self._wait)

    def _wait(self) -> None:
        self.waits += 1
        if self.refusal is not None:
            raise self.refusal

    def offsets_at(self, cluster: object, partitions: Any, timestamp_ms: int) -> dict[TopicPartition, Any]:
        return {each: FoundOffset(self.ends[each], -1) for each in partitions}

    def sequences(self, cluster: object, partitions: Any, producer_id: int) -> dict[TopicPartition, int]:
        assert producer_id == PRODUCER_ID
        return {each: self.told[each] for each in partitions if each in self.told}

    def between(
        self, cluster: object, partition: TopicPartition, producer_id: int, start: int, end: int
    ) -> int | None:
        self.looked.append((partition, start, end))
        return self.found.get(partition)

    # -- what was sent

    def written(self) -> list[Written]:
        for each in self.sent:
            header = read_batch_header(each.data)
            assert (header.producer_id, header.producer_epoch) == (PRODUCER_ID, 0)
            assert len(each.lines) == header.record_count
        assert [each.number for each in self.sent] == list(range(1, len(self.sent) + 1))
        return [
            (
                each.partition,
                read_batch_header(each.data).base_sequence,
                [bytes(record.value or b"") for record in iterate_records(bytes(each.data))],
            )
            for each in self.sent
        ]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(module, "Delivery", made.delivery)
    monkeypatch.setattr(module, "offsets_at", made.offsets_at)
    monkeypatch.setattr(module, "described_sequences", made.sequences)
    monkeypatch.setattr(module, "last_sequence_between", made.between)
    return made


def manifest(*parts: tuple[int, list[list[bytes]]]) -> SinkManifest:
    """Parts, each a partition and the values of its record batches."""
    found, inline = [], bytearray()
    for partition, batches in parts:
        data = b"".join(bytes(build_batch([Record(value=value) for value in values])) for values in batches)
        count = sum(map(len, batches))
        place = ("t", TOPIC_ID, partition, 10 + partition, "", len(inline), len(data), count)
        found.append(StagedPart(*place))
        inline += data
    return SinkManifest(1, tuple(found), bytes(inline))


TWO = manifest((0, [[b"a", b"b"], [b"c"]]), (1, [[b"x"]]), (0, [[b"d", b"e"]]))
"""Five records for partition 0 in two parts, and one for partition 1."""


def relay(of: SinkManifest = TWO, first: int = 0, other: int = 0) -> Relay:
    """``first`` and ``other`` are the producer's next sequences in the two partitions."""
    targets = (SinkTarget(10, first, 100), SinkTarget(11, other, 200))
    batch = SinkBatch("relay", "query", 3, SinkState.INTENT, "d", PRODUCER_ID, "m", 0, 0, "", targets)
    cluster: Any = SimpleNamespace()
    return Relay(cluster, MemoryStore(ManualClock()), "out", batch, of)


def image(**changes: int) -> Any:
    """Both streams begin at offset 0, unless said otherwise of stream 10."""
    streams = {
        stream_id: StreamMetadata(stream_id, StreamState.OPENED, 0, 1, 0, 0, (), (), {})
        for stream_id in (10, 11)
    }
    streams[10] = replace(streams[10], **changes)
    return SimpleNamespace(streams=streams)


# -- sending


def test_batches_go_in_the_order_of_parts_as_the_producers_next_in_each_partition(brokers: Brokers) -> None:
    relay(first=40, other=7).send({})
    assert brokers.written() == [
        (ZERO, 40, [b"a", b"b"]),
        (ZERO, 42, [b"c"]),
        (ONE, 7, [b"x"]),
        (ZERO, 43, [b"d", b"e"]),
    ]
    assert brokers.topic_ids == {"t": bytes.fromhex(TOPIC_ID)}
    assert brokers.waits == 1, "it returns when all of it is acknowledged"


@pytest.mark.parametrize(
    ("done", "left"),
    [
        ({10: 0}, [b"a", b"c", b"x", b"d"]),
        ({10: 2}, [b"c", b"x", b"d"]),
        ({10: 3}, [b"x", b"d"]),
        ({10: 3, 11: 1}, [b"d"]),
        ({10: 5, 11: 0}, [b"x"]),
        ({10: 5, 11: 1}, []),
    ],
)
def test_what_a_partition_has_already_is_not_sent_again(
    brokers: Brokers, done: dict[int, int], left: list[bytes]
) -> None:
    relay(first=40).send(done)
    written = brokers.written()
    assert [values[0] for _, _, values in written] == left
    assert all(
        sequence == {b"a": 40, b"c": 42, b"d": 43, b"x": 0}[values[0]] for _, sequence, values in written
    )


@pytest.mark.parametrize("done", [1, 4])
def test_a_producer_that_ended_inside_a_record_batch_is_not_guessed_at(brokers: Brokers, done: int) -> None:
    with pytest.raises(SinkBatchStuck, match=f"at t-0: .*inside a record batch, after {done} records"):
        relay().send({10: done})


def test_sequences_begin_again_at_0_after_the_largest(brokers: Brokers) -> None:
    relay(first=2**31 - 2).send({})
    assert [sequence for partition, sequence, _ in brokers.written() if partition == ZERO] == [
        2**31 - 2,
        0,
        1,
    ]


def test_the_sink_stands_behind_the_batch(brokers: Brokers) -> None:
    assert relay(first=40, other=7).end_targets() == (SinkTarget(10, 45, 100), SinkTarget(11, 8, 200))
    assert relay(first=2**31 - 2).end_targets()[0] == SinkTarget(10, 3, 100)


@pytest.mark.parametrize(
    ("refusal", "raised"),
    [
        (KafkaRefusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "later"), RelayOverlaps),
        (KafkaRefusal(ErrorCode.MESSAGE_TOO_LARGE, "too large"), SinkBatchStuck),
        (TopicUnknown("no topic t"), SinkBatchStuck),
    ],
)
def test_a_sequence_that_another_process_has_sent_is_looked_up_and_other_refusals_are_for_good(
    brokers: Brokers, refusal: Exception, raised: type[Exception]
) -> None:
    brokers.refusal = refusal
    with pytest.raises(raised, match=str(refusal)):
        relay().send({})


# -- how far the producer came


@pytest.mark.parametrize(
    ("first", "last", "done"),
    [(40, 39, 0), (40, 40, 1), (40, 44, 5), (0, 4, 5), (2**31 - 2, 2**31 - 1, 2), (2**31 - 2, 0, 3)],
)
def test_the_brokers_know_how_far_the_producer_came(
    brokers: Brokers, first: int, last: int, done: int
) -> None:
    brokers.told = {ZERO: last, ONE: 0}
    assert relay(first=first).done_records(image()) == {10: done, 11: 1}
    assert brokers.looked == []


@pytest.mark.parametrize("last", [38, 45, 0])
def test_a_sequence_that_is_not_of_the_batch_stops_it(brokers: Brokers, last: int) -> None:
    brokers.told = {ZERO: last, ONE: 0}
    with pytest.raises(
        SinkBatchStuck, match=rf"at sequence {last}, which is not one of this batch \(40 to 44\)"
    ):
        relay(first=40).done_records(image())


@pytest.mark.parametrize("told", [{}, {ZERO: -1}])
def test_a_producer_that_the_broker_has_forgotten_is_looked_for_in_the_partition(
    brokers: Brokers, told: dict[TopicPartition, int]
) -> None:
    brokers.told = {ONE: -1, **told}
    brokers.ends = {ZERO: 130, ONE: 200}
    brokers.found = {ZERO: 42}
    assert relay(first=40).done_records(image()) == {10: 3, 11: 0}
    assert brokers.looked == [(ZERO, 100, 130), (ONE, 200, 200)]


@pytest.mark.parametrize(
    ("changes", "end", "what"),
    [
        ({"start_offset": 101}, 130, "retention"),
        ({"start_offset": 130}, 130, "retention"),
        ({"cleaned_offset": 101}, 130, "key compaction"),
    ],
)
def test_records_that_were_removed_since_the_batch_began_stop_it(
    brokers: Brokers, changes: dict[str, int], end: int, what: str
) -> None:
    brokers.told, brokers.ends = {ONE: 0}, {ZERO: end}
    with pytest.raises(SinkBatchStuck, match=f"{what} has removed records behind offset 100"):
        relay().done_records(image(**changes))


@pytest.mark.parametrize(
    ("changes", "end"),
    [({"start_offset": 100}, 130), ({"cleaned_offset": 100}, 130), ({"cleaned_offset": 101}, 100)],
)
def test_what_was_removed_before_the_batch_began_is_none_of_it(
    brokers: Brokers, changes: dict[str, int], end: int
) -> None:
    brokers.told, brokers.ends = {ONE: 0}, {ZERO: end}
    assert relay().done_records(image(**changes))[10] == 0


def test_a_batch_begins_at_the_ends_of_its_partitions(brokers: Brokers) -> None:
    cluster: Any = SimpleNamespace()
    assert start_offsets(cluster, TWO.parts) == (SinkTarget(10, 0, 100), SinkTarget(11, 0, 200))
