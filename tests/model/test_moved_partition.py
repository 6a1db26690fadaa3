"""All interleavings of a small move, and what each of its rules prevents."""

import pytest

from tests.model.exploring import Violation, explore
from tests.model.moved_partition import Rules, model


def test_nothing_that_was_answered_is_behind_the_end_of_a_closed_stream() -> None:
    assert explore(model(records=3, versions=7, rules=Rules())) > 1_000


@pytest.mark.parametrize(
    ("rule", "violation"),
    [
        ("appends_compare", "stream was closed behind"),
        ("ends_are_checked", "stream was closed behind"),
        ("held_before_the_ends_are_read", "stream was closed behind"),
        ("repeated_until_answered", "stream was closed behind"),
        ("held_until_answered", "stream was closed behind"),
        ("closed_streams_are_forgotten", "stream was closed behind"),
        ("a_new_life_registers_first", "stream was closed behind"),
    ],
)
def test_each_rule_is_needed(rule: str, violation: str) -> None:
    with pytest.raises(Violation, match=violation) as found:
        explore(model(records=2, versions=6, rules=Rules()._replace(**{rule: False})))
    assert found.value.steps
