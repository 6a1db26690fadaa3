"""``siltstone cost`` on a small store: tables, JSON, and what it refuses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from siltstone.cli.cost import _document
from siltstone.cli.main import cli
from siltstone.costing.estimate import CostEstimate, CostRow
from siltstone.costing.observed import ObservedWork
from siltstone.metadata.commands import CreateTopic, OpenPartition, RegisterNode
from siltstone.model.limits import GIB
from siltstone.offline.opening.store import open_store
from support.engine.small_store import small_store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cost") / "store"
    with open_store(small_store(place)) as store:
        epoch = store.metadata.execute(RegisterNode(0, "ab" * 16, "/wal")).node_epoch
        store.metadata.execute(CreateTopic(0, epoch, "flights", "f" * 32, 1))
        store.metadata.execute(OpenPartition(0, epoch, "f" * 32, 0))
    return place


def run(folder: Path, *arguments: str) -> str:
    done = CliRunner().invoke(cli, ["cost", "--store", str(folder), *arguments])
    return done.output if done.exit_code == 0 else f"{done.exit_code}: {done.output}"


def test_requests_of_a_young_store_are_null_and_a_dash(folder: Path) -> None:
    found = json.loads(run(folder, "--json"))
    assert found["total"] is None and {each["requests"] for each in found["topics"]} == {None}
    assert {each["total"] for each in found["topics"]} == {None}
    assert 0 <= found["counted_seconds"] == found["window_ms"] // 1000 < 3_600
    shown = run(folder)
    assert "–" in shown and "Requests: too young to say (counted for " in shown


def test_the_totals_add_up_once_requests_are_known() -> None:
    rows = [CostRow("flights", 7, 1.0, 2.0, 4.0), CostRow(None, 1, 8.0, 16.0, 32.0)]
    work = ObservedWork(0, 3_600_000, {}, {}, {}, 0.0, {}, 0, 0, is_whole=True)
    found = _document(CostEstimate(tuple(rows), work, 0.0, 0.0, ()), rows, [])
    assert (found["total"], found["counted_seconds"]) == (63, 3_600)
    assert [each["total"] for each in found["topics"]] == [7, 56]  # type: ignore[attr-defined]


def test_storage_and_brokers_add_up(folder: Path) -> None:
    found = json.loads(run(folder, "--json", "--set", f"admin.prices.storage_per_gib={GIB}", "--cores", "3"))
    stored = sum(path.stat().st_size for path in (folder / "bucket").glob("*/objects/*"))
    assert sum(each["storage"] for each in found["topics"]) == pytest.approx(stored)
    assert sum(each["compute"] for each in found["topics"]) == pytest.approx(3 * 720 * 0.05)
    assert any(f"a GiB costs {GIB:g}" in each for each in found["assumptions"])


def test_tables_and_assumptions_are_shown(folder: Path) -> None:
    shown = run(folder, "--retention", "7d")
    assert "(no topic)" in shown and "a month less" in shown and "flights" in shown
    assert "Assumed: a month has 30 days" in shown and "Maintenance has freed" in shown


def test_one_topic_is_shown_alone_and_an_unknown_one_is_refused(folder: Path) -> None:
    found = json.loads(run(folder, "flights", "--json", "--retention", "12h"))
    assert {each["topic"] for each in found["topics"]} <= {"flights"}
    assert [each["topic"] for each in found["retention"]] == ["flights"]
    assert "there is no topic flihts: did you mean flights?" in run(folder, "flihts")
    assert "write a time such as 12h or 7d" in run(folder, "--retention", "soon")
