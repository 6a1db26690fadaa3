import pytest

from siltstone.broker.backlog.quota_rules import (
    Backlog,
    BacklogMeasure,
    Verdict,
    backlog_of,
    evictions,
    verdict_on,
)
from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.model.limits import MIB
from siltstone.model.objects import ObjectRange

HOLD, REFUSE, EVICT = "producer_request_hold", "producer_exception", "consumer_backlog_eviction"
STREAM = StreamMetadata(
    1, StreamState.OPENED, 0, 1, 0, 200, (), (ObjectRange(1, 1, 0, 200, 200 * MIB, 0),), {}
)
MEASURE = BacklogMeasure(STREAM, 200, lambda _: None)
"""One MiB a record."""


def test_the_slowest_group_has_the_backlog():
    assert backlog_of(MEASURE, {"a": 150, "b": 70, "c": 199}, 5) == Backlog("b", 130 * MIB, 5)


def test_of_two_equally_slow_the_first_by_name_is_named():
    assert backlog_of(MEASURE, {"b": 70, "a": 70}, 5).group == "a"


@pytest.mark.parametrize(
    ("policy", "verdict"), [(HOLD, Verdict.HOLD), (REFUSE, Verdict.REFUSE), (EVICT, None)]
)
def test_the_verdict_is_the_policys_and_only_beyond_the_quota(policy, verdict):
    assert verdict_on(Backlog("g", 101, 100), policy) is verdict
    assert verdict_on(Backlog("g", 100, 100), policy) is None


def test_r13_the_slowest_group_is_moved_to_nine_tenths_of_the_quota_and_others_stay():
    offsets = {"slow": 70, "quick": 190, "middling": 150}
    backlog = backlog_of(MEASURE, offsets, 100 * MIB)
    assert backlog.size_bytes == 130 * MIB
    assert evictions(MEASURE, offsets, backlog, EVICT) == {"slow": 110}
    assert MEASURE.bytes_from(110) == 90 * MIB


def test_r13_others_beyond_nine_tenths_go_along():
    offsets = {"slow": 70, "nearly as slow": 109, "just within": 110}
    backlog = backlog_of(MEASURE, offsets, 100 * MIB)
    assert evictions(MEASURE, offsets, backlog, EVICT) == {"slow": 110, "nearly as slow": 110}


@pytest.mark.parametrize("policy", [HOLD, REFUSE])
def test_nobody_is_moved_by_another_policy(policy):
    offsets = {"slow": 0}
    assert evictions(MEASURE, offsets, backlog_of(MEASURE, offsets, 0), policy) == {}


def test_nobody_is_moved_within_the_quota():
    offsets = {"slow": 0}
    assert evictions(MEASURE, offsets, backlog_of(MEASURE, offsets, 200 * MIB), EVICT) == {}
