"""What is to happen to a partition whose slowest group stays too far behind. Pure.

====================== =====================================================================
policy                 beyond the quota
====================== =====================================================================
producer_request_hold  produce requests wait, and are told to come again (``Verdict.HOLD``)
producer_exception     produce requests are refused (``Verdict.REFUSE``)
consumer_backlog_      every group with more than 90 % of the quota is moved forward to that;
eviction               those with less stay where they are
====================== =====================================================================

Source: Pulsar's backlog quotas (``BacklogQuota.RetentionPolicy``); R12, R13.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

from siltstone.broker.backlog.measuring import BacklogMeasure

EVICT_TO_PERCENT = 90
"""Of the quota; less than all of it, or the next batch would be one too many."""

_HOLD, _REFUSE, _EVICT = "producer_request_hold", "producer_exception", "consumer_backlog_eviction"


class Verdict(Enum):
    HOLD = "hold"
    REFUSE = "refuse"


class Backlog(msgspec.Struct, frozen=True):
    """Of the slowest group of a partition."""

    group: str
    size_bytes: int
    quota_bytes: int

    @property
    def is_beyond(self) -> bool:
        return self.size_bytes > self.quota_bytes


def backlog_of(measure: BacklogMeasure, offsets: Mapping[str, int], quota_bytes: int) -> Backlog:
    """``offsets`` of the groups that are waited for: at least one."""
    group = min(offsets, key=lambda name: (offsets[name], name))
    return Backlog(group, measure.bytes_from(offsets[group]), quota_bytes)


def verdict_on(backlog: Backlog, policy: str) -> Verdict | None:
    if not backlog.is_beyond:
        return None
    return {_HOLD: Verdict.HOLD, _REFUSE: Verdict.REFUSE}.get(policy)


def evictions(
    measure: BacklogMeasure, offsets: Mapping[str, int], backlog: Backlog, policy: str
) -> dict[str, int]:
    """Where groups are to be moved."""
    if policy != _EVICT or not backlog.is_beyond:
        return {}
    target_bytes = backlog.quota_bytes * EVICT_TO_PERCENT // 100
    target = measure.first_offset_within(target_bytes, offsets[backlog.group])
    return {group: target for group, offset in offsets.items() if offset < target}
