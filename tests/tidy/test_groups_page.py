"""docs/groups.md is what the table of group states says."""

import pytest

from siltstone.broker.groups.rules.states import TABLE, GroupEvent, GroupState
from siltstone.server.settings.node import SETTINGS
from support.groups.group_diagram import PAGE, diagram, table, written

TEXT = PAGE.read_text()


def test_diagram_and_table_are_those_of_the_code() -> None:
    assert written(TEXT) == TEXT, "run: python tests/support/groups/group_diagram.py"


@pytest.mark.parametrize("state", GroupState)
def test_every_state_is_explained_and_reached(state: GroupState) -> None:
    assert f"*{state.value}*:" in TEXT
    assert f"--> {state.value}" in diagram()


def test_every_event_has_a_row_with_a_cell_for_each_state() -> None:
    rows = table().splitlines()[2:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [event.value for event in GroupEvent]
    assert set(TABLE) == set(GroupEvent)
    assert {row.count("|") for row in rows} == {6}


def test_every_arrow_is_a_rule() -> None:
    """Counted the other way round than the diagram is drawn."""
    told = sum(line.count("<br/>") + 1 for line in diagram().splitlines() if " --> " in line and ":" in line)
    assert told == sum(rule.to is not state for rules in TABLE.values() for state, rule in rules.items())


def test_the_setting_named_exists() -> None:
    assert "groups.group_initial_rebalance_delay_ms" in SETTINGS
