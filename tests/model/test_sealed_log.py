"""All interleavings of a life that writes a log into a bucket and of processes that take it over (T22).

Each rule that is left out is seen: the shortest way to the loss is in the failure that the test expects.
"""

from collections.abc import Callable

import pytest

from siltstone.stream_engine.wal.runs import LifeRun, run_of_life
from support.processes.tried import RecordTried
from tests.model.exploring import Violation, explore
from tests.model.sealed_log import Rules, model


@pytest.mark.parametrize(
    ("bulks", "takers", "repeats"),
    [
        (2, 1, 1),
        (1, 2, 1),
    ],
)
def test_t22_nothing_that_was_answered_is_lost_and_nobody_is_stuck(
    bulks: int, takers: int, repeats: int
) -> None:
    assert explore(model(bulks, takers, repeats, Rules())) > 1_000


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("bulks", "takers", "repeats"), [(3, 1, 0), (2, 2, 0), (2, 2, 1), (3, 1, 1), (1, 3, 1)]
)
def test_larger_bounds(bulks: int, takers: int, repeats: int, record_tried: RecordTried) -> None:
    record_tried("states", explore(model(bulks, takers, repeats, Rules())))


def from_the_lowest(node_epoch: int, listed: frozenset[int], kept_seq: int) -> LifeRun:
    return run_of_life(node_epoch, listed, min(listed))


def like_an_open_life(node_epoch: int, listed: frozenset[int], kept_seq: int, seal_seq: int) -> LifeRun:
    return run_of_life(node_epoch, listed, kept_seq)


LEFT_OUT: dict[str, tuple[Rules, tuple[int, int, int]]] = {
    "run_of_life: read from the lowest seq": (Rules(run_of_life=from_the_lowest), (2, 1, 0)),
    "sealed_run: gaps of a sealed life end it": (Rules(sealed_run=like_an_open_life), (2, 2, 0)),
    "_seal_of: a sealed life is sealed again": (Rules(looks_for_seals=False), (2, 2, 0)),
    "deletable: deleted when it is committed": (Rules(first_deletable_by_answered_kept=False), (2, 1, 0)),
    "_answer: in the order of landing": (Rules(answers_in_order=False), (2, 1, 0)),
    "_claim_first: no claim before the stream is opened": (Rules(claims_first=False), (1, 1, 0)),
    "seal: no seal": (Rules(seals=False), (1, 1, 0)),
    "_put_seal: the seal replaces what is there": (Rules(seal_replaces_nothing=False), (1, 1, 0)),
    "others: the seal is deleted with what it guards": (Rules(seal_stays=False), (1, 1, 0)),
    "fence: listed before the epoch is raised": (Rules(registers_first=False), (2, 1, 0)),
}


@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_each_rule_that_is_left_out_is_seen(left_out: str) -> None:
    rules, bounds = LEFT_OUT[left_out]
    with pytest.raises(Violation) as found:
        explore(model(*bounds, rules))
    print(f"{left_out}: {found.value}")
    assert len(found.value.steps) > 3


def test_a_violation_says_the_way_to_it() -> None:
    def way(rules: Rules) -> Callable[[], int]:
        return lambda: explore(model(1, 1, 0, rules))

    with pytest.raises(Violation, match=r"bulks \[1\] were answered and are lost") as found:
        way(Rules(seals=False))()
    assert found.value.steps[0] == "the writer puts 0"
    assert any("is answered" in step for step in found.value.steps)
