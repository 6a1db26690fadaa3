"""``decide``, the entry to this package: it checks the types of a command's fields, then calls the command's decision.

The types are checked because a log entry is encoded without a check and decoded with one: a tag that is a number, or an
offset that is a float, would be written, no reader could decode the entry, and no process could open the store again.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from siltstone.metadata.acls import CreateAcls, DeleteAcls, SetAuthorization
from siltstone.metadata.buckets import (
    AddBucket,
    RegisterBuckets,
    RemoveBucket,
    SetBucketState,
    SetWriteStrategy,
)
from siltstone.metadata.commands import (
    AddPartitions,
    AlterTopicConfigs,
    CancelJob,
    ClaimFailover,
    CloseStream,
    Command,
    CommitCompaction,
    CommitKeyCompaction,
    CommitUpload,
    CreateStream,
    CreateTopic,
    DeleteStream,
    DeleteTopic,
    DrainNode,
    ExpireObjects,
    FenceNode,
    FinishJob,
    ForgetObjects,
    GiveUpLog,
    GiveUpPartitions,
    MovePartitions,
    OpenPartition,
    OpenStream,
    PinScan,
    PlacePartitions,
    PrepareObjects,
    PutKey,
    RegisterNode,
    RemoveKey,
    RenewJob,
    ResumeNode,
    RollSegments,
    ShortenLease,
    StartJob,
    TakeNumbers,
    TrimStream,
    TrimStreams,
    UnpinScan,
    UnregisterNode,
)
from siltstone.metadata.copies import AcceptLoss, AddCopies, GiveUpBucket, PrepareCopies, WithdrawCopies
from siltstone.metadata.decisions.acls import (
    decide_create_acls,
    decide_delete_acls,
    decide_set_authorization,
)
from siltstone.metadata.decisions.buckets import (
    decide_add_bucket,
    decide_register_buckets,
    decide_remove_bucket,
    decide_set_bucket_state,
    decide_set_write_strategy,
)
from siltstone.metadata.decisions.compaction import decide_commit_compaction
from siltstone.metadata.decisions.copies import (
    decide_accept_loss,
    decide_add_copies,
    decide_give_up_bucket,
    decide_prepare_copies,
    decide_withdraw_copies,
)
from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.decisions.flushes import decide_answer_flush, decide_ask_flush
from siltstone.metadata.decisions.jobs import (
    decide_cancel_job,
    decide_finish_job,
    decide_renew_job,
    decide_shorten_lease,
    decide_start_job,
)
from siltstone.metadata.decisions.key_compaction import decide_commit_key_compaction
from siltstone.metadata.decisions.keys import (
    decide_promise_feature,
    decide_put_key,
    decide_remove_key,
    decide_take_numbers,
)
from siltstone.metadata.decisions.leaders import decide_open_partition
from siltstone.metadata.decisions.levels import decide_raise_level
from siltstone.metadata.decisions.membership import (
    decide_claim_failover,
    decide_drain_node,
    decide_fence_node,
    decide_resume_node,
    decide_unregister_node,
)
from siltstone.metadata.decisions.moves import decide_give_up_partitions, decide_move_partitions
from siltstone.metadata.decisions.nodes import decide_give_up_log, decide_register_node
from siltstone.metadata.decisions.objects import (
    decide_expire_objects,
    decide_forget_objects,
    decide_prepare_objects,
)
from siltstone.metadata.decisions.placement import decide_place_partitions
from siltstone.metadata.decisions.quotas import decide_alter_quotas
from siltstone.metadata.decisions.retention import decide_roll_segments, decide_trim_streams
from siltstone.metadata.decisions.scan_pins import decide_pin_scan, decide_unpin_scan
from siltstone.metadata.decisions.sinks import decide_begin_sink_batch, decide_commit_sink_batch
from siltstone.metadata.decisions.streams import (
    decide_close_stream,
    decide_create_stream,
    decide_delete_stream,
    decide_open_stream,
    decide_trim_stream,
)
from siltstone.metadata.decisions.topics import (
    decide_add_partitions,
    decide_alter_topic_configs,
    decide_create_topic,
    decide_delete_topic,
)
from siltstone.metadata.decisions.uploads import decide_commit_upload
from siltstone.metadata.decisions.users import decide_alter_users, decide_end_sessions
from siltstone.metadata.entities import StoreLevel
from siltstone.metadata.features import PromiseFeature
from siltstone.metadata.flushes import AnswerFlush, AskFlush
from siltstone.metadata.image import ImageView
from siltstone.metadata.levels import LEVELS, RaiseLevel
from siltstone.metadata.quotas import AlterQuotas
from siltstone.metadata.records import Record
from siltstone.metadata.refusals import CommandMalformed, LevelTooLow, Refusal
from siltstone.metadata.sinks import BeginSinkBatch, CommitSinkBatch
from siltstone.metadata.users import AlterUsers, EndSessions

R = TypeVar("R")
_encoder = msgspec.msgpack.Encoder()


def check_types(command: Command[Any]) -> None:
    """Checks the fields as a reader of the log would, by encoding and decoding the command. Raises
    CommandMalformed."""
    try:
        _decoder(type(command)).decode(_encoder.encode(command))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise CommandMalformed(
            f"a {type(command).__name__} has a field of the wrong type or out of range: {error}; correct it"
        ) from None


@lru_cache
def _decoder(kind: type[Command[Any]]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


DECISIONS: dict[type[Command[Any]], Callable[[ImageView, Any, int], Decision[Any]]] = {
    RegisterNode: decide_register_node,
    FenceNode: decide_fence_node,
    ResumeNode: decide_resume_node,
    DrainNode: decide_drain_node,
    UnregisterNode: decide_unregister_node,
    ClaimFailover: decide_claim_failover,
    GiveUpLog: decide_give_up_log,
    CreateStream: decide_create_stream,
    OpenStream: decide_open_stream,
    CloseStream: decide_close_stream,
    TrimStream: decide_trim_stream,
    DeleteStream: decide_delete_stream,
    PrepareObjects: decide_prepare_objects,
    CommitUpload: decide_commit_upload,
    CommitCompaction: decide_commit_compaction,
    CommitKeyCompaction: decide_commit_key_compaction,
    RollSegments: decide_roll_segments,
    TrimStreams: decide_trim_streams,
    ExpireObjects: decide_expire_objects,
    ForgetObjects: decide_forget_objects,
    PutKey: decide_put_key,
    PromiseFeature: decide_promise_feature,
    RemoveKey: decide_remove_key,
    StartJob: decide_start_job,
    RenewJob: decide_renew_job,
    ShortenLease: decide_shorten_lease,
    FinishJob: decide_finish_job,
    CancelJob: decide_cancel_job,
    CreateTopic: decide_create_topic,
    AddPartitions: decide_add_partitions,
    AlterTopicConfigs: decide_alter_topic_configs,
    DeleteTopic: decide_delete_topic,
    OpenPartition: decide_open_partition,
    MovePartitions: decide_move_partitions,
    GiveUpPartitions: decide_give_up_partitions,
    PlacePartitions: decide_place_partitions,
    TakeNumbers: decide_take_numbers,
    PinScan: decide_pin_scan,
    UnpinScan: decide_unpin_scan,
    BeginSinkBatch: decide_begin_sink_batch,
    CommitSinkBatch: decide_commit_sink_batch,
    AskFlush: decide_ask_flush,
    AnswerFlush: decide_answer_flush,
    RegisterBuckets: decide_register_buckets,
    AddBucket: decide_add_bucket,
    SetBucketState: decide_set_bucket_state,
    RemoveBucket: decide_remove_bucket,
    SetWriteStrategy: decide_set_write_strategy,
    PrepareCopies: decide_prepare_copies,
    AddCopies: decide_add_copies,
    WithdrawCopies: decide_withdraw_copies,
    AcceptLoss: decide_accept_loss,
    GiveUpBucket: decide_give_up_bucket,
    AlterUsers: decide_alter_users,
    EndSessions: decide_end_sessions,
    CreateAcls: decide_create_acls,
    DeleteAcls: decide_delete_acls,
    SetAuthorization: decide_set_authorization,
    AlterQuotas: decide_alter_quotas,
    RaiseLevel: decide_raise_level,
}


def decide(view: ImageView, command: Command[R], now_ms: int) -> Decision[R] | Refusal:
    """Decides the command; returns the decision or the refusal. The view is not changed."""
    try:
        check_types(command)
        decision = DECISIONS[type(command)](view, command, now_ms)
        _refuse_early(view.level, decision.records)
        return decision
    except Refusal as refusal:
        return refusal.with_traceback(None)  # a traceback would keep the whole image alive


def _refuse_early(level: StoreLevel, records: Sequence[Record]) -> None:
    """Raises LevelTooLow if one of the records belongs to a level that the store does not have yet."""
    for number, known in LEVELS.items():
        if number <= level.number or not known.records:
            continue
        for early in {type(record) for record in records} & known.records:
            raise LevelTooLow(
                f"the store has level {level.number}, and {early.__name__} needs level {number}: once every node runs "
                "a version that knows it, raise the level by siltstone upgrade"
            )
