"""ShareFetch: acquire records for a member of a share group, and acknowledge earlier ones.

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
    Uuid,
    Versions,
)


class PiggybackAcknowledgement(Structure, frozen=True, kw_only=True):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = []


class ShareFetchPartition(Structure, frozen=True, kw_only=True):
    index: Int32 = 0
    acknowledgement_batches: list[PiggybackAcknowledgement] = []


class ShareFetchTopic(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[ShareFetchPartition] = []


class ForgottenShareTopic(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


class ShareFetchRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SHARE_FETCH
    versions: ClassVar[tuple[int, int]] = (1, 2)
    flexible_since: ClassVar[int | None] = 0

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Annotated[Int8, Versions(2)] = 0
    is_renew_ack: Annotated[bool, Versions(2)] = False
    topics: list[ShareFetchTopic] = []
    forgotten_topics: list[ForgottenShareTopic] = []


class ShareFetchLeader(Structure, frozen=True, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class AcquiredRecords(Structure, frozen=True, kw_only=True):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class ShareFetchedPartition(Structure, frozen=True, kw_only=True):
    index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: ShareFetchLeader = ShareFetchLeader()
    records: RecordPieces = []
    acquired_records: list[AcquiredRecords] = []


class ShareFetchedTopic(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[ShareFetchedPartition] = []


class ShareFetchEndpoint(Structure, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class ShareFetchResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SHARE_FETCH
    versions: ClassVar[tuple[int, int]] = (1, 2)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    topics: list[ShareFetchedTopic] = []
    node_endpoints: list[ShareFetchEndpoint] = []
