"""All interleavings of small transactions over two nodes, and what each rule of the protocol prevents."""

import pytest

from tests.model.exploring import Violation, explore
from tests.model.transaction_between_nodes import Case, Rules, model


@pytest.mark.parametrize(("version", "faults"), [(1, 1), (2, 1)])
def test_no_transaction_is_torn_or_left_open(version: int, faults: int) -> None:
    assert explore(model(Case(version, faults))) > 1_000


@pytest.mark.parametrize("rule", Rules._fields)
def test_each_rule_is_needed(rule: str) -> None:
    rules = Rules()._replace(**{rule: False})
    with pytest.raises(Violation) as found:
        for version, faults in ((1, 0), (2, 0), (1, 1), (2, 1)):
            explore(model(Case(version, faults, rules)))
    assert found.value.steps
