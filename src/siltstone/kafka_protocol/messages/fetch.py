"""Fetch: read record batches from partitions, waiting for new ones up to a time limit.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import (
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    RecordPieces,
    Structure,
    Tag,
    Uuid,
    Versions,
)


class FetchReplica(Structure, frozen=True, kw_only=True):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Structure, frozen=True, kw_only=True):
    index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Versions(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, Versions(12)] = -1
    log_start_offset: Annotated[Int64, Versions(5)] = -1
    bytes_max: Int32 = 0
    replica_directory_id: Annotated[Uuid, Versions(17), Tag(0)] = NO_UUID
    high_watermark: Annotated[Int64, Versions(18), Tag(1)] = 0x7FFFFFFFFFFFFFFF


class FetchTopic(Structure, frozen=True, kw_only=True):
    name: Annotated[str, Versions(4, 12)] = ""
    topic_id: Annotated[Uuid, Versions(13)] = NO_UUID
    partitions: list[FetchPartition] = []


class ForgottenTopic(Structure, frozen=True, kw_only=True):
    name: Annotated[str, Versions(7, 12)] = ""
    topic_id: Annotated[Uuid, Versions(13)] = NO_UUID
    partitions: list[Int32] = []


class FetchRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.FETCH
    versions: ClassVar[tuple[int, int]] = (4, 18)
    flexible_since: ClassVar[int | None] = 12

    cluster_id: Annotated[str | None, Versions(12), Tag(0)] = None
    replica_id: Annotated[Int32, Versions(4, 14)] = -1
    replica: Annotated[FetchReplica, Versions(15), Tag(1)] = FetchReplica()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, Versions(7)] = 0
    session_epoch: Annotated[Int32, Versions(7)] = -1
    topics: list[FetchTopic] = []
    forgotten_topics: Annotated[list[ForgottenTopic], Versions(7)] = []
    rack_id: Annotated[str, Versions(11)] = ""


class EpochEndOffset(Structure, frozen=True, kw_only=True):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class CurrentLeader(Structure, frozen=True, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Structure, frozen=True, kw_only=True):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Structure, frozen=True, kw_only=True):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class FetchedPartition(Structure, frozen=True, kw_only=True):
    index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = -1
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, Versions(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset, Versions(12), Tag(0)] = EpochEndOffset()
    current_leader: Annotated[CurrentLeader, Versions(12), Tag(1)] = CurrentLeader()
    snapshot_id: Annotated[SnapshotId, Versions(12), Tag(2)] = SnapshotId()
    aborted_transactions: list[AbortedTransaction] | None = None
    preferred_read_replica: Annotated[Int32, Versions(11)] = -1
    records: RecordPieces | None = []


class FetchedTopic(Structure, frozen=True, kw_only=True):
    name: Annotated[str, Versions(4, 12)] = ""
    topic_id: Annotated[Uuid, Versions(13)] = NO_UUID
    partitions: list[FetchedPartition] = []


class NodeEndpoint(Structure, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class FetchResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.FETCH
    versions: ClassVar[tuple[int, int]] = (4, 18)
    flexible_since: ClassVar[int | None] = 12

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions(7)] = 0
    session_id: Annotated[Int32, Versions(7)] = 0
    topics: list[FetchedTopic] = []
    node_endpoints: Annotated[list[NodeEndpoint], Versions(16), Tag(0)] = []
