"""The life of a group as a table: event → state → (steps, next state). ``deciding.decide`` walks the table, and the
diagram in docs/groups.md is drawn from it.

A rule is either a refusal (the request is answered with that error and nothing changes) or a list of steps. An event
that has no rule for a state cannot happen in that state, such as a rejoining member in a group without members. *Dead*
has no rules: a group in this state is removed from memory at once.

Source: KIP-62, KIP-345 (static members), KIP-394 (member ids), KIP-814 (skip_assignment), and what Apache Kafka 4 does.
"""

from collections.abc import Mapping
from enum import Enum, auto

import msgspec

from siltstone.kafka_protocol.error_code import ErrorCode


class GroupState(Enum):
    """The values are the names clients see in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(Enum):
    # -- JoinGroup
    MEMBER_ID_WANTED = "a new member asks for a member id"
    MEMBER_JOINS = "a new member joins"
    FOLLOWER_REJOINS = "a follower rejoins unchanged"
    LEADER_REJOINS = "the leader rejoins unchanged"
    MEMBER_REJOINS_CHANGED = "a member rejoins with another subscription"
    STATIC_MEMBER_RETURNS = "a static member returns unchanged"
    STATIC_MEMBER_RETURNS_CHANGED = "a static member returns with another subscription"
    # -- the end of the join phase
    NEWCOMERS_DURING_DELAY = "the initial delay ends, and members joined during it"
    JOIN_ENDS = "all members have joined, or the time for joining is over"
    JOIN_ENDS_DESERTED = "the time for joining is over, and no member has joined, but static members remain"
    JOIN_ENDS_WITHOUT_MEMBERS = "the join phase ends, and no member remains"
    # -- SyncGroup
    FOLLOWER_SYNCS = "a follower syncs"
    LEADER_SYNCS = "the leader sends the assignment"
    SYNC_TIME_ENDS = "members did not sync in time"
    # -- heartbeats, sessions and leaving
    MEMBER_BEATS = "a member sends a heartbeat"
    WAITING_MEMBER_IS_SILENT = "the session of a member ends whose request awaits an answer"
    MEMBERS_GO = "members leave or their sessions end"
    NEWCOMERS_GO = "clients leave, or their sessions end, before they joined"
    # -- offsets and the group itself
    MEMBER_COMMITS = "a member commits offsets"
    OUTSIDER_COMMITS = "a client that is not a member commits offsets"
    COMMITTED_IN_TRANSACTION = "a producer commits offsets in its transaction"
    OFFSETS_DELETED = "OffsetDelete on a group of type consumer"
    OFFSETS_DELETED_OF_OTHER_TYPE = "OffsetDelete on a group of another type"
    OFFSETS_EXPIRE = "offsets are past their retention time"
    LAST_OFFSET_EXPIRES = "the last offsets of an empty group are past their retention time"
    OFFSETS_OUTLIVED = "records that the group has not read are past their time to live"
    BACKLOG_EVICTED = "records that the group has not read are beyond the backlog quota"
    TOPIC_DELETED = "a topic is deleted for which the group has offsets"
    GROUP_DELETED = "DeleteGroups"
    COORDINATOR_CLOSES = "the coordinator closes"


class Step(Enum):
    GIVE_MEMBER_ID = auto()
    TAKE_IN = auto()
    REPLACE_STATIC_MEMBER = auto()
    BEGIN_INITIAL_DELAY = auto()
    BEGIN_JOIN_PHASE = auto()
    END_SYNCS = auto()
    EXTEND_INITIAL_DELAY = auto()
    DROP_MISSING = auto()
    ELECT_LEADER = auto()
    NEXT_GENERATION = auto()
    TELL_JOINED = auto()
    TELL_GENERATION = auto()
    TELL_KEPT_GENERATION = auto()
    PARK_SYNC = auto()
    DISTRIBUTE = auto()
    TELL_ASSIGNMENT = auto()
    DROP_SILENT = auto()
    KEEP_SESSION = auto()
    TELL_ALL_IS_WELL = auto()
    TELL_REBALANCE = auto()
    REMOVE = auto()
    SAVE = auto()
    ACCEPT_OFFSETS = auto()
    ACCEPT_PENDING_OFFSETS = auto()
    DELETE_OFFSETS = auto()
    DROP_EXPIRED_OFFSETS = auto()
    FORGET_OFFSETS = auto()
    MOVE_OFFSETS = auto()
    FORGET_GROUP = auto()
    DISMISS = auto()


class Rule(msgspec.Struct, frozen=True):
    """``steps`` are taken in order, and leave the group in state ``to``. A rule with a ``refusal`` has no steps."""

    to: GroupState
    steps: tuple[Step, ...] = ()
    refusal: ErrorCode | None = None


E, P, C, S = GroupState.EMPTY, GroupState.PREPARING, GroupState.COMPLETING, GroupState.STABLE
DEAD = GroupState.DEAD
_ALL = (E, P, C, S)
_REBALANCE = (Step.END_SYNCS, Step.BEGIN_JOIN_PHASE)


def _does(to: GroupState, *steps: Step) -> Rule:
    return Rule(to=to, steps=steps)


def _refuses(state: GroupState, refusal: ErrorCode) -> Rule:
    return Rule(to=state, refusal=refusal)


def _everywhere(*steps: Step) -> dict[GroupState, Rule]:
    return {state: _does(state, *steps) for state in _ALL}


def _refused_but_empty(empty: Rule, refusal: ErrorCode) -> dict[GroupState, Rule]:
    return {E: empty} | {state: _refuses(state, refusal) for state in (P, C, S)}


TABLE: Mapping[GroupEvent, Mapping[GroupState, Rule]] = {
    GroupEvent.MEMBER_ID_WANTED: _everywhere(Step.GIVE_MEMBER_ID),
    GroupEvent.MEMBER_JOINS: {
        E: _does(P, Step.TAKE_IN, Step.BEGIN_INITIAL_DELAY),
        P: _does(P, Step.TAKE_IN),
        C: _does(P, Step.TAKE_IN, *_REBALANCE),
        S: _does(P, Step.TAKE_IN, *_REBALANCE),
    },
    GroupEvent.FOLLOWER_REJOINS: {
        P: _does(P, Step.TAKE_IN),
        C: _does(C, Step.TELL_GENERATION),
        S: _does(S, Step.TELL_GENERATION),
    },
    GroupEvent.LEADER_REJOINS: {
        P: _does(P, Step.TAKE_IN),
        C: _does(C, Step.TELL_GENERATION),
        # A leader that rejoins unchanged asks for a rebalance in this way, because a topic has new partitions.
        S: _does(P, Step.TAKE_IN, *_REBALANCE),
    },
    GroupEvent.MEMBER_REJOINS_CHANGED: {
        P: _does(P, Step.TAKE_IN),
        C: _does(P, Step.TAKE_IN, *_REBALANCE),
        S: _does(P, Step.TAKE_IN, *_REBALANCE),
    },
    GroupEvent.STATIC_MEMBER_RETURNS: {
        P: _does(P, Step.REPLACE_STATIC_MEMBER),
        # The leader may be assigning partitions to the old member id at this moment.
        C: _does(P, Step.REPLACE_STATIC_MEMBER, *_REBALANCE),
        S: _does(S, Step.REPLACE_STATIC_MEMBER, Step.SAVE, Step.TELL_KEPT_GENERATION),
    },
    GroupEvent.STATIC_MEMBER_RETURNS_CHANGED: {
        P: _does(P, Step.REPLACE_STATIC_MEMBER),
        C: _does(P, Step.REPLACE_STATIC_MEMBER, *_REBALANCE),
        S: _does(P, Step.REPLACE_STATIC_MEMBER, *_REBALANCE),
    },
    GroupEvent.NEWCOMERS_DURING_DELAY: {P: _does(P, Step.EXTEND_INITIAL_DELAY)},
    GroupEvent.JOIN_ENDS: {
        P: _does(C, Step.DROP_MISSING, Step.ELECT_LEADER, Step.NEXT_GENERATION, Step.TELL_JOINED),
    },
    GroupEvent.JOIN_ENDS_DESERTED: {P: _does(P, Step.DROP_MISSING, Step.BEGIN_JOIN_PHASE)},
    GroupEvent.JOIN_ENDS_WITHOUT_MEMBERS: {P: _does(E, Step.DROP_MISSING, Step.NEXT_GENERATION, Step.SAVE)},
    GroupEvent.FOLLOWER_SYNCS: {
        P: _refuses(P, ErrorCode.REBALANCE_IN_PROGRESS),
        C: _does(C, Step.KEEP_SESSION, Step.PARK_SYNC),
        S: _does(S, Step.KEEP_SESSION, Step.TELL_ASSIGNMENT),
    },
    GroupEvent.LEADER_SYNCS: {
        P: _refuses(P, ErrorCode.REBALANCE_IN_PROGRESS),
        C: _does(S, Step.KEEP_SESSION, Step.DISTRIBUTE, Step.SAVE),
        S: _does(S, Step.KEEP_SESSION, Step.TELL_ASSIGNMENT),
    },
    GroupEvent.SYNC_TIME_ENDS: {
        C: _does(P, Step.DROP_SILENT, *_REBALANCE),
        S: _does(P, Step.DROP_SILENT, *_REBALANCE),
    },
    GroupEvent.MEMBER_BEATS: {
        P: _does(P, Step.KEEP_SESSION, Step.TELL_REBALANCE),
        C: _does(C, Step.KEEP_SESSION, Step.TELL_ALL_IS_WELL),
        S: _does(S, Step.KEEP_SESSION, Step.TELL_ALL_IS_WELL),
    },
    GroupEvent.WAITING_MEMBER_IS_SILENT: {
        P: _does(P, Step.KEEP_SESSION),
        C: _does(C, Step.KEEP_SESSION),
    },
    GroupEvent.MEMBERS_GO: {
        P: _does(P, Step.REMOVE),
        C: _does(P, Step.REMOVE, *_REBALANCE),
        S: _does(P, Step.REMOVE, *_REBALANCE),
    },
    GroupEvent.NEWCOMERS_GO: _everywhere(Step.REMOVE),
    GroupEvent.MEMBER_COMMITS: {
        P: _does(P, Step.KEEP_SESSION, Step.ACCEPT_OFFSETS),
        # The member does not know its partitions of this generation: it may commit for one that another member gets.
        C: _refuses(C, ErrorCode.REBALANCE_IN_PROGRESS),
        S: _does(S, Step.KEEP_SESSION, Step.ACCEPT_OFFSETS),
    },
    GroupEvent.OUTSIDER_COMMITS: _refused_but_empty(
        _does(E, Step.ACCEPT_OFFSETS), ErrorCode.UNKNOWN_MEMBER_ID
    ),
    # Whatever the group does meanwhile: the offsets count only if the transaction is committed, as in Kafka.
    GroupEvent.COMMITTED_IN_TRANSACTION: _everywhere(Step.ACCEPT_PENDING_OFFSETS),
    GroupEvent.OFFSETS_DELETED: _everywhere(Step.DELETE_OFFSETS),
    GroupEvent.OFFSETS_DELETED_OF_OTHER_TYPE: _refused_but_empty(
        _does(E, Step.DELETE_OFFSETS), ErrorCode.NON_EMPTY_GROUP
    ),
    GroupEvent.OFFSETS_EXPIRE: _everywhere(Step.DROP_EXPIRED_OFFSETS),
    GroupEvent.LAST_OFFSET_EXPIRES: {E: _does(DEAD, Step.FORGET_GROUP)},
    GroupEvent.OFFSETS_OUTLIVED: _refused_but_empty(_does(E, Step.MOVE_OFFSETS), ErrorCode.NON_EMPTY_GROUP),
    GroupEvent.BACKLOG_EVICTED: _everywhere(Step.MOVE_OFFSETS),
    GroupEvent.TOPIC_DELETED: _everywhere(Step.FORGET_OFFSETS),
    GroupEvent.GROUP_DELETED: _refused_but_empty(_does(DEAD, Step.FORGET_GROUP), ErrorCode.NON_EMPTY_GROUP),
    GroupEvent.COORDINATOR_CLOSES: {state: _does(DEAD, Step.DISMISS) for state in _ALL},
}
