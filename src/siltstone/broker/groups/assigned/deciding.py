"""The steps of decisions that all groups share whose partitions the coordinator assigns."""

from typing import Any

from siltstone.broker.groups.assigned.draft import AssignedDraft
from siltstone.broker.groups.rules import offset_steps
from siltstone.broker.groups.rules.requests import (
    BeatAnswer,
    Close,
    DeleteGroup,
    ExpireOffsets,
    Heartbeat,
    Join,
    Sync,
)
from siltstone.kafka_protocol.error_code import ErrorCode


def refuse_classic_member(draft: AssignedDraft[Any], request: Join | Sync | Heartbeat) -> None:
    is_join = isinstance(request, Join)
    draft.answer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_join else ErrorCode.UNKNOWN_MEMBER_ID)


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
