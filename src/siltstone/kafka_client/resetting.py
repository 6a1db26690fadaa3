"""Resets where a group continues: what would change, and the change, while the group has no members.

What a person has looked at is what is done: ``confirmed_reset`` takes the rows that were shown, and refuses them when
the group has moved since.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from siltstone.foundation.quantity_words import counted
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.groups import GroupSummary, describe_group
from siltstone.kafka_client.positions import Position, resolve
from siltstone.kafka_client.share_groups import offsets_of_groups, set_offsets
from siltstone.model.errors import InvalidRequest


class GroupInUse(InvalidRequest):
    """The group has members, which would overwrite the offsets with their own."""


class ResetOutdated(InvalidRequest):
    """The group has committed other offsets since the reset was shown."""


class ResetRow(msgspec.Struct, frozen=True):
    """``before``: the committed offset until now; None if there was none."""

    topic: str
    partition: int
    before: int | None
    after: int

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def again(self) -> int:
        """The offsets that would be read again."""
        return 0 if self.before is None else max(0, self.before - self.after)

    @property
    def skipped(self) -> int:
        return 0 if self.before is None else max(0, self.after - self.before)


def refuse_members(group: GroupSummary) -> None:
    """Raises GroupInUse."""
    if not group.is_empty:
        members = "members" if group.members is None else counted(len(group.members), "member")
        raise GroupInUse(
            f"group {group.group_id} is {group.state.lower()} and has {members}: stop them first"
        )


def planned_reset(
    cluster: Cluster, group: GroupSummary, partitions: Iterable[TopicPartition], position: Position
) -> list[ResetRow]:
    """Returns what a reset to ``position`` changes, a row for each partition. Raises KafkaRefusal, KafkaNotReady."""
    targets = {key: where.offset for key, where in resolve(cluster, partitions, position).items()}
    return reset_rows(cluster, group, targets)


def reset_rows(
    cluster: Cluster, group: GroupSummary, targets: Mapping[TopicPartition, int]
) -> list[ResetRow]:
    """Raises KafkaRefusal, KafkaNotReady."""
    before = offsets_of_groups(cluster, [group])[group.group_id]
    return [
        ResetRow(key.topic, key.partition, before.get(key), after) for key, after in sorted(targets.items())
    ]


def confirmed_reset(cluster: Cluster, group_id: str, rows: Sequence[ResetRow]) -> None:
    """Sets the offsets of ``rows``. Raises GroupInUse, ResetOutdated, KafkaRefusal, KafkaNotReady."""
    group = describe_group(cluster, group_id)
    refuse_members(group)
    now = offsets_of_groups(cluster, [group])[group_id]
    for row in rows:
        if now.get(row.key) != row.before:
            raise ResetOutdated(
                f"group {group_id} continues {row.key} at {_offset(now.get(row.key))} now, and at "
                f"{_offset(row.before)} when the reset was shown: look at it again"
            )
    set_offsets(cluster, group, {row.key: row.after for row in rows})


def _offset(found: int | None) -> str:
    return "no offset" if found is None else str(found)
