"""``siltstone.maintenance.plan(store)``, with a store as ``siltstone.open_store`` gives it."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import siltstone
from siltstone.carrying.pipeline.driver import nothing_done
from siltstone.maintenance.from_python import MaintenancePlan, MaintenanceReport, StoreNotOpened
from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.store import Store
from siltstone.server.settings.node import NodeSettings
from support.engine.small_store import STREAMS, small_store


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    return small_store(tmp_path / "store")


def only_sso(store: Store) -> MaintenancePlan:
    return siltstone.maintenance.plan(store, kinds=["sso-compaction"])


def test_a_folder_instead_of_an_opened_store_is_refused_with_the_call_that_opens_it(tmp_path: Path) -> None:
    for folder in (tmp_path, str(tmp_path)):
        with pytest.raises(StoreNotOpened, match=f"with siltstone.open_store.'{tmp_path}'. as store"):
            siltstone.maintenance.plan(folder)  # type: ignore[arg-type]


def test_the_public_names_are_listed_before_their_first_use() -> None:
    assert set(siltstone.__all__) <= set(dir(siltstone))
    assert "scanning" not in dir(siltstone), "packages of the inside are not"


def test_a_plan_reads_as_a_table_and_runs(settings: NodeSettings) -> None:
    with siltstone.open_store(settings.folder, {"compaction.split_size_bytes": "5KiB"}) as store:
        plan = only_sso(store)
        assert plan and len(plan) == 1
        assert "sso-compaction  objects" in repr(plan) and f"→ {STREAMS}" in repr(plan)
        assert "<td" in plan._repr_html_()
        assert not store.metadata.image.jobs, "nothing was written"
        report = plan.run()
        assert report.is_well and report.runs[0].done
        assert "sso-compaction  objects  done" in repr(report) and "<td" in report._repr_html_()
        again = only_sso(store)
        assert not again and repr(again) == "Nothing to do."
        assert repr(again.run()) == "Nothing to do."


def test_a_report_of_runs_that_left_all_units_says_how_many() -> None:
    left = nothing_done("tidy", InvalidRequest(""), 0.0)
    report = MaintenanceReport((msgspec.structs.replace(left, trouble="", postponed=("a", "b")),))
    assert repr(report) == "Nothing was done; 2 units postponed: siltstone maintain status"
    assert report._repr_html_() == f"<p>{report!r}</p>"


def test_without_names_all_kinds_are_planned(settings: NodeSettings) -> None:
    with siltstone.open_store(settings) as store:
        kinds = [each.kind for each in siltstone.maintenance.plan(store).kinds]
    assert kinds[0] == "sweep" and "sso-compaction" in kinds


def test_a_kind_that_is_none_is_refused(settings: NodeSettings) -> None:
    with (
        siltstone.open_store(settings) as store,
        pytest.raises(InvalidRequest, match="there is no kind named dust"),
    ):
        siltstone.maintenance.plan(store, kinds=["dust"])


def test_a_topic_that_is_none_is_refused_and_a_text_is_one_name(settings: NodeSettings) -> None:
    with siltstone.open_store(settings) as store:
        with pytest.raises(InvalidRequest, match="there is no topic flights"):
            siltstone.maintenance.plan(store, topics="flights")
        assert [each.kind for each in siltstone.maintenance.plan(store, kinds="sweep").kinds] == ["sweep"]


def test_a_spark_that_cannot_run_tasks_is_told_in_the_report(settings: NodeSettings) -> None:
    with siltstone.open_store(settings) as store:
        report = only_sso(store).run(spark=object())
    assert not report.is_well and "has no context" in report.runs[0].trouble


def test_tasks_on_executors_do_not_load_it() -> None:
    program = (
        "import sys, siltstone, siltstone.maintenance\n"
        "import siltstone.maintenance.stream_set_compaction.task_input\n"
        "print(any(name.startswith(('siltstone.server', 'siltstone.maintenance.kinds')) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
