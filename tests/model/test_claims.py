"""All interleavings of processes that want to replay one dead node's log, with the program's decisions (FO05, FO06)."""

import pytest

from support.processes.tried import RecordTried
from tests.model.claims import Claims, Rules
from tests.model.exploring import Violation, explore


@pytest.mark.parametrize("has_lock", [False, True])
def test_fo05_fo06_the_log_is_replayed_and_nobody_fences_for_ever(has_lock: bool) -> None:
    assert explore(Claims(Rules(), has_lock=has_lock, deaths=2, fences=0).model()) > 200


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("has_lock", [False, True])
def test_larger_bounds(has_lock: bool, record_tried: RecordTried) -> None:
    record_tried("states", explore(Claims(Rules(), has_lock=has_lock, deaths=3, fences=3).model()))


LEFT_OUT: dict[str, tuple[Rules, bool, int, int]] = {
    "nobody needs the claim": (Rules(claims=False), False, 0, 0),
    "the node itself does not wait": (Rules(waits_for_failover=False), False, 0, 1),
    "the claim of a dead node stands": (Rules(a_dead_claimer_is_followed=False), False, 2, 0),
    "the claim before the lock": (Rules(locks_first=False), True, 1, 1),
}
"""Each with whether the log has a lock, how many processes die, and how many live nodes are fenced."""


@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_each_rule_that_is_left_out_is_seen(left_out: str) -> None:
    rules, has_lock, deaths, fences = LEFT_OUT[left_out]
    with pytest.raises(Violation) as found:
        explore(Claims(rules, has_lock=has_lock, deaths=deaths, fences=fences).model())
    print(f"{left_out}: {found.value}")
