"""Membership of a share group (KIP-932): acquires records, and acknowledges each of them.

``SharingMember`` blocks and has no thread: heartbeats go out in ``fetch``. What is fetched is its own until it
is acknowledged, or until the lock time of the group is over, after which another member may get it. Each leader has a
*share session* with the member, whose epoch counts the requests.
"""

from collections.abc import Collection, Mapping

import msgspec

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import ANSWER_TIME_LIMIT_MS
from siltstone.kafka_client.consuming import FETCH_BYTES_MAX, refuse_wrong_checksum, whole_batches
from siltstone.kafka_client.failures import refuse_error
from siltstone.kafka_client.heartbeats import JOINS, LEAVES, GroupHeartbeats
from siltstone.kafka_client.offsets import refuse_partition_error
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from siltstone.kafka_protocol.messages.share_fetch import (
    ShareFetchedPartition,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from siltstone.kafka_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from siltstone.kafka_protocol.records.reading import Record, iterate_records

OPENS, CLOSES = 0, -1
"""Epochs of a session that is opened, and of one that is closed."""

GAP, ACCEPT, RELEASE = 0, 1, 2
RECORDS_AT_ONCE = 500
"""As many as the clients of Kafka ask for [Kafka: max.poll.records]."""

RECORD_LIMIT = 1
"""The way to acquire records in which no more of them are acquired than were asked for."""

_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
_NO_SESSION = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})

Found = tuple[TopicPartition, Record]


class Acquired(msgspec.Struct, frozen=True):
    """A range of offsets of a partition, both ends included. ``offsets`` are the ones that have a record."""

    key: TopicPartition
    first: int
    last: int
    offsets: frozenset[int]


class SharingMember:
    """One member of ``group_id`` that reads ``topic``. Every method raises KafkaRefusal, and Unavailable, after which
    the caller may reconnect the cluster and continue."""

    def __init__(self, cluster: Cluster, group_id: str, topic: str) -> None:
        self._cluster = cluster
        self._heartbeats = GroupHeartbeats(
            cluster, group_id, topic, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
        )
        self._sessions: dict[int, tuple[int, tuple[TopicPartition, ...]]] = {}
        self._acquired: dict[int, list[Acquired]] = {}

    def fetch(self, wait_ms: int, limit: int = RECORDS_AT_ONCE) -> list[Found]:
        """Acquires records, at most ``limit`` from each leader. What was fetched before has to be acknowledged."""
        self._beat_in_time()
        topic = self._heartbeats.topic
        keys = sorted(TopicPartition(topic, number) for number in self._heartbeats.assigned)
        if not keys:
            self._cluster.clock.block_ms(wait_ms)
            return []
        found: list[Found] = []
        for leader, theirs in self._cluster.by_leader(keys).items():
            found += self._fetched(leader, tuple(theirs), wait_ms if not found else 0, limit)
        return found

    def acknowledge(self, accepted: Mapping[TopicPartition, Collection[int]]) -> None:
        """Accepts these offsets, and releases the others that were fetched."""
        for leader, acquired in list(self._acquired.items()):
            epoch, keys = self._sessions.get(leader, (OPENS, ()))
            del self._acquired[leader]
            if epoch == OPENS:  # the session is over, and so are its locks
                continue
            answer = self._acknowledged(leader, epoch, acquired, accepted)
            if answer.error_code in _NO_SESSION:
                self._sessions.pop(leader, None)
                continue
            refuse_error(answer.error_code, f"group {self._heartbeats.group_id}", answer.error_message)
            self._sessions[leader] = (epoch + 1, keys)
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code != ErrorCode.INVALID_RECORD_STATE:  # the lock time was over
                        key = TopicPartition(self._heartbeats.topic, each.index)
                        refuse_partition_error(self._cluster, each.error_code, key, 0)

    def leave(self) -> None:
        """Gives back what is not acknowledged, and leaves."""
        if self._heartbeats.epoch == JOINS:
            return
        for leader, (epoch, _) in list(self._sessions.items()):
            if epoch != OPENS:
                self._acknowledged(leader, CLOSES, (), {})
        self._sessions.clear()
        self._acquired.clear()
        self._heartbeats.send(LEAVES)
        self._heartbeats.lose()

    # -- membership

    def _beat_in_time(self) -> None:
        heartbeats = self._heartbeats
        joins = heartbeats.epoch == JOINS
        if not joins and not heartbeats.is_due:
            return
        if joins:
            heartbeats.learn_topic()
        answer = heartbeats.send(
            heartbeats.epoch, subscribed_topic_names=[heartbeats.topic] if joins else None
        )
        if answer.error_code in _LOST and not joins:
            heartbeats.lose()
        else:
            heartbeats.take(answer)

    # -- sessions

    def _fetched(
        self, leader: int, keys: tuple[TopicPartition, ...], wait_ms: int, limit: int
    ) -> list[Found]:
        epoch, known = self._sessions.get(leader, (OPENS, ()))
        if known != keys:
            epoch = OPENS  # a session that is opened again takes the place of the one before
        rows = [ShareFetchPartition(index=key.partition) for key in keys]
        request = ShareFetchRequest(
            group_id=self._heartbeats.group_id,
            member_id=self._heartbeats.member_id,
            share_session_epoch=epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            max_records=limit,
            batch_size=limit,
            share_acquire_mode=RECORD_LIMIT,
            topics=[ShareFetchTopic(topic_id=self._heartbeats.topic_id, partitions=rows)]
            if epoch == OPENS
            else [],
        )
        answer = self._cluster.broker(leader).call(
            request, ShareFetchResponse, wait_ms + ANSWER_TIME_LIMIT_MS
        )
        if answer.error_code in _NO_SESSION:
            self._sessions.pop(leader, None)
            return []
        refuse_error(answer.error_code, f"group {self._heartbeats.group_id}", answer.error_message)
        self._sessions[leader] = (epoch + 1, keys)
        found: list[Found] = []
        for topic in answer.topics:
            for data in topic.partitions:
                key = TopicPartition(self._heartbeats.topic, data.index)
                refuse_partition_error(self._cluster, data.error_code, key, 0)
                found += self._taken(leader, key, data)
        return found

    def _taken(self, leader: int, key: TopicPartition, data: ShareFetchedPartition) -> list[Found]:
        records = list(_records_in(data))
        found: list[Found] = []
        for each in data.acquired_records:
            mine = [record for record in records if each.first_offset <= record.offset <= each.last_offset]
            offsets = frozenset(record.offset for record in mine)
            acquired = Acquired(key, each.first_offset, each.last_offset, offsets)
            self._acquired.setdefault(leader, []).append(acquired)
            found += [(key, record) for record in mine]
        return found

    def _acknowledged(
        self,
        leader: int,
        epoch: int,
        acquired: Collection[Acquired],
        accepted: Mapping[TopicPartition, Collection[int]],
    ) -> ShareAcknowledgeResponse:
        batches: dict[int, list[AcknowledgementBatch]] = {}
        for each in acquired:
            mine = frozenset(accepted.get(each.key, ()))
            types = [_type_of(offset, each, mine) for offset in range(each.first, each.last + 1)]
            batch = AcknowledgementBatch(
                first_offset=each.first, last_offset=each.last, acknowledge_types=types
            )
            batches.setdefault(each.key.partition, []).append(batch)
        rows = [
            AcknowledgePartition(index=index, acknowledgement_batches=of) for index, of in batches.items()
        ]
        request = ShareAcknowledgeRequest(
            group_id=self._heartbeats.group_id,
            member_id=self._heartbeats.member_id,
            share_session_epoch=epoch,
            topics=[AcknowledgeTopic(topic_id=self._heartbeats.topic_id, partitions=rows)] if rows else [],
        )
        return self._cluster.broker(leader).call(request, ShareAcknowledgeResponse)


def _type_of(offset: int, acquired: Acquired, accepted: frozenset[int]) -> int:
    if offset not in acquired.offsets:
        return GAP
    return ACCEPT if offset in accepted else RELEASE


def _records_in(data: ShareFetchedPartition) -> list[Record]:
    whole = b"".join(bytes(piece) for piece in data.records) if data.records else b""
    records: list[Record] = []
    for header, batch in whole_batches(memoryview(whole)):
        if not header.is_control:
            refuse_wrong_checksum(header, batch)
            records += iterate_records(batch)
    return records
