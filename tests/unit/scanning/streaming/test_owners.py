"""The owners of tails, asked again and again: over one connection each, and left alone for a while when silent."""

from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.kafka_client.client_settings import ClientSettings
from siltstone.kafka_client.connection import Security
from siltstone.kafka_client.failures import BrokerGone, BrokerWithoutTls, LoginRefused, MechanismNotOffered
from siltstone.kafka_client.offsets import FoundOffset
from siltstone.metadata.entities import (
    NO_NODE,
    NodeListener,
    PartitionMetadata,
    StreamMetadata,
    StreamState,
    TopicMetadata,
)
from siltstone.metadata.node_address import CLUSTER_ID_KEY, ListenerMissing, put_node_address
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.scanning.planning import ScanPartition
from siltstone.scanning.streaming import owners as module
from siltstone.scanning.streaming.owners import PAUSE_MS, WARNING_INTERVAL_MS, TailOwners
from siltstone.scanning.tail import Stranger

COMMITTED, END = 10, 25
A, B = "127.0.0.1:1001", "127.0.0.1:1002"


class Connection:
    def __init__(self, address: str) -> None:
        self.address = address
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Brokers:
    """What is asked of brokers. ``silent`` are addresses that do not answer, ``strangers`` those of other stores."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.made: list[Connection] = []
        self.checked: list[str] = []
        self.silent: set[str] = set()
        self.strangers: set[str] = set()
        self.misfits: dict[str, Exception] = {}
        self.asked: list[tuple[str, int]] = []
        self.addresses = {1: A, 2: B}
        self.security = Security()
        self.used: list[Security] = []
        self.nodes: dict[int, Any] = {}
        asked: Any = lambda: self.security  # noqa: E731
        self.owners = TailOwners(self.clock, seeded_randomness(1), asked)

    def connect(self, bootstrap: Any, clock: object, rng: object, security: Security) -> Connection:
        (place,) = bootstrap
        self.used.append(security)
        self.made.append(Connection(f"{place.host}:{place.port}"))
        return self.made[-1]

    def check(self, cluster: Connection, cluster_id: str | None, topic: str, topic_id: str) -> None:
        assert cluster_id == "cluster"
        self.checked.append(topic)
        if cluster.address in self.misfits:
            raise self.misfits[cluster.address]
        if cluster.address in self.strangers:
            raise Stranger("a broker of another store answers there")

    def offsets(
        self, cluster: Connection, partitions: Any, timestamp_ms: int, isolation: int
    ) -> dict[Any, FoundOffset]:
        wanted = list(partitions)
        self.asked.append((cluster.address, len(wanted)))
        if cluster.address in self.silent:
            raise BrokerGone("no answer")
        return {each: FoundOffset(END, -1) for each in wanted}

    def ends(self, *partitions: ScanPartition) -> list[int]:
        """The ends of the partitions, by what their owners say."""
        keys = {CLUSTER_ID_KEY: b"cluster"}
        keys |= {
            (put := put_node_address(node_id, address)).key: put.value
            for node_id, address in self.addresses.items()
        }
        image: Any = SimpleNamespace(keys=keys, nodes=self.nodes)
        found = self.owners.ends(image, partitions)
        for each in partitions:
            if found.end_of(each) > COMMITTED:
                assert found.piece(each, COMMITTED, END).cluster_id == "cluster"
        return [found.end_of(each) for each in partitions]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(module, "Cluster", made.connect)
    monkeypatch.setattr(module, "refuse_stranger", made.check)
    monkeypatch.setattr(module, "offsets_at", made.offsets)
    return made


def partition(owner: int, topic: str = "t", number: int = 0, *, is_open: bool = True) -> ScanPartition:
    of = TopicMetadata(topic.ljust(32, "0"), topic, (PartitionMetadata(0, 1),) * 3, {}, 1, 0, False)
    state = StreamState.OPENED if is_open else StreamState.CLOSED
    return ScanPartition(of, number, StreamMetadata(number, state, 0, owner, 0, COMMITTED, (), (), {}))


def test_each_owner_is_asked_over_a_connection_that_stays_open(brokers: Brokers) -> None:
    wanted = [partition(1), partition(1, number=1), partition(2, "u")]
    for _ in range(3):
        assert brokers.ends(*wanted) == [END] * 3
    assert [each.address for each in brokers.made] == [A, B]
    assert brokers.asked == [(A, 2), (B, 1)] * 3
    assert sorted(brokers.checked) == ["t", "u"], "whose the broker is, is asked once for each topic"
    brokers.owners.close()
    assert all(each.is_closed for each in brokers.made)


def test_only_open_partitions_with_an_owner_have_a_tail(brokers: Brokers) -> None:
    assert brokers.ends(partition(1, is_open=False), partition(NO_NODE)) == [COMMITTED] * 2
    assert brokers.made == []


def test_a_connection_that_no_partition_needs_any_more_is_closed(brokers: Brokers) -> None:
    brokers.ends(partition(1), partition(2, "u"))
    brokers.ends(partition(2), partition(2, "u"))
    first, second = brokers.made
    assert (first.is_closed, second.is_closed) == (True, False)
    brokers.addresses[2] = A
    brokers.ends(partition(2))
    assert second.is_closed and [each.address for each in brokers.made] == [A, B, A]


@pytest.mark.parametrize("trouble", ["silent", "strangers"])
def test_an_owner_that_cannot_be_asked_is_left_alone_for_a_second(brokers: Brokers, trouble: str) -> None:
    getattr(brokers, trouble).add(A)
    wanted = [partition(1), partition(2, "u")]
    assert brokers.ends(*wanted) == [COMMITTED, END], "the others are asked"
    assert brokers.made[0].is_closed
    getattr(brokers, trouble).clear()
    brokers.clock.advance_ms(PAUSE_MS - 1)
    assert brokers.ends(*wanted) == [COMMITTED, END]
    brokers.clock.advance_ms(1)
    assert brokers.ends(*wanted) == [END, END]
    assert [each.address for each in brokers.made] == [A, B, A]
    assert brokers.checked.count("t") == 2, "after a new connection it is asked again whose the broker is"


@pytest.mark.parametrize(("pause_ms", "count"), [(WARNING_INTERVAL_MS - 1, 1), (WARNING_INTERVAL_MS, 2)])
def test_a_warning_names_the_node_once_a_minute(
    brokers: Brokers, caplog: pytest.LogCaptureFixture, pause_ms: int, count: int
) -> None:
    brokers.silent.add(A)
    for _ in range(2):
        assert brokers.ends(partition(1)) == [COMMITTED]
        brokers.clock.advance_ms(pause_ms)
    assert len(brokers.made) == 2 and len(caplog.messages) == count
    said = f"1 partitions of node 1 only as far as they are in objects, because its broker at {A} cannot be asked"
    assert said in caplog.messages[0]


def test_a_node_without_an_address_is_named_as_well(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.addresses = {}
    assert brokers.ends(partition(2)) == [COMMITTED]
    assert (
        "its broker at an unknown address cannot be asked for the rest: the metadata has no address"
        in caplog.text
    )


def test_each_new_connection_is_made_by_the_settings_of_its_moment(brokers: Brokers) -> None:
    assert brokers.ends(partition(1)) == [END]
    old, new = brokers.security, Security()
    brokers.security = new
    assert brokers.ends(partition(1)) == [END]
    assert brokers.used == [old], "an open connection stays"
    brokers.silent.add(A)
    assert brokers.ends(partition(1)) == [COMMITTED]
    brokers.silent.clear()
    brokers.clock.advance_ms(PAUSE_MS)
    assert brokers.ends(partition(1)) == [END]
    assert brokers.used == [old, new]


@pytest.mark.parametrize("misfit", [BrokerWithoutTls("no TLS"), MechanismNotOffered("no login")])
def test_a_listener_of_another_protocol_is_waited_for_once_an_owner_was_asked(
    brokers: Brokers, misfit: Exception
) -> None:
    """As when a cluster goes back from a login to TLS to plaintext: the file is replaced a moment later."""
    brokers.misfits[A] = misfit
    with pytest.raises(type(misfit)):
        brokers.ends(partition(1))
    brokers.misfits.clear()
    assert brokers.ends(partition(1)) == [END]
    brokers.addresses[1], brokers.misfits[B] = B, misfit
    assert brokers.ends(partition(1)) == [COMMITTED]
    brokers.misfits.clear()
    brokers.clock.advance_ms(PAUSE_MS)
    assert brokers.ends(partition(1)) == [END]


def test_a_refused_login_ends_the_query(brokers: Brokers) -> None:
    assert brokers.ends(partition(1)) == [END]
    brokers.addresses[1], brokers.misfits[B] = B, LoginRefused("ada")
    with pytest.raises(LoginRefused):
        brokers.ends(partition(1))


def by_listener(name: str) -> Security:
    return Security(ClientSettings(listener=name))


def test_owners_are_asked_at_the_listener_that_the_settings_name(brokers: Brokers) -> None:
    brokers.nodes = {
        1: SimpleNamespace(node_id=1, listeners=(NodeListener("SECURE", "127.0.0.1", 2001),)),
        2: SimpleNamespace(node_id=2, listeners=(NodeListener("LOGIN", "127.0.0.1", 3002),)),
    }
    wanted = [partition(1), partition(2, "u")]
    brokers.security = by_listener("SECURE")
    assert brokers.ends(*wanted) == [END, COMMITTED], "node 2 has no such listener"
    assert [each.address for each in brokers.made] == ["127.0.0.1:2001"]
    brokers.security = by_listener("LOGIN")
    assert brokers.ends(*wanted) == [END, COMMITTED], "what is open stays as it is"
    brokers.clock.advance_ms(PAUSE_MS)
    assert brokers.ends(*wanted) == [COMMITTED, END], "a connection has to be made, by the new settings"
    assert [each.address for each in brokers.made] == ["127.0.0.1:2001", "127.0.0.1:3002"]
    assert brokers.made[0].is_closed


def test_a_listener_that_is_gone_is_an_error_unless_the_settings_name_another(brokers: Brokers) -> None:
    brokers.nodes = {1: SimpleNamespace(node_id=1, listeners=(NodeListener("OLD", "127.0.0.1", 2001),))}
    brokers.security = by_listener("OLD")
    assert brokers.ends(partition(1)) == [END]
    brokers.nodes = {1: SimpleNamespace(node_id=1, listeners=(NodeListener("NEW", "127.0.0.1", 2002),))}
    with pytest.raises(ListenerMissing, match=r"names OLD, .* set it to NEW"):
        brokers.ends(partition(1))
    brokers.security = by_listener("NEW")
    assert brokers.ends(partition(1)) == [END]
    assert [each.address for each in brokers.made] == ["127.0.0.1:2001", "127.0.0.1:2002"]
