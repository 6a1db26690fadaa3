"""Which offsets have outlived their retention time (KIP-211).

============================= ======================================================
the group                     counts from
============================= ======================================================
empty, had members            the moment it became empty, or the commit if later
simple                        the commit
stable, topics known          the commit, for topics no member subscribes to any more
anything else                 never
============================= ======================================================

An offset committed with a retention time of its own goes by that, wherever the table does not say never. Those in
topics that keep their data for the group (siltstone.retention.groups) stay: it must find again what was kept for it.
Kafka takes the first line's moment alone, and drops at once what an administrator sets in a group that has been empty
for long.
"""

from collections.abc import Iterator

from siltstone.broker.groups.offsets_log.committed_offset import CommittedOffset
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import ExpireOffsets, TopicPartition
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.settings import GroupSettings


def expired_offsets(
    group: Group, request: ExpireOffsets, now_ms: int, settings: GroupSettings
) -> Iterator[TopicPartition]:
    for topic_partition, committed in request.committed.items():
        if topic_partition[0] in request.kept_topics:
            continue
        if _is_dispensable(group, topic_partition[0]) and _is_past(group, committed, now_ms, settings):
            yield topic_partition


def all_expire(group: Group, request: ExpireOffsets, now_ms: int, settings: GroupSettings) -> bool:
    """Whether nothing is left of the group."""
    if group.state is not GroupState.EMPTY or group.pending:
        return False
    return sum(1 for _ in expired_offsets(group, request, now_ms, settings)) == len(request.committed)


def _is_dispensable(group: Group, topic: str) -> bool:
    if group.state is GroupState.EMPTY:
        return True
    knows_topics = group.subscribed_topics is not None
    return group.state is GroupState.STABLE and knows_topics and not group.is_subscribed_to(topic)


def _is_past(group: Group, committed: CommittedOffset, now_ms: int, settings: GroupSettings) -> bool:
    if committed.expires_ms is not None:
        return now_ms >= committed.expires_ms
    since_ms = committed.committed_ms
    if group.state is GroupState.EMPTY and not group.is_simple:
        since_ms = max(since_ms, group.state_since_ms)
    return now_ms - since_ms >= settings.offsets_retention_ms
