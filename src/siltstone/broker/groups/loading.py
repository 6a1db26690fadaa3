"""Rebuilds the groups of a coordinator from its log: the newest record of each key counts. One that was written in a
transaction counts when the marker says that the transaction was committed."""

import logging

from siltstone.broker.groups.consumer_protocol.log_records import ReplayedConsumerGroup
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.consumer_records import ConsumerRecord
from siltstone.broker.groups.offsets_log.record import (
    EncodedRecord,
    GroupMetadata,
    GroupRecord,
    MemberMetadata,
    OffsetRecord,
    UnknownKey,
    decode_record,
)
from siltstone.broker.groups.offsets_log.share_records import ShareRecord
from siltstone.broker.groups.ports import GroupLog, LogEntry, RecordInTransaction, TransactionEnd
from siltstone.broker.groups.rules.group import Group, Member, Protocol, member_bytes, subscribed_topics
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.share_protocol.log_records import ReplayedShareGroup

log = logging.getLogger(__name__)


class Replay:
    """``groups``: group id → known group. They have their members only after ``finish``. ``unknown``: key → value of
    the newest records of kinds that this program does not know."""

    def __init__(self) -> None:
        self.groups: dict[str, KnownGroup] = {}
        self.unknown: dict[bytes, bytes] = {}
        self.records_read = 0
        self._assigned: dict[str, ReplayedConsumerGroup | ReplayedShareGroup] = {}
        self._groups_of: dict[int, set[str]] = {}
        self._unknown_versions: set[int] = set()

    def read(self, entry: LogEntry) -> None:
        """Raises DamagedGroupRecord."""
        self.records_read += 1
        if isinstance(entry, TransactionEnd):
            self._end(entry)
            return
        in_transaction = entry if isinstance(entry, RecordInTransaction) else None
        encoded: EncodedRecord = entry.encoded if isinstance(entry, RecordInTransaction) else entry
        record = decode_record(encoded)
        if isinstance(record, UnknownKey):
            self._keep(record, encoded)
            return
        group_id = record.key.group_id
        if not isinstance(record, OffsetRecord | GroupRecord):
            self._read_assigned(group_id, record)
            return
        known = self.groups.get(group_id)
        if known is None:
            known = self.groups[group_id] = KnownGroup(Group(group_id))
        if in_transaction is not None and isinstance(record, OffsetRecord):
            known.apply_pending(in_transaction.producer, record)
            self._groups_of.setdefault(in_transaction.producer.producer_id, set()).add(group_id)
        else:
            known.apply(record)
        self._drop_if_empty(group_id, known)

    def _read_assigned(self, group_id: str, record: ConsumerRecord | ShareRecord) -> None:
        """The coordinator assigns the partitions of the group. A group changes its kind only when all of its records
        are deleted."""
        kind = ReplayedShareGroup if isinstance(record, ShareRecord) else ReplayedConsumerGroup
        replayed = self._assigned.setdefault(group_id, kind(group_id))
        replayed.read(record)
        if replayed.is_nothing:
            del self._assigned[group_id]

    def _end(self, end: TransactionEnd) -> None:
        for group_id in self._groups_of.pop(end.producer_id, ()):
            if (known := self.groups.get(group_id)) is not None:
                known.end_transaction(end.producer_id, commits=end.commits)
                self._drop_if_empty(group_id, known)

    def _drop_if_empty(self, group_id: str, known: KnownGroup) -> None:
        if known.live_records == 0:
            del self.groups[group_id]

    def finish(self) -> dict[str, KnownGroup]:
        for group_id, known in self.groups.items():
            if known.metadata is not None:
                known.group = group_of(group_id, known.metadata)
        for group_id, replayed in self._assigned.items():
            self.groups.setdefault(group_id, KnownGroup(Group(group_id))).group = replayed.group()
        return self.groups

    def _keep(self, key: UnknownKey, encoded: EncodedRecord) -> None:
        if encoded[1] is None:
            self.unknown.pop(encoded[0], None)
        else:
            self.unknown[encoded[0]] = encoded[1]
        if key.version not in self._unknown_versions:
            self._unknown_versions.add(key.version)
            log.warning(
                "records of __consumer_offsets have keys of version %d, unknown to this program: it keeps them",
                key.version,
            )


async def replay(group_log: GroupLog) -> Replay:
    """Reads the whole log. Raises DamagedGroupRecord, and what the log raises."""
    done = Replay()
    async for encoded in group_log.read_all():
        done.read(encoded)
    done.finish()
    return done


def group_of(group_id: str, metadata: GroupMetadata) -> Group:
    """Returns the group as it was when its record was written. Each member has to send a heartbeat within its session
    timeout."""
    members = {member.member_id: _member_of(member, metadata.protocol_name) for member in metadata.members}
    protocol_type = metadata.protocol_type or None
    return Group(
        group_id,
        state=GroupState.STABLE if members else GroupState.EMPTY,
        generation=metadata.generation,
        protocol_type=protocol_type,
        protocol_name=metadata.protocol_name,
        leader_id=metadata.leader_id,
        members=members,
        members_bytes=sum(map(member_bytes, members.values())),
        subscribed_topics=subscribed_topics(protocol_type, metadata.protocol_name, list(members.values())),
        state_since_ms=metadata.state_since_ms,
        is_saved=True,
    )


def _member_of(member: MemberMetadata, protocol_name: str | None) -> Member:
    """The record holds the elected protocol only; the member names its other protocols when it joins again."""
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=(Protocol(protocol_name or "", member.subscription),),
        assignment=member.assignment,
    )
