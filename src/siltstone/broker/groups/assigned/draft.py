"""A decision about a group whose partitions the coordinator assigns. Steps are still adding to it."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from siltstone.broker.groups.assigned.group import AssignedGroup, Partitions, hash_of_topics
from siltstone.broker.groups.offsets_log.record import Record
from siltstone.broker.groups.ports import KnownTopics
from siltstone.broker.groups.rules import offset_steps
from siltstone.broker.groups.rules.decision import GroupDecision, GroupDraft
from siltstone.broker.groups.rules.requests import BeatAnswer, Close, DeleteGroup, ExpireOffsets
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode

A = TypeVar("A", bound=AssignedGroup)


class AssignedDraft(GroupDraft[A]):
    """Steps change the group and write the records of offsets. ``decision`` makes the group's own records."""

    def __init__(
        self, group: A, ticket: int, now_ms: int, settings: GroupSettings, topics: KnownTopics
    ) -> None:
        super().__init__(group, ticket, now_ms, settings)
        self.topics = topics
        self._is_forgotten = False
        self._members: dict[str, Any] | None = None
        self._targets: dict[str, Partitions] | None = None

    def decision_by(
        self, between: Callable[[A, A], Iterator[Record]], tombstones: Callable[[A], Iterator[Record]]
    ) -> GroupDecision[A]:
        """The records of a group that ends are deleted."""
        if not self.group.is_dead:
            changes = between(self.before, self.group)
        else:
            changes = tombstones(self.before) if self._is_forgotten else iter(())
        records = (*changes, *self.records)
        return GroupDecision(self.group, tuple(self.actions), records, tuple(self.pending))

    def forget(self) -> None:
        """Ends the group, and deletes it from the log if it is there."""
        self._is_forgotten = self.before.is_saved
        self.dismiss()

    def dismiss(self) -> None:
        """Ends the group in memory, with its timers."""
        for member in list(self.group.members.values()):
            self.remove(member)
        self.change(is_dead=True)

    def put(self, member: Any) -> None:
        """Adds the member, or puts it in the place of its former value."""
        self._own_members()[member.member_id] = member

    def remove(self, member: Any) -> None:
        """Removes the member with its target and its timers."""
        del self._own_members()[member.member_id]
        if member.member_id in self.group.targets:
            del self._own_targets()[member.member_id]
        self.end_session(member.member_id)

    def set_target(self, member_id: str, target: Partitions) -> None:
        self._own_targets()[member_id] = target

    def refresh_topics(self) -> bool:
        """Notes the topics of the group as they are now. Returns whether they have changed since its epoch began."""
        found = hash_of_topics(self.group.names, self.topics)
        is_other = found != self.group.metadata_hash
        self.change(metadata_hash=found, seen=self.topics.all())
        return is_other

    def raise_epoch(self) -> None:
        self.change(epoch=self.group.epoch + 1)

    def _own_members(self) -> dict[str, Any]:
        if self._members is None:
            self._members = dict(self.group.members)
            self.change(members=self._members)
        return self._members

    def _own_targets(self) -> dict[str, Partitions]:
        if self._targets is None:
            self._targets = dict(self.group.targets)
            self.change(targets=self._targets)
        return self._targets


# -- steps that both kinds of groups take -----------------------------------------------------------------


def answer_beat(draft: AssignedDraft[Any], member: Any, asked: Any, *, is_told: bool) -> None:
    """Answers with the member's epoch; with its partitions, too, if they have changed since it ``asked`` or it has to
    be told."""
    is_told |= frozenset(member.assigned) != frozenset(asked.assigned)
    draft.answer(BeatAnswer(member.member_id, member.epoch, frozenset(member.assigned) if is_told else None))


def delete_group(draft: AssignedDraft[Any], delete: DeleteGroup) -> None:
    if draft.group.members:
        draft.answer(ErrorCode.NON_EMPTY_GROUP)
        return
    forget_group(draft, delete)
    draft.answer(ErrorCode.NONE)


def forget_group(draft: AssignedDraft[Any], request: DeleteGroup | ExpireOffsets) -> None:
    offset_steps.delete_offsets_of(draft, request.committed)
    draft.forget()


def close_group(draft: AssignedDraft[Any], _: Close) -> None:
    """No request waits for an answer here, so only the timers end."""
    draft.dismiss()
