"""Decides one request to a consumer group of KIP-848: (group, request, now, topics) → decision. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from siltstone.broker.groups.assigned.draft import (
    close_group,
    delete_group,
    forget_group,
)
from siltstone.broker.groups.consumer_protocol.classic_members import (
    beat_as_classic,
    join_as_classic,
    sync_as_classic,
)
from siltstone.broker.groups.consumer_protocol.draft import ConsumerDraft
from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup, ConsumerMember, MemberState
from siltstone.broker.groups.consumer_protocol.heartbeats import decide_beat, remove_members
from siltstone.broker.groups.ports import KnownTopics
from siltstone.broker.groups.rules import offset_steps
from siltstone.broker.groups.rules.decision import GroupDecision
from siltstone.broker.groups.rules.requests import (
    Close,
    Commit,
    CommitInTransaction,
    ConsumerBeat,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ForgetOffsets,
    Heartbeat,
    Join,
    Leave,
    Left,
    MoveOffsets,
    OffsetErrors,
    OffsetToCommit,
    Request,
    Sync,
    TimerKind,
    TimerRang,
)
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode


def decide_for_consumers(
    group: ConsumerGroup,
    request: Request,
    ticket: int,
    now_ms: int,
    settings: GroupSettings,
    topics: KnownTopics,
    logged: ConsumerGroup | None = None,
) -> GroupDecision[ConsumerGroup]:
    """Does what ``rules.deciding.decide`` does. ``logged``: the group as the log holds it, if that differs."""
    draft = ConsumerDraft(group, ticket, now_ms, settings, topics)
    draft.before = logged or group
    _STEPS[type(request)](draft, request)
    return draft.decision()


# -- members ---------------------------------------------------------------------------------------------


def _leave(draft: ConsumerDraft, leave: Leave) -> None:
    """An administrator removes members: static ones by their instance ids, others by their member ids."""
    group = draft.group
    errors: list[ErrorCode] = []
    leaving: dict[str, ConsumerMember] = {}
    for each in leave.members:
        found = group.members.get(each.member_id)
        if not each.member_id and each.instance_id is not None:
            found = group.static_member(each.instance_id)
        if found is None or found.member_id in leaving:
            errors.append(ErrorCode.UNKNOWN_MEMBER_ID)
        elif each.instance_id is not None and found.instance_id != each.instance_id:
            errors.append(ErrorCode.FENCED_INSTANCE_ID)
        else:
            errors.append(ErrorCode.NONE)
            leaving[found.member_id] = found
    if leaving:
        remove_members(draft, list(leaving.values()))
    draft.answer(Left(tuple(errors)))


def _timer(draft: ConsumerDraft, rang: TimerRang) -> None:
    member = draft.group.members.get(rang.timer.member_id)
    if member is None:
        return
    has_given_back = member.state is not MemberState.UNREVOKED
    if rang.timer.kind is TimerKind.REVOCATION and has_given_back:
        return
    remove_members(draft, [member])


# -- offsets ---------------------------------------------------------------------------------------------


def _commit(draft: ConsumerDraft, commit: Commit) -> None:
    errors = _commit_errors(draft, commit, is_transactional=False)
    if isinstance(errors, ErrorCode):
        draft.answer(errors)
    elif any(errors):
        draft.answer(_accept_some(draft, commit, errors))
    else:
        offset_steps.accept_offsets(draft, commit)


def _commit_in_transaction(draft: ConsumerDraft, commit: CommitInTransaction) -> None:
    """A member with another epoch gets the error that clients of transactions know."""
    errors = _commit_errors(draft, commit, is_transactional=True)
    if isinstance(errors, ErrorCode):
        draft.answer(errors)
    elif any(errors):
        draft.answer(ErrorCode.ILLEGAL_GENERATION)
    else:
        offset_steps.accept_pending_offsets(draft, commit)


def _commit_errors(
    draft: ConsumerDraft, commit: Commit | CommitInTransaction, *, is_transactional: bool
) -> ErrorCode | list[ErrorCode]:
    """Returns one error for all offsets, or one for each."""
    group = draft.group
    is_outsider = not commit.member_id and commit.instance_id is None and commit.generation < 0
    if is_outsider and (group.is_empty or is_transactional):
        return [ErrorCode.NONE] * len(commit.offsets)
    member = group.members.get(commit.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if isinstance(commit, Commit) and not commit.knows_epochs and member.classic is None:
        return ErrorCode.UNSUPPORTED_VERSION
    is_classic = is_transactional or member.classic is not None
    stale = ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
    if commit.generation == member.epoch:
        return [ErrorCode.NONE] * len(commit.offsets)
    if commit.generation > member.epoch:
        return stale
    return [
        ErrorCode.NONE if _had_then(draft, member, offset, commit.generation) else stale
        for offset in commit.offsets
    ]


def _had_then(draft: ConsumerDraft, member: ConsumerMember, offset: OffsetToCommit, epoch: int) -> bool:
    """Whether the member has had the partition since that epoch, so that nobody else has read it since (KIP-1251)."""
    topic = draft.topics.by_name(offset.topic)
    if topic is None:
        return False
    key = (topic.topic_id, offset.partition)
    since = member.assigned.get(key, member.revoking.get(key))
    return since is not None and epoch >= since


def _accept_some(draft: ConsumerDraft, commit: Commit, errors: list[ErrorCode]) -> OffsetErrors:
    accepted = [offset for offset, error in zip(commit.offsets, errors, strict=True) if not error]
    told = iter(offset_steps.accept(draft, draft.records, accepted, commit.retention_ms))
    return OffsetErrors(tuple(error or next(told) for error in errors))


def _expire(draft: ConsumerDraft, expire: ExpireOffsets) -> None:
    if offset_steps.all_expire(draft.group, expire, draft.now_ms, draft.settings):
        forget_group(draft, expire)
    else:
        offset_steps.drop_expired_offsets(draft, expire)


def _move(draft: ConsumerDraft, move: MoveOffsets) -> None:
    if move.spares_members and draft.group.members:
        draft.answer(ErrorCode.NON_EMPTY_GROUP)
    else:
        offset_steps.move_offsets(draft, move)


_STEPS: Mapping[type[Request], Callable[[ConsumerDraft, Any], None]] = {
    ConsumerBeat: decide_beat,
    Join: join_as_classic,
    Sync: sync_as_classic,
    Heartbeat: beat_as_classic,
    Leave: _leave,
    TimerRang: _timer,
    Commit: _commit,
    CommitInTransaction: _commit_in_transaction,
    DeleteOffsets: offset_steps.delete_offsets,
    ExpireOffsets: _expire,
    MoveOffsets: _move,
    ForgetOffsets: offset_steps.forget_offsets,
    DeleteGroup: delete_group,
    Close: close_group,
}
