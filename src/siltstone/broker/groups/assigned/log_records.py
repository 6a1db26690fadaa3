"""What the log has to hold of a group: all of it. The records of a decision follow from the group before and after it,
so the log cannot say anything else than memory does (decision 58). Pure.

Within one decision, records come in Kafka's order: members that are gone, subscriptions, the epoch, targets, the epoch
of the targets, what each member has now.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from siltstone.broker.groups.assigned.group import AssignedGroup
from siltstone.broker.groups.offsets_log.consumer_records import GroupEpoch, TargetEpoch
from siltstone.broker.groups.offsets_log.keyed_values import RecordKind


class GroupRecordKinds(msgspec.Struct, frozen=True):
    """The kinds of records of a group, and what they hold of a member: its subscription, and what it has."""

    epoch: RecordKind
    subscription: RecordKind
    target_epoch: RecordKind
    target: RecordKind
    current: RecordKind
    subscription_of: Callable[[Any], Any]
    current_of: Callable[[Any], Any]


def records_of_gone(form: GroupRecordKinds, before: AssignedGroup, after: AssignedGroup) -> Iterator[Any]:
    """Yields the records that delete the members that are gone."""
    if before.members is after.members:  # as after nearly every heartbeat
        return
    for member_id in before.members:
        if member_id not in after.members:
            for kind in (form.current, form.target, form.subscription):
                yield kind.made(None, after.group_id, member_id)


def records_of_change(form: GroupRecordKinds, before: AssignedGroup, after: AssignedGroup) -> Iterator[Any]:
    """Yields the other records that turn a log of ``before`` into one of ``after``."""
    changed = (
        []
        if before.members is after.members
        else [
            (before.members.get(member_id), member)
            for member_id, member in after.members.items()
            if before.members.get(member_id) is not member
        ]
    )
    yield from _of_members(after.group_id, changed, form.subscription, form.subscription_of)
    if _epoch_of(before) != _epoch_of(after):
        yield form.epoch.made(_epoch_of(after), after.group_id)
    if before.targets is not after.targets:
        for member_id, target in after.targets.items():
            if before.targets.get(member_id) != target:
                yield form.target.made(target, after.group_id, member_id)
    if _target_epoch_of(before) != _target_epoch_of(after):
        yield form.target_epoch.made(_target_epoch_of(after), after.group_id)
    yield from _of_members(after.group_id, changed, form.current, form.current_of)


def tombstones(form: GroupRecordKinds, group: AssignedGroup, others: Iterable[Any] = ()) -> Iterator[Any]:
    """Yields what deletes the group from the log, in Kafka's order. ``others``: the tombstones of records that only
    this kind of group has."""
    group_id = group.group_id
    for kind in (form.current, form.target):
        yield from (kind.made(None, group_id, member_id) for member_id in group.members)
    yield form.target_epoch.made(None, group_id)
    yield from (form.subscription.made(None, group_id, member_id) for member_id in group.members)
    yield from others
    yield form.epoch.made(None, group_id)


def _of_members(
    group_id: str, changed: Iterable[tuple[Any, Any]], kind: RecordKind, value_of: Callable[[Any], Any]
) -> Iterator[Any]:
    """Yields a record for each member whose value is another one than before."""
    for known, member in changed:
        value = value_of(member)
        if known is None or value_of(known) != value:
            yield kind.made(value, group_id, member.member_id)


def _epoch_of(group: AssignedGroup) -> GroupEpoch:
    return GroupEpoch(group.epoch, group.metadata_hash)


def _target_epoch_of(group: AssignedGroup) -> TargetEpoch:
    return TargetEpoch(group.assignment_epoch, group.assignment_ms)


# -- replay ----------------------------------------------------------------------------------------------


class ReplayedGroup:
    """A group as far as its records were read."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._values: defaultdict[type[Any], dict[str, Any]] = defaultdict(dict)

    @property
    def is_nothing(self) -> bool:
        return not any(self._values.values())

    def read(self, record: Any) -> None:
        """Takes the newest value of the record's key, which deletes the value before it when it is None."""
        key = record.key
        name = getattr(key, key.__struct_fields__[-1])
        if record.value is None:
            self._values[type(key)].pop(name, None)
        else:
            self._values[type(key)][name] = record.value

    def all(self, kind: RecordKind) -> dict[str, Any]:
        """Returns the values of the kind by the last text of their keys: a member, a pattern, or the group."""
        return self._values[kind.key]

    def one(self, kind: RecordKind, otherwise: Any) -> Any:
        """Returns the value of a kind that a group has once."""
        return self._values[kind.key].get(self._group_id, otherwise)

    def fields(self, form: GroupRecordKinds) -> dict[str, Any]:
        """Returns the fields that groups of all kinds have, but the members."""
        epoch, target_epoch = (
            self.one(form.epoch, GroupEpoch(0, 0)),
            self.one(form.target_epoch, TargetEpoch(0, 0)),
        )
        members = self.all(form.subscription)
        return {
            "group_id": self._group_id,
            "epoch": epoch.epoch,
            "metadata_hash": epoch.metadata_hash,
            "assignment_epoch": target_epoch.epoch,
            "assignment_ms": target_epoch.assigned_ms,
            "targets": {each: target for each, target in self.all(form.target).items() if each in members},
        }
