"""Reads the tail of a partition: records that are acknowledged, and in no object yet. They are in the write-ahead log
of the node that has the partition open, and only its broker can return them.

A scan never leaves a tail out in silence. A partition whose stream is CLOSED has no tail. The owner of a partition
whose stream is OPENED is asked for its end; an owner that cannot be asked is an error, unless the request leaves tails
out.

The address of a node outlives the node, so the answers of a broker are used only if it has the store's cluster id, and
the topic with the planned topic id.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import Self

import msgspec

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import Connection, Security, parse_bootstrap, security_of_process
from siltstone.kafka_client.consuming import refuse_wrong_checksum, whole_batches
from siltstone.kafka_client.failures import (
    BrokerWithoutTls,
    KafkaNotReady,
    KafkaRefusal,
    MechanismNotOffered,
    NotKafka,
    RequestNotSpoken,
    refuse_error,
)
from siltstone.kafka_client.offsets import (
    EARLIEST,
    LATEST,
    NO_OFFSET,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    offsets_at,
)
from siltstone.kafka_client.patience import Patience
from siltstone.kafka_protocol.batch_errors import TruncatedBatch
from siltstone.kafka_protocol.batch_header import BATCH_HEADER_BYTES
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from siltstone.metadata.entities import NO_NODE, SINK_NODE, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.node_address import listener_addresses, node_address, stored_cluster_id
from siltstone.model.errors import CorruptData, Unavailable
from siltstone.model.limits import MIB
from siltstone.object_formats.batch_frame import FRAME_HEADER, FRAME_MAGIC
from siltstone.offline.topic_streams import PartitionName
from siltstone.record_columns.batches import AnswerPlace, Batches, batches_of_block
from siltstone.record_columns.kernels.columns import read_only
from siltstone.record_columns.kernels.port import Kernels
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.scanning.failures import DataLost, ScanDamaged, TailNotReadable, TopicNotThere
from siltstone.scanning.planning import ScanPartition
from siltstone.scanning.request import Isolation, Tail
from siltstone.scanning.unit import Aborted, TailPiece

FETCH_BYTES_MAX = 8 * MIB
FETCH_WAIT_MS = 500
FETCH_VERSION = 13
"""The first version of Fetch that names a topic by its id: a topic that was created again has another id."""

FETCH_TIME_LIMIT_MS = 20_000
"""A task waits this long for a broker that is not ready, or restarts."""

LEVELS = {Isolation.COMMITTED: READ_COMMITTED, Isolation.UNCOMMITTED: READ_UNCOMMITTED}

NO_MARKER = 2**63 - 1
"""The marker of a transaction lies behind the batches of the answer."""

NOT_THERE = (Unavailable, NotKafka, RequestNotSpoken, KafkaRefusal)
OTHER_PROTOCOL = (BrokerWithoutTls, MechanismNotOffered)
"""The listener at the address wants less than the settings say. A listener that wants more ends the connection, which
is Unavailable. While a cluster changes its listeners a running query meets both, until its settings are replaced."""


class Owner(msgspec.Struct, frozen=True):
    """The node that has a partition open. ``cluster`` is connected to its broker as long as the ends are open;
    ``listeners`` has the addresses by name."""

    node_id: int
    address: str
    cluster: Cluster
    listeners: dict[str, str] = {}


class TailEnds:
    """Holds the answers of the owners: the end of each partition that has a tail, and its owner. Leaving the ``with``
    block closes the connections to the owners; ``offset_at`` cannot be called after that."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._ends: dict[PartitionName, int] = {}
        self._owners: dict[PartitionName, Owner] = {}
        self._limits: dict[PartitionName, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for owner in self._owners.values():
            owner.cluster.close()

    def add(self, partition: ScanPartition, end_offset: int, owner: Owner) -> None:
        self._ends[partition.key] = end_offset
        self._owners[partition.key] = owner

    def end_of(self, partition: ScanPartition) -> int:
        """Returns the end that the owner said if it was asked, and otherwise the end of the records that are in
        objects; not more than the limit of the partition."""
        end = max(self._ends.get(partition.key, 0), partition.committed_offset)
        return min(end, self._limits.get(partition.key, end))

    def asked_end(self, partition: ScanPartition) -> int | None:
        """Returns the end that the owner said; None if it was not asked."""
        return self._ends.get(partition.key)

    def limit(self, partition: ScanPartition, end_offset: int) -> None:
        """The partition ends there: what follows is not decided."""
        self._limits[partition.key] = end_offset

    def is_aborted(self, partition: ScanPartition, producer_id: int, first_offset: int) -> bool:
        """Asks the owner whether a transaction that it has decided was aborted. Raises TailNotReadable."""
        owner = self._owners[partition.key]
        with _readable([partition.name], owner.node_id, owner.address):
            topic_id = partition.topic.topic_id
            request = _fetch(topic_id, partition.partition, first_offset, 1, Isolation.COMMITTED)
            row = _answered(
                partition.name, owner.cluster.entrance().call_in(FETCH_VERSION, request, FetchResponse)
            )
        named = row.aborted_transactions or ()
        return any((each.producer_id, each.first_offset) == (producer_id, first_offset) for each in named)

    def offset_at(self, partition: ScanPartition, timestamp_ms: int) -> int | None:
        """Returns the offset of the first record of that time or later; None if the partition has no tail, or no such
        record in it. Raises TailNotReadable."""
        owner = self._owners.get(partition.key)
        if owner is None or self.end_of(partition) <= partition.committed_offset:
            return None
        asked = TopicPartition(*partition.key)
        with _readable([partition.name], owner.node_id, owner.address):
            found = offsets_at(owner.cluster, [asked], timestamp_ms)[asked].offset
        return None if found == NO_OFFSET or found >= self.end_of(partition) else found

    def piece(self, partition: ScanPartition, start_offset: int, end_offset: int) -> TailPiece:
        owner = self._owners[partition.key]
        return TailPiece(
            partition.topic.name,
            partition.topic.topic_id,
            partition.partition,
            partition.stream.stream_id,
            owner.node_id,
            owner.address,
            self._cluster_id,
            start_offset,
            end_offset,
            owner.listeners,
        )


def tail_ends(
    image: ImageView,
    partitions: Sequence[ScanPartition],
    tail: Tail,
    clock: Clock,
    rng: Random,
    security: Security | None = None,
    isolation: Isolation = Isolation.COMMITTED,
) -> TailEnds:
    """Asks the owner of each partition that may have a tail for its end, one connection for each node: for the last
    stable offset, or, with ``UNCOMMITTED``, the high watermark. ``security``
    is that of ``Cluster``, and names the listener of the owners. The caller closes the result. Raises TailNotReadable,
    ListenerMissing, LoginFailed, TlsFailed."""
    ends = TailEnds(stored_cluster_id(image) or "")
    if tail in (Tail.COMMITTED, Tail.FLUSH):
        return ends
    by_node: dict[int, list[ScanPartition]] = {}
    for each in partitions:
        may_have = each.stream.state is StreamState.OPENED or tail is Tail.FETCH
        if may_have and each.stream.owner not in (NO_NODE, SINK_NODE):
            by_node.setdefault(each.stream.owner, []).append(each)
    try:
        for node_id, theirs in by_node.items():
            security = security or security_of_process()
            connect = partial(_cluster, clock=clock, rng=rng, security=security)
            _ask(ends, image, node_id, theirs, connect, isolation, security.settings.listener)
    except BaseException:
        ends.close()
        raise
    return ends


def _cluster(address: str, clock: Clock, rng: Random, security: Security | None) -> Cluster:
    return Cluster(parse_bootstrap(address, "node-address"), clock, rng, security)


def _ask(
    ends: TailEnds,
    image: ImageView,
    node_id: int,
    theirs: list[ScanPartition],
    connect: Callable[[str], Cluster],
    isolation: Isolation,
    listener: str,
) -> None:
    address, cluster_id = node_address(image, node_id, listener), stored_cluster_id(image)
    names = [each.name for each in theirs]
    if address is None:
        raise TailNotReadable(names, node_id, without_address(listener))
    with _readable(names, node_id, address), ExitStack() as opened:
        cluster = opened.enter_context(connect(address))
        for topic in {each.topic.topic_id: each.topic for each in theirs}.values():
            refuse_stranger(cluster, cluster_id, topic.name, topic.topic_id)
        wanted = [TopicPartition(*each.key) for each in theirs]
        found = offsets_at(cluster, wanted, LATEST, LEVELS[isolation])
        owner = Owner(node_id, address, cluster, listener_addresses(image, node_id))
        for each in theirs:
            ends.add(each, found[TopicPartition(*each.key)].offset, owner)
        opened.pop_all()  # ``ends`` closes the cluster from now on


def without_address(listener: str) -> str:
    """Says why a node cannot be reached that has no address by this listener."""
    if not listener:
        return "the metadata has no address of its broker"
    return f"its broker has no listener {listener}, which siltstone.listener names"


@contextmanager
def _readable(names: list[str], node_id: int, address: str) -> Iterator[None]:
    """Turns failures of a broker that is asked about these partitions, inside the block, into TailNotReadable."""
    try:
        yield
    except (*NOT_THERE, Stranger) as trouble:
        reason = f"its broker at {address} cannot be asked: {trouble}"
        raise TailNotReadable(names, node_id, reason) from trouble


class Stranger(Exception):
    """The broker at the address belongs to another store, or does not have the topic of the plan."""


def refuse_stranger(cluster: Cluster, cluster_id: str | None, topic: str, topic_id: str) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    answer = cluster.ask(asked, MetadataResponse)
    if answer.cluster_id != cluster_id:
        raise Stranger(
            f"a broker of another store answers there, of cluster {answer.cluster_id}, not {cluster_id}"
        )
    if [each.topic_id.hex() for each in answer.topics] != [topic_id]:
        raise Stranger(f"topic {topic} was deleted, or created again, since this scan was planned")


class TailReader:
    """Fetches one tail piece. Leaving the ``with`` closes the connections. A partition that has moved since the plan is
    read from its new leader, which has all that was acknowledged before.

    The broker is asked at the listener that the settings of this process name. The driver's settings may have named
    another one, because a file is replaced between plan and task. The constructor raises TailNotReadable if the broker
    has no listener of that name."""

    def __init__(
        self,
        piece: TailPiece,
        clock: Clock,
        rng: Random,
        security: Security | None = None,
        isolation: Isolation = Isolation.COMMITTED,
    ) -> None:
        self._piece = piece
        self._isolation = isolation
        security = security or security_of_process()
        address = piece.address_at(security.settings.listener)
        if address is None:
            reason = without_address(security.settings.listener)
            raise TailNotReadable([piece.name], piece.node_id, reason)
        self._address = address
        self._cluster = _cluster(address, clock, rng, security)
        self._patience = Patience(clock, rng, FETCH_TIME_LIMIT_MS)
        self._is_known = False
        """Whether the broker of the open connection is known to be the store's, and to have the topic."""
        self._has_moved = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._cluster.close()

    def read(self, kernels: Kernels) -> Iterator[tuple[Batches, Sequence[Aborted]]]:
        """Yields the batches that hold the offsets of the piece, in order, each time with the aborted transactions
        among them. Records that were uploaded meanwhile are
        returned by the same broker, which reads them from their objects. Raises TailNotReadable, DataLost,
        TopicNotThere, ScanDamaged."""
        piece = self._piece
        where = AnswerPlace(self._address)
        position = piece.start_offset
        while position < piece.end_offset:
            fetched = self._fetched(position)
            data = memoryview(fetched.records[0] if fetched.records else b"")
            aborted = [
                (each.producer_id, each.first_offset, NO_MARKER)
                for each in fetched.aborted_transactions or ()
            ]
            try:
                framed, position = _framed(data, piece.stream_id, position)
                batches = batches_of_block(read_only(framed), piece.stream_id, where, kernels)
            except CorruptData as damage:
                raise ScanDamaged(piece.name, position, damage) from damage
            yield batches, _until_markers(batches, aborted)

    def _fetched(self, position: int) -> FetchedPartition:
        """Fetches the batches from ``position`` on, at least one. Retries for a while if the broker is gone or not
        ready."""
        piece = self._piece
        while True:
            try:
                answer = self._ask(position)
                self._patience.restart()
                return answer
            except Stranger as stranger:
                raise TopicNotThere(f"{piece.name}: {stranger}") from stranger
            except KafkaRefusal as refusal:
                if refusal.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise DataLost(piece.name, position, self._first_offset()) from refusal
                raise TopicNotThere(f"{piece.name}: {refusal}") from refusal
            except (Unavailable, NotKafka, RequestNotSpoken) as trouble:
                if isinstance(trouble, KafkaNotReady) and trouble.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    self._has_moved = True
                self._cluster.reconnect()
                self._is_known = False
                try:
                    self._patience.wait_after(trouble)
                except (Unavailable, NotKafka, RequestNotSpoken) as last:
                    reason = f"its broker at {self._address} does not return them: {last}"
                    raise TailNotReadable([piece.name], piece.node_id, reason) from last

    def _ask(self, position: int) -> FetchedPartition:
        piece = self._piece
        if not self._is_known:
            refuse_stranger(self._cluster, piece.cluster_id, piece.topic, piece.topic_id)
            self._is_known = True
        request = _fetch(piece.topic_id, piece.partition, position, FETCH_BYTES_MAX, self._isolation)
        row = _answered(piece.name, self._holder().call_in(FETCH_VERSION, request, FetchResponse))
        records = row.records[0] if row.records else b""
        if len(records) < BATCH_HEADER_BYTES:
            raise KafkaNotReady(ErrorCode.OFFSET_NOT_AVAILABLE, f"{piece.name} has no offset {position} yet")
        return row

    def _holder(self) -> Connection:
        """Returns the connection to the broker that has the partition open."""
        if not self._has_moved:
            return self._cluster.entrance()
        return self._cluster.broker(
            self._cluster.leader_of(TopicPartition(self._piece.topic, self._piece.partition))
        )

    def _first_offset(self) -> int:
        partition = TopicPartition(self._piece.topic, self._piece.partition)
        return offsets_at(self._cluster, [partition], EARLIEST)[partition].offset


def _fetch(
    topic_id: str, partition: int, position: int, bytes_max: int, isolation: Isolation
) -> FetchRequest:
    wanted = FetchPartition(index=partition, fetch_offset=position, bytes_max=bytes_max)
    return FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=LEVELS[isolation],
        topics=[FetchTopic(topic_id=bytes.fromhex(topic_id), partitions=[wanted])],
    )


def _answered(name: str, answer: FetchResponse) -> FetchedPartition:
    """Returns the only partition of the answer. Raises KafkaRefusal, KafkaNotReady."""
    refuse_error(answer.error_code, name)
    row = next(_partitions(answer), None)
    if row is None:
        raise KafkaNotReady(ErrorCode.UNKNOWN_SERVER_ERROR, f"{name} is missing in the answer: try again")
    refuse_error(row.error_code, name)
    return row


def _until_markers(batches: Batches, aborted: Sequence[Aborted]) -> Sequence[Aborted]:
    """A broker names no markers: a transaction ends at the producer's first marker behind its first offset."""
    if not aborted:
        return ()
    found = []
    for producer_id, first_offset, _ in aborted:
        markers = batches.base_offsets[batches.are_control & (batches.producer_ids == producer_id)]
        behind = markers[markers > first_offset]
        found.append((producer_id, first_offset, int(behind[0]) if len(behind) else NO_MARKER))
    return found


def _partitions(answer: FetchResponse) -> Iterator[FetchedPartition]:
    for topic in answer.topics:
        yield from topic.partitions


def _framed(data: memoryview, stream_id: int, position: int) -> tuple[bytes, int]:
    """Returns the whole batches in frames, as a block has them, and the offset after the last. A broker may cut off the
    last batch. Raises BatchChecksumWrong, and TruncatedBatch if there is no whole batch."""
    framed = bytearray()
    for header, batch in whole_batches(data):
        refuse_wrong_checksum(header, batch)
        framed += FRAME_HEADER.pack(
            FRAME_MAGIC, 0, stream_id, 0, header.base_offset, header.end_offset, max(header.record_count, 0),
            header.base_timestamp_ms, header.max_timestamp_ms, len(batch),
        )  # fmt: skip
        framed += batch
        position = max(position, header.end_offset)
    if not framed:
        raise TruncatedBatch(f"the answer of {len(data)} bytes has no whole batch")
    return bytes(framed), position
