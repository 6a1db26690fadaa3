"""The generator of ``test_transactional_clusters`` finds what goes wrong when a rule of the protocol is left out of the
code, as the model does: fourteen of fifteen within four histories. That an older coordinator is refused needs three
living nodes, two of which cannot read the metadata: a fifth of the histories draws that, and a fifth of the others a
number that comes late."""

from collections.abc import Sequence

import pytest

from support.broker.left_out_rules import LEFT_OUT, without
from support.processes.tried import RecordTried
from tests.model.transaction_between_nodes import Rules
from tests.simulation.test_transactional_clusters import SEEDS, run_history

FOUND_AT_ONCE = ("prepared_is_final", "permission_is_durable")
FOUND = (
    "fence_raises_epoch", "marker_voids_permission", "marker_without_data_is_written", "repeated_marker_is_answered",
    "complete_when_all_have_answered", "loaded_markers_are_sent_again", "visible_when_durable",
    "marker_names_its_transaction", "markers_leave_when_prepared_is_durable", "prepared_is_before_markers",
    "unknown_number_is_asked_for", "older_coordinator_is_refused", "late_number_is_void",
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
