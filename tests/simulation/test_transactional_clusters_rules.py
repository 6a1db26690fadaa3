"""The generator of ``test_transactional_clusters`` finds what goes wrong when a rule of the protocol is left out of the
code. The model finds it for all fourteen rules; random histories find eight of them within their twelve seeds."""

from collections.abc import Sequence

import pytest

from support.broker.left_out_rules import LEFT_OUT, without
from support.processes.tried import RecordTried
from tests.model.transaction_between_nodes import Rules
from tests.simulation.test_transactional_clusters import SEEDS, run_history

FOUND_AT_ONCE = ("prepared_is_final", "fence_raises_epoch")
FOUND = (
    "permission_is_durable", "marker_voids_permission", "marker_without_data_is_written", "repeated_marker_is_answered",
    "complete_when_all_have_answered", "loaded_markers_are_sent_again",
)  # fmt: skip


def seed_that_finds(rule: str, seeds: Sequence[int]) -> int | None:
    for seed in seeds:
        try:
            with without(rule):
                run_history(seed)
        except AssertionError:
            return seed
    return None


@pytest.mark.parametrize("rule", FOUND_AT_ONCE)
def test_tg21_a_rule_that_is_left_out_is_found_by_the_first_histories(rule: str) -> None:
    assert seed_that_finds(rule, SEEDS[:4]) is not None


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", FOUND)
def test_tg21_a_rule_that_is_left_out_is_found(rule: str, record_tried: RecordTried) -> None:
    found = seed_that_finds(rule, SEEDS)
    record_tried("histories", len(SEEDS) if found is None else SEEDS.index(found) + 1)
    assert found is not None


def test_every_rule_of_the_model_can_be_left_out_of_the_code() -> None:
    assert set(LEFT_OUT) == set(Rules._fields)
