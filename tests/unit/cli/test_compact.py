"""``siltstone compact``: another name of ``siltstone maintain run --kind sso-compaction``, which is tested there."""

import pytest

from siltstone.cli import runner_options
from siltstone.metadata.commands import StartJob
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from support.engine.small_store import STREAMS, object_files
from support.processes.cli import Outcome, assert_one_line, run

HERE = ("--runner", "in-process")
SPLIT = ("--set", "compaction.split_size_bytes=5KiB")
ONLY_SSO = ("--kind", "sso-compaction")
NEW_NAME = "siltstone compact is now: siltstone maintain run --kind sso-compaction"


def compacted(store: NodeSettings, *arguments: object) -> Outcome:
    """It says each time what the command is called now, on stderr, so that results stay as they are."""
    outcome = run("compact", *arguments, "--store", store.folder)
    assert NEW_NAME in outcome.err and NEW_NAME not in outcome.out
    return outcome


def test_nobody_is_led_to_it_any_more() -> None:
    assert "compact " not in run("--help").out
    help_text = " ".join(run("compact", "--help").out.split())
    assert "Use siltstone maintain run --kind sso-compaction instead." in help_text


def test_a_dry_run_is_the_plan_of_the_kind_and_changes_nothing(
    store: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_options, "find_spec", lambda _: None)  # no Spark
    before = object_files(store.folder)
    for form in ((), ("--json",)):
        dry = compacted(store, "--dry-run", *SPLIT, *form)
        plan = run("maintain", "plan", *ONLY_SSO, *SPLIT, *form, "--store", store.folder)
        assert dry.status == 0 and dry.out == plan.out and dry.out.count("bytes of one stream") == STREAMS
    assert object_files(store.folder) == before
    with open_store(store) as opened:
        assert not opened.metadata.image.jobs


def test_it_does_what_the_kind_does_and_reports_as_maintenance_does(store: NodeSettings) -> None:
    before = len(object_files(store.folder))
    outcome = compacted(store, *HERE, *SPLIT)
    assert outcome.status == 0
    assert outcome.out.startswith("sso-compaction: 1 of 1 done; ")
    assert f"\n  objects: done: {before} objects became {STREAMS}, " in outcome.out
    assert run("check", "--store", store.folder).status == 0
    again = compacted(store, *HERE, *SPLIT)
    assert (again.status, again.out) == (0, "sso-compaction: nothing to do\n")
    assert "siltstone maintain explain shows why" in again.err


def test_as_json(store: NodeSettings) -> None:
    (report,) = compacted(store, *HERE, *SPLIT, "--json").json
    (unit,) = report["units"]
    assert (report["kind"], report["is_well"], unit["outcome"]) == ("sso-compaction", True, "done")
    assert unit["objects_after"] == STREAMS


def test_what_fails_is_the_exit_status(store: NodeSettings) -> None:
    with open_store(store) as opened:
        opened.metadata.execute(StartJob("sso-compaction", "somebody else", 60_000))
    outcome = compacted(store, *HERE)
    assert outcome.status == 1 and "is run by somebody else" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--split-size", "5KiB"), ("No such option '--split-size'", "siltstone compact --help")),
        (("--memory", "1GiB"), ("No such option '--memory'",)),
        (("--runner", "hadoop"), ("'hadoop'", "spark", "in-process")),
        (("--conf", "x=1"), ("write spark.some.setting=VALUE",)),
        (("--conf", "spark.x"), ("write spark.some.setting=VALUE",)),
    ],
)
def test_t35_wrong_options(store: NodeSettings, arguments, parts) -> None:
    assert_one_line(run("compact", *arguments, "--store", store.folder), 2, *parts)


def test_t35_without_pyspark_the_extra_is_named(store: NodeSettings, monkeypatch) -> None:
    monkeypatch.setattr(runner_options, "find_spec", lambda _: None)
    outcome = compacted(store)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.splitlines()[1:] == [
        "siltstone: pyspark is not installed: pip install 'siltstone[spark]'"
    ]


def test_t35_a_store_that_does_not_exist_is_named_and_not_made(tmp_path) -> None:
    outcome = run("compact", "--dry-run", "--store", tmp_path / "none")
    assert (outcome.status, outcome.out) == (2, "")
    assert f"there is no store at {tmp_path}/none" in outcome.err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
