"""The share groups of a partition: how far each has come, as its leader has it in memory and writes it into the meta
stream (``object_formats.share_state``). Pure.

Memory is the newest state, with locks; the log has the same state without them. A group is here from the first fetch of
a member on, until its state is deleted.
"""

from collections.abc import Iterable

import msgspec

from siltstone.broker.deliveries.kept import (
    batches_of,
    changed_batches,
    has_changed,
    progress_from,
    with_batches,
)
from siltstone.broker.deliveries.progress import ShareProgress
from siltstone.model.errors import InvalidRequest
from siltstone.object_formats.share_state import (
    ChangeKind,
    ShareChange,
    ShareState,
    pack_batches,
    unpack_batches,
)

SHARE_GROUPS_PER_PARTITION_MAX = 100
"""Share groups that may have a state in one partition. With two thousand records in flight each, their states take some
megabytes of a snapshot."""

CHANGES_PER_SNAPSHOT_MAX = 500
"""After so many changes a snapshot is written, so that the next leader reads no more [Kafka:
share.coordinator.snapshot.update.records.per.snapshot]."""


class TooManyShareGroups(InvalidRequest):
    """The partition has as many share groups as it may have."""


class KnownShare(msgspec.Struct, frozen=True):
    """``state_epoch`` rises when somebody sets the start."""

    progress: ShareProgress
    state_epoch: int = 0


class PartitionShares:
    def __init__(self, states: Iterable[ShareState] = ()) -> None:
        self.by_group: dict[str, KnownShare] = {state.group_id: _known(state) for state in states}
        self.changes_since_snapshot = 0

    def __len__(self) -> int:
        return len(self.by_group)

    def get(self, group_id: str) -> KnownShare | None:
        return self.by_group.get(group_id)

    def apply(self, change: ShareChange) -> None:
        """Takes a change that is in the log."""
        state, known = change.state, self.by_group.get(change.state.group_id)
        self.changes_since_snapshot += 1
        if change.kind is ChangeKind.GONE:
            self.by_group.pop(state.group_id, None)
        elif change.kind is ChangeKind.WHOLE or known is None:
            self.by_group[state.group_id] = _known(state)
        else:
            batches = unpack_batches(state.batches)
            progress = with_batches(known.progress, state.start_offset, batches)
            self.by_group[state.group_id] = KnownShare(progress, state.state_epoch)

    def states(self, leader_epoch: int) -> tuple[ShareState, ...]:
        """Returns all of all groups, for a snapshot."""
        return tuple(_whole(group_id, known, leader_epoch) for group_id, known in self.by_group.items())

    def change_to(self, group_id: str, after: KnownShare, leader_epoch: int) -> ShareChange | None:
        """Returns what the log has to be told; None if it has it all. Raises TooManyShareGroups."""
        known = self.by_group.get(group_id)
        if known is None and len(self.by_group) >= SHARE_GROUPS_PER_PARTITION_MAX:
            raise TooManyShareGroups(
                f"{len(self.by_group)} share groups use this partition, as many as may: delete one first"
            )
        if known is None or known.state_epoch != after.state_epoch:
            return ShareChange(ChangeKind.WHOLE, _whole(group_id, after, leader_epoch))
        if not has_changed(known.progress, after.progress):
            return None
        batches = pack_batches(changed_batches(known.progress, after.progress))
        state = ShareState(group_id, after.state_epoch, leader_epoch, after.progress.start_offset, batches)
        return ShareChange(ChangeKind.PART, state)

    def put(self, group_id: str, after: KnownShare) -> None:
        self.by_group[group_id] = after

    def gone(self, group_id: str, leader_epoch: int) -> ShareChange | None:
        """Returns what the log has to be told when the group is forgotten."""
        if (known := self.by_group.get(group_id)) is None:
            return None
        start = known.progress.start_offset
        return ShareChange(ChangeKind.GONE, ShareState(group_id, known.state_epoch, leader_epoch, start))

    def forget(self, group_id: str) -> None:
        self.by_group.pop(group_id, None)


def _known(state: ShareState) -> KnownShare:
    return KnownShare(progress_from(state.start_offset, unpack_batches(state.batches)), state.state_epoch)


def _whole(group_id: str, known: KnownShare, leader_epoch: int) -> ShareState:
    batches = pack_batches(batches_of(known.progress))
    return ShareState(group_id, known.state_epoch, leader_epoch, known.progress.start_offset, batches)
