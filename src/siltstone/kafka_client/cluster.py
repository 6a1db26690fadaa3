"""Knows the brokers of a cluster and sends each request to the right one.

Any broker answers requests about topics; the leader of a partition serves its records and offsets; the coordinator of a
group serves its members and committed offsets. The client connects to a broker when it first needs it, at the address
that the cluster advertises for it. ``TopicPartition`` names one partition throughout the package.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from siltstone.kafka_client.connection import (
    Address,
    Connection,
    Security,
    open_connection,
    security_of_process,
)
from siltstone.kafka_client.failures import (
    BrokerNotThere,
    KafkaNotReady,
    NotKafka,
    TlsFailed,
    refuse_error,
)
from siltstone.kafka_client.patience import Patience, patiently
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from siltstone.kafka_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from siltstone.kafka_protocol.notation import Message
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class CoordinatorKind(IntEnum):
    """What a coordinator is asked for [Kafka: CoordinatorType]."""

    GROUP = 0
    TRANSACTION = 1

    def __str__(self) -> str:
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


T = TypeVar("T")
M = TypeVar("M", bound=Message)

Opens = Callable[[Address, Clock, Security], Connection]
"""Opens a connection to the broker at an address, as ``open_connection`` does."""

NO_LEADER = -1


class Cluster:
    """The brokers, partition leaders and open connections of one cluster; leaving the ``with`` closes the connections.

    ``clock`` and ``rng`` time the retries; the other modules of this package use them, too. ``security``: how it
    connects; without it, as the file says that SILTSTONE_CLIENT_CONFIG names, or else without TLS. ``opens`` makes the
    connections. Raises InvalidClientConfig.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        clock: Clock,
        rng: Random,
        security: Security | None = None,
        opens: Opens | None = None,
    ) -> None:
        self.security = security or security_of_process()
        self._opens = opens or open_connection
        self.clock = clock
        self.rng = rng
        self.bootstrap = bootstrap
        self._entrance: Connection | None = None
        self._connections: dict[Address, Connection] = {}
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[TopicPartition, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        if self._entrance is not None:
            self._entrance.close()
            self._entrance = None

    # -- connections

    def entrance(self) -> Connection:
        """Returns the connection for requests that any broker answers, to the first broker of --bootstrap that answers.
        It is separate from those of ``broker``, which may have requests in flight. Raises what ``open_connection``
        does."""
        if self._entrance is not None and self._entrance.is_to_be_renewed:
            self._entrance.close()
            self._entrance = None
        if self._entrance is None:
            self._entrance = self._first_that_answers()
        return self._entrance

    def _first_that_answers(self) -> Connection:
        failures: list[SiltstoneError] = []
        for address in self.bootstrap:
            try:
                return self._opens(address, self.clock, self.security)
            except (Unavailable, NotKafka, TlsFailed) as failure:
                failures.append(failure)
        if len(failures) == 1:
            raise failures[0]
        tried = ", ".join(map(str, self.bootstrap))
        raise BrokerNotThere(f"none of {tried} answers; the last failure: {failures[-1]}") from failures[-1]

    def broker(self, node_id: int) -> Connection:
        """Returns the connection to the broker of that id. Raises KafkaNotReady if the cluster does not list the
        broker, and what ``open_connection`` does; the error says if the address was advertised by the cluster."""
        if node_id not in self._brokers:
            self.learn([])
        address = self._brokers.get(node_id)
        if address is None:
            raise KafkaNotReady(
                ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster does not list broker {node_id} now: try again"
            )
        known = self._connections.get(address)
        if known is not None and not known.is_to_be_renewed:
            return known
        if known is not None:
            known.close()
        try:
            connection = self._connections[address] = self._opens(address, self.clock, self.security)
        except BrokerNotThere as missing:
            if address in self.bootstrap:
                raise
            raise BrokerNotThere(
                f"the cluster advertises {address} for broker {node_id}, but no broker answers there: check its "
                "advertised_listeners"
            ) from missing
        return connection

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the brokers in the last response to ``learn``, and of coordinators found since."""
        return sorted(self._brokers)

    def address_of(self, node_id: int) -> str:
        return str(self._brokers.get(node_id, "?"))

    # -- questions

    def ask(self, request: Message, answer: type[M]) -> M:
        """Sends a request that any broker answers. Raises what ``Connection.call`` does."""
        return self.entrance().call(request, answer)

    def patiently(self, attempt: Callable[[], T]) -> T:
        """Repeats ``attempt`` while it raises KafkaNotReady. Raises the last KafkaNotReady when the time limit is
        over."""
        return patiently(Patience(self.clock, self.rng), attempt, KafkaNotReady)

    def learn(self, topics: Sequence[str] | None) -> list[MetadataResponseTopic]:
        """Requests the metadata of ``topics``, None: of all topics, and remembers brokers and leaders. A returned
        topic may have an ``error_code``."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        response = self.ask(request, MetadataResponse)
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name or "", partition.partition_index)
                self._leaders[key] = NO_LEADER if partition.error_code else partition.leader_id
        return response.topics

    def leader_of(self, partition: TopicPartition) -> int:
        """Returns the broker id of the partition's leader. Raises KafkaNotReady while the partition has none."""
        if self._leaders.get(partition, NO_LEADER) == NO_LEADER:
            self.learn([partition.topic])
        leader = self._leaders.get(partition, NO_LEADER)
        if leader == NO_LEADER:
            raise KafkaNotReady(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now: try again")
        return leader

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Broker id → the partitions that it leads. Raises KafkaNotReady while a partition has no leader."""
        grouped: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            grouped.setdefault(self.leader_of(partition), []).append(partition)
        return grouped

    def forget_leaders(self) -> None:
        """Forgets all leaders, after a response which shows that they have moved."""
        self._leaders.clear()

    def reconnect(self) -> None:
        """Closes all connections and forgets all leaders; the next request connects to --bootstrap again."""
        self.close()
        self.forget_leaders()

    def coordinators_of(
        self, names: Sequence[str], kind: CoordinatorKind = CoordinatorKind.GROUP
    ) -> dict[int, list[str]]:
        """Broker id → the groups, or the transactional ids, that it coordinates. Raises KafkaNotReady when that takes
        too long, KafkaRefusal."""
        return self.patiently(lambda: self._coordinators_of(names, kind)) if names else {}

    def _coordinators_of(self, names: Sequence[str], kind: CoordinatorKind) -> dict[int, list[str]]:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(names))
        grouped: dict[int, list[str]] = {}
        for found in self.ask(request, FindCoordinatorResponse).coordinators:
            refuse_error(found.error_code, f"{kind} {found.key}", found.error_message)
            self._brokers[found.node_id] = Address(found.host, found.port)
            grouped.setdefault(found.node_id, []).append(found.key)
        return grouped
