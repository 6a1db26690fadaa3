"""The ends of tails, as their owners tell them, and the batches of a tail in the form of blocks."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.kafka_client.client_settings import ClientSettings
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.connection import Security
from siltstone.kafka_client.failures import BrokerGone, NotKafka
from siltstone.kafka_client.offsets import LATEST, NO_OFFSET, FoundOffset
from siltstone.kafka_protocol.batch_errors import BatchChecksumWrong, TruncatedBatch
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.metadata.entities import (
    NO_NODE,
    NodeListener,
    PartitionMetadata,
    StreamMetadata,
    StreamState,
    TopicMetadata,
)
from siltstone.metadata.node_address import CLUSTER_ID_KEY, ListenerMissing, put_node_address
from siltstone.object_formats.batch_frame import decode_frames
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.scanning import tail as module
from siltstone.scanning.failures import TailNotReadable
from siltstone.scanning.planning import ScanPartition
from siltstone.scanning.request import Isolation, Tail
from siltstone.scanning.tail import Owner, Stranger, TailEnds, _framed, tail_ends
from siltstone.scanning.unit import TailPiece

ADDRESS, TOPIC_ID = "127.0.0.1:1001", "0f" * 16


def partition(number: int = 0, owner: int = 1, committed: int = 10, *, is_open: bool = True) -> ScanPartition:
    topic = TopicMetadata(TOPIC_ID, "t", (PartitionMetadata(0, 1),) * 4, {}, 1, 0, False)
    state = StreamState.OPENED if is_open else StreamState.CLOSED
    return ScanPartition(
        topic, number, StreamMetadata(70 + number, state, 0, owner, 0, committed, (), (), {})
    )


class Cluster:
    def __init__(self) -> None:
        self.is_closed = False

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True


class Broker:
    """Answers for every node. ``answer`` gives the offset for a partition and a time."""

    def __init__(self) -> None:
        self.answer: Callable[[TopicPartition, int], int] = lambda partition, timestamp_ms: 25
        self.trouble: Exception | None = None
        self.clusters: list[Cluster] = []
        self.addresses: list[str] = []
        self.isolation = -1

    def connect(self, bootstrap: Any, *_: object) -> "Cluster":
        self.addresses += map(str, bootstrap)
        self.clusters.append(Cluster())
        return self.clusters[-1]

    @property
    def made(self) -> int:
        return len(self.clusters)

    @property
    def open(self) -> int:
        return sum(not each.is_closed for each in self.clusters)

    def check(self, cluster: object, cluster_id: str | None, topic: str, topic_id: str) -> None:
        assert (cluster_id, topic, topic_id) == ("cluster", "t", TOPIC_ID)
        if self.trouble is not None:
            raise self.trouble

    def offsets(
        self, cluster: object, partitions: Any, timestamp_ms: int, isolation: int = 0
    ) -> dict[TopicPartition, FoundOffset]:
        self.isolation = isolation
        return {each: FoundOffset(self.answer(each, timestamp_ms), -1) for each in partitions}

    def ends(
        self,
        *partitions: ScanPartition,
        tail: Tail = Tail.AUTO,
        is_known: bool = True,
        isolation: Isolation = Isolation.COMMITTED,
        listener: str = "",
    ) -> TailEnds:
        keys = {CLUSTER_ID_KEY: b"cluster"}
        for node_id in (1, 2) if is_known else ():
            put = put_node_address(node_id, ADDRESS)
            keys[put.key] = put.value
        secure = NodeListener("SECURE", "127.0.0.1", 2001)
        node = SimpleNamespace(node_id=1, listeners=(secure,))
        image: Any = SimpleNamespace(keys=keys, nodes={1: node})
        security = Security(ClientSettings(listener=listener))
        return tail_ends(
            image, partitions, tail, ManualClock(), seeded_randomness(1), security, isolation=isolation
        )


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(module, "Cluster", made.connect)
    monkeypatch.setattr(module, "refuse_stranger", made.check)
    monkeypatch.setattr(module, "offsets_at", made.offsets)
    return made


@pytest.mark.parametrize(("isolation", "level"), [(Isolation.COMMITTED, 1), (Isolation.UNCOMMITTED, 0)])
def test_owners_are_asked_up_to_where_their_partitions_are_decided(
    broker: Broker, isolation: Isolation, level: int
) -> None:
    wanted = partition(0)
    with broker.ends(wanted, isolation=isolation) as ends:
        assert (broker.isolation, ends.end_of(wanted), ends.asked_end(wanted)) == (level, 25, 25)
        ends.limit(wanted, 7)
        assert ends.end_of(wanted) == 7


@pytest.mark.parametrize(
    ("tail", "ends"), [(Tail.AUTO, [25, 10, 10]), (Tail.FETCH, [25, 25, 10]), (Tail.COMMITTED, [10, 10, 10])]
)
def test_the_owners_of_open_partitions_are_asked_or_of_all_or_none(
    broker: Broker, tail: Tail, ends: list[int]
) -> None:
    wanted = [partition(0), partition(1, is_open=False), partition(2, NO_NODE)]
    with broker.ends(*wanted, tail=tail) as found:
        assert [found.end_of(each) for each in wanted] == ends
        assert broker.open == (tail is not Tail.COMMITTED)
    assert broker.open == 0


def test_one_connection_for_each_node_and_an_end_below_the_objects_is_theirs(broker: Broker) -> None:
    wanted = [partition(0), partition(1, committed=30), partition(2, owner=2)]
    with broker.ends(*wanted) as found:
        assert [found.end_of(each) for each in wanted] == [25, 30, 25]
        assert broker.made == 2


def test_an_owner_is_asked_at_the_listener_that_the_settings_name(broker: Broker) -> None:
    with broker.ends(partition(0), listener="SECURE") as found:
        assert found.end_of(partition(0)) == 25
        assert found.piece(partition(0), 10, 25).address == "127.0.0.1:2001"
    assert broker.addresses == ["127.0.0.1:2001"]
    with pytest.raises(
        TailNotReadable, match=r"its broker has no listener SECURE, which siltstone\.listener names"
    ):
        broker.ends(partition(0, owner=2), listener="SECURE")
    with pytest.raises(ListenerMissing, match=r"names OTHER, .* set it to SECURE"):
        broker.ends(partition(0), listener="OTHER")
    with broker.ends(partition(0), tail=Tail.COMMITTED, listener="OTHER"):
        assert broker.open == 0, "nobody is asked"


@pytest.mark.parametrize("trouble", [BrokerGone("gone"), NotKafka("no broker"), Stranger("of another store")])
def test_an_owner_that_cannot_be_asked_is_an_error_and_no_connection_stays_open(
    broker: Broker, trouble: Exception
) -> None:
    broker.trouble = trouble
    with pytest.raises(TailNotReadable, match=str(trouble)):
        broker.ends(partition(0), partition(1))
    assert broker.open == 0
    with pytest.raises(TailNotReadable, match="the metadata has no address of its broker"):
        broker.ends(partition(0), is_known=False)


def test_a_later_owner_that_cannot_be_asked_closes_the_earlier_connections(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second_fails(*given: Any) -> None:
        if broker.made == 2:
            raise BrokerGone("gone")

    monkeypatch.setattr(module, "refuse_stranger", second_fails)
    with pytest.raises(TailNotReadable):
        broker.ends(partition(0), partition(1, owner=2))
    assert (broker.made, broker.open) == (2, 0)


@pytest.mark.parametrize(("told", "found"), [(12, 12), (24, 24), (25, None), (26, None), (NO_OFFSET, None)])
def test_a_time_is_looked_up_in_the_tail_below_its_end(broker: Broker, told: int, found: int | None) -> None:
    def answer(of: TopicPartition, timestamp_ms: int) -> int:
        if timestamp_ms == LATEST:
            return 25
        assert (of, timestamp_ms) == (TopicPartition("t", 0), 5_000)
        return told

    broker.answer = answer
    with broker.ends(partition(0)) as ends:
        assert ends.offset_at(partition(0), 5_000) == found


def test_a_partition_without_a_tail_is_not_asked_for_times(broker: Broker) -> None:
    def answer(_: TopicPartition, timestamp_ms: int) -> int:
        assert timestamp_ms == LATEST
        return 10

    broker.answer = answer
    with broker.ends(partition(0), partition(1, is_open=False)) as ends:
        assert ends.offset_at(partition(0), 5_000) is None
        assert ends.offset_at(partition(1, is_open=False), 5_000) is None


def test_a_broker_that_goes_while_times_are_looked_up_is_named(broker: Broker) -> None:
    with broker.ends(partition(0)) as ends:

        def answer(_: TopicPartition, timestamp_ms: int) -> int:
            raise BrokerGone("gone")

        broker.answer = answer
        with pytest.raises(TailNotReadable, match="gone"):
            ends.offset_at(partition(0), 5_000)


def test_a_piece_says_where_its_offsets_are_and_of_which_store_and_topic() -> None:
    ends = TailEnds("cluster")
    cluster: Any = SimpleNamespace(close=lambda: None)
    ends.add(partition(3), 25, Owner(1, ADDRESS, cluster))
    assert ends.piece(partition(3), 10, 25) == TailPiece("t", TOPIC_ID, 3, 73, 1, ADDRESS, "cluster", 10, 25)


# -- batches


def sent(*base_offsets: int) -> bytearray:
    """Batches of two records each, as a broker sends them."""
    records = [Record(timestamp_ms=5, value=b"a"), Record(timestamp_ms=9, value=b"b")]
    return bytearray().join(build_batch(records, base_offset=base) for base in base_offsets)


def test_whole_batches_become_frames_and_the_next_offset_is_behind_them() -> None:
    data = sent(10, 12)
    framed, position = _framed(memoryview(data), 70, 11)
    assert position == 14
    frames = list(decode_frames(framed))
    assert [(each.stream_id, each.base_offset, each.end_offset) for each in frames] == [
        (70, 10, 12),
        (70, 12, 14),
    ]
    assert [(each.smallest_timestamp_ms, each.largest_timestamp_ms) for each in frames] == [(5, 9), (5, 9)]
    assert [each.record_count for each in frames] == [2, 2]
    assert b"".join(bytes(each.payload) for each in frames) == bytes(data)


def test_a_batch_that_is_cut_off_is_left_for_the_next_request() -> None:
    framed, position = _framed(memoryview(sent(10, 12))[:-1], 70, 10)
    assert (len(list(decode_frames(framed))), position) == (1, 12)
    with pytest.raises(TruncatedBatch, match="has no whole batch"):
        _framed(memoryview(sent(10))[:-1], 70, 10)


def test_a_batch_below_the_position_does_not_set_it_back() -> None:
    assert _framed(memoryview(sent(10)), 70, 30)[1] == 30


def test_a_batch_with_a_wrong_checksum_is_damage() -> None:
    data = sent(10)
    data[-1] ^= 1
    with pytest.raises(BatchChecksumWrong):
        _framed(memoryview(data), 70, 10)
