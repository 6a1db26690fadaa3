"""The state of a coordinator from its log: the newest record of each key counts."""

import logging

from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.group_metadata import GroupMetadata, MemberMetadata
from siltstone.broker.groups.offsets_log.keys import UnknownKey
from siltstone.broker.groups.offsets_log.record import EncodedRecord, decode_record
from siltstone.broker.groups.ports import GroupLog
from siltstone.broker.groups.rules.group import Group, subscribed_topics
from siltstone.broker.groups.rules.member import Member, Protocol, member_bytes
from siltstone.broker.groups.rules.states import GroupState

log = logging.getLogger(__name__)


class Replay:
    """``cells`` are complete after ``finish``."""

    def __init__(self) -> None:
        self.cells: dict[str, KnownGroup] = {}
        self.records_read = 0
        self._unknown_versions: set[int] = set()

    def read(self, encoded: EncodedRecord) -> None:
        """Raises DamagedGroupRecord."""
        self.records_read += 1
        record = decode_record(encoded)
        if isinstance(record, UnknownKey):
            self._skip(record)
            return
        group_id = record.key.group_id
        cell = self.cells.get(group_id)
        if cell is None:
            cell = self.cells[group_id] = KnownGroup(Group(group_id))
        cell.apply(record)
        if cell.live_records == 0:
            del self.cells[group_id]

    def finish(self) -> dict[str, KnownGroup]:
        for group_id, cell in self.cells.items():
            if cell.metadata is not None:
                cell.group = group_of(group_id, cell.metadata)
        return self.cells

    def _skip(self, key: UnknownKey) -> None:
        if key.version not in self._unknown_versions:
            self._unknown_versions.add(key.version)
            log.warning("records with keys of version %d are of no kind we know and are skipped", key.version)


async def replay(group_log: GroupLog) -> Replay:
    """Raises DamagedGroupRecord, and what the log raises."""
    done = Replay()
    async for encoded in group_log.read_all():
        done.read(encoded)
    done.finish()
    return done


def group_of(group_id: str, metadata: GroupMetadata) -> Group:
    """As it was when it was written down. Its members have to show up within their session timeouts."""
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
    """Of the protocols it knows, the elected one was written down. It tells the others when it joins again."""
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
