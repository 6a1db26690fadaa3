"""OB01: the table of metrics keeps the rules of both formats."""

import re

import pytest

from siltstone.server.admin.exposition import MetricType
from siltstone.server.admin.families import FAMILIES

UNITS = {"bytes", "seconds", "ratio", "records"}
ENDLESS = {"client", "client_id", "user", "host", "member", "text", "message"}


@pytest.mark.parametrize("name", FAMILIES)
def test_ob01_each_metric_keeps_the_rules(name: str):
    family = FAMILIES[name]
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert not name.endswith(("_total", "_info", "_bucket", "_count", "_sum"))
    assert family.help.endswith(".") and "\n" not in family.help and len(family.help.split()) > 2
    assert family.unit == (name.rpartition("_")[2] if name.rpartition("_")[2] in UNITS else "")
    assert not ENDLESS & set(family.labels) and "le" not in family.labels
    if family.type is MetricType.HISTOGRAM:
        assert family.unit == "seconds"


def test_no_two_metrics_are_called_the_same():
    names = [family.sample_name for family in FAMILIES.values()]
    assert len(names) == len(set(names)) >= 70
