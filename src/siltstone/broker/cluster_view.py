"""The view of the cluster that this node's clients get: which brokers there are, and which of them leads a partition.

Every answer follows from the metadata image, so all nodes give the same answers, except while the image of one is
behind. A node therefore reads the log once before it refuses a request (``refreshed``).

A node answers for partitions only while it *serves*: it holds its lease, and the metadata does not say that it is
fenced. A node that knows of no other node always serves, because no other could lead in its place."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

from siltstone.broker.request import Listener
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.metadata.entities import NO_NODE, NodeMetadata, PartitionMetadata, StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import NotLeader
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import Unavailable
from siltstone.runtime.clock import Clock

READS_PER_SECOND_MAX = 50
"""Before refusals the metadata log is read at most so often, however many clients ask the wrong node."""


class BrokerEndpoint(msgspec.Struct, frozen=True):
    """A broker at the listener of the client that asks."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class LeaderState(msgspec.Struct, frozen=True):
    """``leader_id`` is NO_NODE when the partition has no leader that the client can reach; ``error`` says why.
    ``replica_id`` is the leader that the metadata names."""

    leader_id: int
    error: ErrorCode
    replica_id: int


class LeaderHint(msgspec.Struct, frozen=True):
    """The leader that a refused client should ask instead (KIP-951)."""

    leader_epoch: int
    endpoint: BrokerEndpoint


def epoch_to_open(stream: StreamMetadata) -> int:
    """Returns the epoch under which to open a stream: one higher than its last. A stream that is open keeps its epoch:
    an earlier request of its leader opened it, or another node has it."""
    return stream.epoch if stream.state is StreamState.OPENED else stream.epoch + 1


def leader_epoch_in(image: MetadataImage, partition: PartitionMetadata) -> int:
    """Returns the epoch under which the partition is open, or would be opened next."""
    stream = image.streams.get(partition.data_stream_id)
    return 0 if stream is None else epoch_to_open(stream)


class ClusterView:
    """``is_lease_held`` returns true as long as no other node can have fenced this one
    (``cluster.suspicion.OwnLease``). ``is_stale``: whether what it knows of users and rights is too old."""

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        node_id: int,
        is_lease_held: Callable[[], bool] = lambda: True,
        is_stale: Callable[[], bool] = lambda: False,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._is_lease_held = is_lease_held
        self._is_stale = is_stale
        self.node_id = node_id
        self._image: MetadataImage | None = None
        self._has_others = False
        self._is_fenced = False
        self._next_read: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._reads_ms: deque[float] = deque(maxlen=READS_PER_SECOND_MAX)
        self.nodes_version = 0
        """Changes whenever a node is registered, fenced or forgotten."""

    @property
    def image(self) -> MetadataImage:
        image = self._metadata.image
        if image is not self._image:
            self._follow(image)
        return image

    def _follow(self, image: MetadataImage) -> None:
        before, self._image = self._image, image
        if before is not None and image.nodes.is_unchanged_from(before.nodes):
            return
        self.nodes_version += 1
        self._has_others = any(
            node.listeners for node_id, node in image.nodes.items() if node_id != self.node_id
        )
        own = image.nodes.get(self.node_id)
        self._is_fenced = own is not None and own.is_fenced

    @property
    def has_others(self) -> bool:
        """Whether the metadata knows another node that clients can find."""
        if self._metadata.image is not self._image:
            self._follow(self._metadata.image)
        return self._has_others

    @property
    def has_takers(self) -> bool:
        """Whether another live node could take this node's partitions."""
        return any(
            node.is_live and not node.is_draining and node.listeners and node.node_id != self.node_id
            for node in self.image.nodes.values()
        )

    @property
    def serves(self) -> bool:
        """Whether this node may answer for its partitions and groups now."""
        if self._is_stale():
            return False
        return not self.has_others or (not self._is_fenced and self._is_lease_held())

    def check_serves(self) -> None:
        """Raises NotLeader."""
        if self._is_stale():
            raise NotLeader(
                f"node {self.node_id} could not read the metadata for too long: ask again, or another node"
            )
        if not self.serves:
            raise NotLeader(
                f"node {self.node_id} has not beaten for a session, so another node may lead in its place: ask again"
            )

    async def refreshed(self) -> MetadataImage:
        """Reads the metadata log to what is its end at the time of the call, or later. Callers that ask while the log
        is being read share the next read with others. Returns the image, an older one if the log cannot be read now."""
        if self._next_read is None:
            self._next_read = asyncio.ensure_future(self._read_in_turn(self._reading))
        await asyncio.shield(self._next_read)
        return self.image

    async def _read_in_turn(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        if len(self._reads_ms) == READS_PER_SECOND_MAX:
            await self._clock.sleep_ms(max(0.0, self._reads_ms[0] + 1_000 - self._clock.monotonic_ms()))
        self._reading, self._next_read = self._next_read, None
        self._reads_ms.append(self._clock.monotonic_ms())
        with suppress(Unavailable):
            await self._metadata.refresh()

    # -- brokers -----------------------------------------------------------------------------------------

    def brokers(self, listener: Listener, *, with_fenced: bool = False) -> list[BrokerEndpoint]:
        """Returns the brokers that have the client's listener, ordered by id: live brokers, the drained ones included,
        and this node itself; fenced ones only if asked for."""
        found = {
            node.node_id: endpoint
            for node in self.image.nodes.values()
            if (node.is_live or with_fenced) and (endpoint := _endpoint(node, listener.name)) is not None
        }
        found[self.node_id] = self._itself(listener)
        return [found[node_id] for node_id in sorted(found)]

    def _itself(self, listener: Listener) -> BrokerEndpoint:
        own = self.image.nodes.get(self.node_id)
        rack = None if own is None else own.rack
        return BrokerEndpoint(self.node_id, listener.advertised_host, listener.advertised_port, rack)

    @property
    def controller_id(self) -> int:
        """The live node with the lowest id. It controls nothing: any node takes any request."""
        live = (node.node_id for node in self.image.nodes.values() if node.is_live and node.listeners)
        return min(live, default=self.node_id)

    @property
    def live_ids(self) -> frozenset[int]:
        """The live nodes that clients can find, and this one."""
        others = (node.node_id for node in self.image.nodes.values() if node.is_live and node.listeners)
        return frozenset((self.node_id, *others))

    def endpoint_of(self, node_id: int, listener: Listener) -> BrokerEndpoint | None:
        """Returns the live node at the client's listener; None if it has none, or is not live."""
        if node_id == self.node_id:
            return self._itself(listener)
        node = self.image.nodes.get(node_id)
        return None if node is None or not node.is_live else _endpoint(node, listener.name)

    # -- partitions --------------------------------------------------------------------------------------

    def partition(self, topic_id: str, index: int) -> PartitionMetadata | None:
        topic = self.image.topics.get(topic_id)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def leads(self, partition: PartitionMetadata) -> bool:
        """Returns whether this node may open the partition. One whose leader no client can find is led by the node that
        opens it first (``decisions.leaders``)."""
        if partition.leader == self.node_id:
            return True
        leader = self.image.nodes.get(partition.leader)
        return leader is None or not leader.listeners

    def is_led(self, partition: PartitionMetadata) -> bool:
        """Returns whether the leader of the partition is live, even if it lacks the client's listener."""
        leader = self.image.nodes.get(partition.leader)
        return self.leads(partition) or (leader is not None and leader.is_live)

    def leader_state(self, partition: PartitionMetadata, listener_name: str) -> LeaderState:
        """Returns the leader as a Metadata response names it [Kafka: KRaftMetadataCache]."""
        if self.leads(partition):
            if self.serves:
                return LeaderState(self.node_id, ErrorCode.NONE, self.node_id)
            return LeaderState(NO_NODE, ErrorCode.LEADER_NOT_AVAILABLE, self.node_id)
        leader = self.image.nodes[partition.leader]
        if not leader.is_live:
            return LeaderState(NO_NODE, ErrorCode.LEADER_NOT_AVAILABLE, leader.node_id)
        if _endpoint(leader, listener_name) is None:
            return LeaderState(NO_NODE, ErrorCode.LISTENER_NOT_FOUND, leader.node_id)
        return LeaderState(leader.node_id, ErrorCode.NONE, leader.node_id)

    def leader_epoch(self, partition: PartitionMetadata) -> int:
        """See ``leader_epoch_in``."""
        return leader_epoch_in(self.image, partition)

    def hint(self, topic_id: str, index: int, listener: Listener) -> LeaderHint | None:
        """Returns None when this node leads the partition itself, or the leader cannot be reached at this listener."""
        partition = self.partition(topic_id, index)
        if partition is None or self.leads(partition):
            return None
        endpoint = self.endpoint_of(partition.leader, listener)
        return None if endpoint is None else LeaderHint(self.leader_epoch(partition), endpoint)


def _endpoint(node: NodeMetadata, listener_name: str) -> BrokerEndpoint | None:
    for listener in node.listeners:
        if listener.name == listener_name:
            return BrokerEndpoint(node.node_id, listener.host, listener.port, node.rack, not node.is_live)
    return None
