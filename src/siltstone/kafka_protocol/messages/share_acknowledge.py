"""ShareAcknowledge: acknowledge records that a member of a share group has acquired.

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
    Structure,
    Uuid,
    Versions,
)


class AcknowledgementBatch(Structure, frozen=True, kw_only=True):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = []


class AcknowledgePartition(Structure, frozen=True, kw_only=True):
    index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class AcknowledgeTopic(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[AcknowledgePartition] = []


class ShareAcknowledgeRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SHARE_ACKNOWLEDGE
    versions: ClassVar[tuple[int, int]] = (1, 2)
    flexible_since: ClassVar[int | None] = 0

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[bool, Versions(2)] = False
    topics: list[AcknowledgeTopic] = []


class ShareAcknowledgeLeader(Structure, frozen=True, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class AcknowledgedPartition(Structure, frozen=True, kw_only=True):
    index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    current_leader: ShareAcknowledgeLeader = ShareAcknowledgeLeader()


class AcknowledgedTopic(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[AcknowledgedPartition] = []


class ShareAcknowledgeEndpoint(Structure, frozen=True, kw_only=True):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class ShareAcknowledgeResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SHARE_ACKNOWLEDGE
    versions: ClassVar[tuple[int, int]] = (1, 2)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, Versions(2)] = 0
    topics: list[AcknowledgedTopic] = []
    node_endpoints: list[ShareAcknowledgeEndpoint] = []
