"""A group with everything that is known of it: its state, what of that the log holds, and its offsets."""

import sys
from typing import TypeVar

import msgspec

from siltstone.broker.groups.offsets_log.committed_offset import CommittedOffset
from siltstone.broker.groups.offsets_log.group_metadata import GroupMetadata
from siltstone.broker.groups.offsets_log.keys import GroupKey, OffsetKey
from siltstone.broker.groups.offsets_log.record import GroupRecord, OffsetRecord, Record
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import TopicPartition
from siltstone.broker.groups.rules.states import GroupState

GROUP_OVERHEAD_BYTES = 1_000
OFFSET_OVERHEAD_BYTES = 300
"""What a group and an offset cost in memory besides their texts and bytes."""

T = TypeVar("T")


class GroupCell(msgspec.Struct, eq=False):
    """``metadata`` is the newest record of the group in the log, which is not always the group: a rebalance under
    way is not written down. ``offsets_bytes`` is what the offsets are charged."""

    group: Group
    metadata: GroupMetadata | None = None
    offsets: dict[TopicPartition, CommittedOffset] = msgspec.field(default_factory=dict)
    offsets_bytes: int = 0

    @property
    def live_records(self) -> int:
        """Records that the log would need to hold."""
        return len(self.offsets) + (self.metadata is not None)

    @property
    def charged_bytes(self) -> int:
        return GROUP_OVERHEAD_BYTES + self.group.charged_bytes + self.offsets_bytes

    @property
    def is_nothing(self) -> bool:
        """Nobody would miss it."""
        group = self.group
        if group.state is GroupState.DEAD:
            return True
        return group.state is GroupState.EMPTY and not group.pending and self.live_records == 0

    def apply(self, record: Record) -> None:
        """Of this group."""
        if isinstance(record, GroupRecord):
            self.metadata = record.metadata
        else:
            self._apply_offset(record)

    def record_of_group(self) -> GroupRecord | None:
        return None if self.metadata is None else GroupRecord(GroupKey(self.group.group_id), self.metadata)

    def record_of_offset(self, topic_partition: TopicPartition) -> OffsetRecord | None:
        committed = self.offsets.get(topic_partition)
        if committed is None:
            return None
        return OffsetRecord(OffsetKey(self.group.group_id, *topic_partition), committed)

    def _apply_offset(self, record: OffsetRecord) -> None:
        """Topic names are interned: a thousand partitions of a topic in a hundred groups share one text."""
        topic_partition = (sys.intern(record.key.topic), record.key.partition)
        self.offsets_bytes -= _offset_bytes(self.offsets.pop(topic_partition, None))
        if record.committed is not None:
            self.offsets[topic_partition] = record.committed
        self.offsets_bytes += _offset_bytes(record.committed)


def _offset_bytes(committed: CommittedOffset | None) -> int:
    return 0 if committed is None else OFFSET_OVERHEAD_BYTES + len(committed.metadata)
