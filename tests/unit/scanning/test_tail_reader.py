"""Reading a tail from a broker that is gone for a while, has trimmed it, or is another's."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from siltstone.kafka_client.client_settings import ClientSettings
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.connection import Security
from siltstone.kafka_client.failures import BrokerGone
from siltstone.kafka_client.offsets import EARLIEST, FoundOffset
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchRequest,
    FetchResponse,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.record_columns.kernels import plain
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.scanning import tail as module
from siltstone.scanning.failures import DataLost, ScanDamaged, TailNotReadable, TopicNotThere
from siltstone.scanning.tail import Stranger, TailReader
from siltstone.scanning.unit import TailPiece

TOPIC_ID = "0f" * 16
PIECE = TailPiece("t", TOPIC_ID, 0, 70, 1, "127.0.0.1:1001", "cluster", 10, 16)


def batches(*base_offsets: int) -> bytes:
    """Batches of two records each."""
    records = [Record(value=b"a"), Record(value=b"b")]
    return b"".join(bytes(build_batch(records, base_offset=base)) for base in base_offsets)


def answer(records: bytes = b"", code: int = 0, *, has_row: bool = True) -> FetchResponse:
    rows = [FetchedPartition(index=0, error_code=code, records=[memoryview(records)])] if has_row else []
    return FetchResponse(topics=[FetchedTopic(topic_id=bytes.fromhex(TOPIC_ID), partitions=rows)])


class Broker:
    """Gives its answers one after another, and the last one again and again; an exception is raised."""

    def __init__(self, *answers: FetchResponse | Exception) -> None:
        self.clock = ManualClock()
        self.answers = list(answers)
        self.asked: list[int] = []
        self.leaders: list[tuple[int, int]] = []
        self.checks = 0
        self.reconnects = 0
        self.is_closed = False
        self.stranger: Stranger | None = None

    def entrance(self) -> "Broker":
        return self

    def leader_of(self, partition: TopicPartition) -> int:
        assert partition == TopicPartition("t", 0)
        return 2

    def broker(self, node_id: int) -> "Broker":
        self.leaders.append((node_id, len(self.asked)))
        return self

    def call_in(self, version: int, request: FetchRequest, kind: type) -> FetchResponse:
        (topic,) = request.topics
        (wanted,) = topic.partitions
        assert (version, topic.topic_id, wanted.index) == (13, bytes.fromhex(TOPIC_ID), 0)
        self.asked.append(wanted.fetch_offset)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        return found

    def reconnect(self) -> None:
        self.reconnects += 1

    def close(self) -> None:
        self.is_closed = True

    def check(self, cluster: object, cluster_id: str, topic: str, topic_id: str) -> None:
        assert (cluster_id, topic, topic_id) == ("cluster", "t", TOPIC_ID)
        self.checks += 1
        if self.stranger is not None:
            raise self.stranger


Reading = Callable[[Broker], int]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """Reads the piece from a broker; returns how many answers had batches."""

    def reading(broker: Broker) -> int:
        monkeypatch.setattr(module, "Cluster", lambda *_: broker)
        monkeypatch.setattr(module, "refuse_stranger", broker.check)
        monkeypatch.setattr(
            module,
            "offsets_at",
            lambda cluster, partitions, timestamp_ms: {
                TopicPartition("t", 0): FoundOffset(14 if timestamp_ms == EARLIEST else -1, -1)
            },
        )
        kernels: Any = plain
        try:
            with TailReader(PIECE, broker.clock, seeded_randomness(1)) as reader:
                return sum(1 for _ in reader.read(kernels))
        finally:
            assert broker.is_closed

    return reading


@pytest.mark.parametrize(
    ("listener", "address"), [("", "127.0.0.1:1001"), ("SECURE", "127.0.0.1:1002"), ("LOGIN", None)]
)
def test_a_task_goes_to_the_listener_that_its_own_settings_name(
    listener: str, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's may have named another: the file was replaced after the plan was made."""
    connected: list[str] = []

    def connect(bootstrap: list[object], *_: object) -> Broker:
        connected.extend(map(str, bootstrap))
        return Broker()

    monkeypatch.setattr(module, "Cluster", connect)
    piece = msgspec.structs.replace(
        PIECE, listeners={"PLAINTEXT": "127.0.0.1:1001", "SECURE": "127.0.0.1:1002"}
    )
    security = Security(ClientSettings(listener=listener))
    if address is None:
        with pytest.raises(TailNotReadable, match=r"no listener LOGIN, which siltstone\.listener names"):
            TailReader(piece, ManualClock(), seeded_randomness(1), security)
    else:
        TailReader(piece, ManualClock(), seeded_randomness(1), security)
    assert connected == [address][: address is not None]


def test_it_is_read_to_its_end_each_time_from_where_the_last_answer_ended(read: Reading) -> None:
    broker = Broker(answer(batches(10, 12)), answer(batches(14)), answer(batches(99)))
    assert read(broker) == 2
    assert (broker.asked, broker.checks, broker.reconnects) == ([10, 14], 1, 0)


@pytest.mark.parametrize(
    "trouble",
    [
        BrokerGone("gone"), answer(has_row=False), answer(b""), answer(batches(10)[:60]),
        answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)  # fmt: skip
def test_a_broker_that_is_not_ready_is_asked_again_over_a_new_connection(read: Reading, trouble: Any) -> None:
    broker = Broker(answer(batches(10)), trouble, trouble, answer(batches(12, 14)))
    assert read(broker) == 2
    assert broker.asked == [10, 12, 12, 12]
    assert (broker.reconnects, broker.checks) == (2, 3), "whose the broker is, is asked anew"


def test_a_partition_that_has_moved_is_read_from_its_leader(read: Reading) -> None:
    moved = answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    broker = Broker(
        answer(batches(10)), BrokerGone("gone"), moved, BrokerGone("gone"), answer(batches(12, 14))
    )
    assert read(broker) == 2
    assert broker.leaders == [(2, 3), (2, 4)], "asked for only once the first broker has said so"


def test_a_broker_that_is_not_ready_for_too_long_is_named(read: Reading) -> None:
    broker = Broker(BrokerGone("gone"))
    began_ms = broker.clock.monotonic_ms()
    with pytest.raises(TailNotReadable, match=r"its broker at 127\.0\.0\.1:1001 does not return them: gone"):
        read(broker)
    assert 18_000 < broker.clock.monotonic_ms() - began_ms <= 20_000


def test_what_was_trimmed_since_the_plan_is_lost_data_with_the_first_offset_that_is_left(
    read: Reading,
) -> None:
    with pytest.raises(DataLost) as lost:
        read(Broker(answer(batches(10)), answer(code=ErrorCode.OFFSET_OUT_OF_RANGE)))
    assert (lost.value.partition, lost.value.wanted, lost.value.first) == ("t-0", 12, 14)


def test_a_topic_that_is_gone_and_a_broker_of_another_store_are_not_waited_for(read: Reading) -> None:
    broker = Broker(answer(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(TopicNotThere, match="t-0: "):
        read(broker)
    stranger = Broker(answer(batches(10)))
    stranger.stranger = Stranger("a broker of another store answers there")
    with pytest.raises(TopicNotThere, match="another store"):
        read(stranger)
    assert (len(broker.asked), stranger.asked, stranger.checks) == (1, [], 1)


def test_a_damaged_answer_is_an_error_that_names_the_offset(read: Reading) -> None:
    damaged = bytearray(batches(12))
    damaged[-1] ^= 1
    with pytest.raises(ScanDamaged) as found:
        read(Broker(answer(batches(10)), answer(bytes(damaged))))
    assert (found.value.partition, found.value.offset) == ("t-0", 12)
