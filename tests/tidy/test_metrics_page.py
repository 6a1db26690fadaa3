"""OB01 and OB02: docs/metrics.md has every metric, and the dashboard and the alert rules name no other."""

import json
import re
from pathlib import Path

import pytest

from siltstone.server.admin.exposition import MetricType
from siltstone.server.admin.families import FAMILIES
from support.pages.metrics_table import PAGE, ROOT, SECTIONS, written

TEXT = PAGE.read_text()
DASHBOARD = json.loads((ROOT / "dashboards" / "siltstone.json").read_text())
ALERTS = (ROOT / "dashboards" / "alerts.yml").read_text()
OWN_OF_PROMETHEUS = 'up{job="siltstone"}'
"""Says whether the last scrape was answered; the job is that of the page."""

SUFFIXES = {MetricType.HISTOGRAM: ("_bucket", "_count", "_sum")}
SAMPLES = {
    family.sample_name + suffix: family
    for family in FAMILIES.values()
    for suffix in SUFFIXES.get(family.type, ("",))
}


def named(text: str) -> set[str]:
    return set(re.findall(r"\bsiltstone_[a-z_]+", text))


# -- the page ------------------------------------------------------------------------------------------------


def test_ob01_the_tables_are_those_of_the_code() -> None:
    assert written(TEXT) == TEXT, "run: python tests/support/pages/metrics_table.py"


def test_ob01_every_metric_is_on_the_page_once_and_the_page_names_no_other() -> None:
    assert [family for section in SECTIONS.values() for family in section] == list(FAMILIES.values())
    rows = re.findall(r"^\| `(siltstone_\w+)` \|", TEXT, re.MULTILINE)
    assert rows == [family.sample_name for family in FAMILIES.values()]
    assert named(TEXT) - SAMPLES.keys() <= {family.sample_name for family in FAMILIES.values()}


# -- dashboard and alert rules -------------------------------------------------------------------------------


def expressions() -> list[str]:
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def rules() -> list[tuple[str, str]]:
    """Returns the name of each alert and the rest of its text."""
    _, *parts = re.split(r"^ {6}- alert: ", ALERTS, flags=re.MULTILINE)
    return [(name, rest) for name, _, rest in (part.partition("\n") for part in parts)]


def expression_of(rule: str) -> str:
    match = re.search(r"^ {8}expr: (?:>-\n)?(.*?)^ {8}\w", rule, re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]


ALL = [*expressions(), *(expression_of(rule) for _, rule in rules())]


@pytest.mark.parametrize("expression", ALL)
def test_ob02_an_expression_names_metrics_and_labels_that_exist(expression: str) -> None:
    found = named(expression)
    assert (found or OWN_OF_PROMETHEUS in expression) and found <= SAMPLES.keys()
    labels = {label for name in found for label in SAMPLES[name].labels} | {"instance", "job", "le"}
    for group in re.findall(r"\bby \(([^)]*)\)", expression):
        assert {label.strip() for label in group.split(",")} <= labels
    for label, _ in re.findall(r"(\w+)=~?\"([^\"]*)\"", expression):
        assert label in labels


@pytest.mark.parametrize("expression", ALL)
def test_ob02_counters_are_asked_for_their_rate_and_others_are_not(expression: str) -> None:
    for name in named(expression):
        is_counter = SAMPLES[name].type in (MetricType.COUNTER, MetricType.HISTOGRAM)
        is_rated = re.search(rf"\b(?:rate|increase)\({name}\b", expression) is not None
        assert is_counter is is_rated, name
    assert expression.count("(") == expression.count(")") and expression.count("[") == expression.count("]")


@pytest.mark.parametrize(("name", "rule"), rules(), ids=[name for name, _ in rules()])
def test_ob02_an_alert_says_what_is_wrong_by_labels_that_exist(name: str, rule: str) -> None:
    assert re.fullmatch(r"Siltstone[A-Za-z]+", name)
    assert re.search(r"^ {10}severity: (?:warning|critical)$", rule, re.MULTILINE)
    (summary,) = re.findall(r'^ {10}summary: "([^"]+)"$', rule, re.MULTILINE)
    labels = {label for metric in named(expression_of(rule)) for label in SAMPLES[metric].labels}
    assert set(re.findall(r"\$labels\.(\w+)", summary)) <= labels | {"instance"}


def test_the_panels_of_the_dashboard_overlap_nowhere_and_legends_name_labels() -> None:
    panels = DASHBOARD["panels"]
    assert len(rules()) >= 10 and len(expressions()) >= 40
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells
        for target in panel.get("targets", ()):
            labels = {label for name in named(target["expr"]) for label in SAMPLES[name].labels}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels | {"instance"}
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_ob02_grafana_can_import_the_dashboard() -> None:
    """The dashboard was not opened in a Grafana here; this test checks what its import and its panels need."""
    assert DASHBOARD["uid"] and DASHBOARD["title"] and DASHBOARD["schemaVersion"] >= 36
    assert DASHBOARD.get("id") is None, "the id of one Grafana"
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert (
        variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"
    )
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert all(each["datasource"] == source for each in variables.values() if each["type"] == "query")
    for panel in DASHBOARD["panels"]:
        assert panel["title"] and isinstance(panel["id"], int)
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == source and panel["fieldConfig"]["defaults"]["unit"]
        references = [target["refId"] for target in panel["targets"]]
        assert references and len(references) == len(set(references))
        for target in panel["targets"]:
            used = set(re.findall(r"\$\{?(\w+)", target["expr"])) - {"__rate_interval", "__interval"}
            assert used <= variables.keys(), target["expr"]


def test_the_paths_of_the_page_exist() -> None:
    for path in re.findall(r"\]\(\.\./([^)]+)\)", TEXT):
        assert (Path(ROOT) / path).is_file()
