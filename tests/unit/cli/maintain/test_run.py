"""``siltstone maintain run`` with the in-process runner; on Spark in tests/spark."""

import os
import signal
from functools import partial

import pytest

from siltstone.carrying.pipeline.watch import Watch
from siltstone.cli import interruption, runner_options
from siltstone.cli.deadline import counted_signals
from siltstone.metadata.commands import StartJob
from siltstone.model.errors import Unavailable
from siltstone.offline.kind_rows import KIND_NAMES
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from siltstone.spark.java import JavaNotFound
from support.engine.small_store import STREAMS, object_files
from support.maintenance.fake_kind import FakeKind, nothing
from support.processes.cli import assert_one_line, run

HERE = ("--runner", "in-process")


def maintained(store: NodeSettings, *arguments: object):
    return run("maintain", "run", *HERE, *arguments, "--store", store.folder)


def test_everything_is_done_in_order_and_reported(store: NodeSettings) -> None:
    outcome = maintained(store)
    assert outcome.status == 0, outcome
    kinds = [line.partition(":")[0] for line in outcome.out.splitlines() if not line.startswith(" ")]
    assert list(dict.fromkeys(kinds)) == list(KIND_NAMES)
    assert "sweep: nothing to do" in outcome.out and "1 of 1 done" in outcome.out
    assert run("check", "--store", store.folder).status == 0
    assert "done" not in maintained(store).out


def test_who_asks_for_everything_is_not_sent_on_when_there_is_nothing(store: NodeSettings) -> None:
    maintained(store)
    assert "explain" not in maintained(store).err


def test_one_kind_alone(store: NodeSettings) -> None:
    before = len(object_files(store.folder))
    arguments = ("--kind", "sso-compaction", "--set", "compaction.split_size_bytes=5KiB")
    outcome = maintained(store, *arguments)
    assert f"  objects: done: {before} objects became {STREAMS}, " in outcome.out
    again = maintained(store, *arguments)
    assert again.out == "sso-compaction: nothing to do\n"
    assert "siltstone maintain explain shows why" in again.err


def test_as_json(store: NodeSettings) -> None:
    reports = maintained(store, "--json", "--kind", "sso-compaction").json
    assert [each["kind"] for each in reports] == ["sso-compaction"]
    (unit,) = reports[0]["units"]
    assert (unit["outcome"], reports[0]["is_well"], reports[0]["job_id"]) == ("done", True, 0)
    assert unit["bytes_read"] > 0 and unit["bytes_written"] > 0


def test_the_report_as_json_has_the_facts_of_a_compaction(store: NodeSettings) -> None:
    before = len(object_files(store.folder))
    arguments = ("--json", "--kind", "sso-compaction", "--set", "compaction.split_size_bytes=5KiB")
    (report,) = maintained(store, *arguments).json
    (unit,) = report["units"]
    assert (unit["objects_before"], unit["objects_after"]) == (before, STREAMS)
    assert unit["bytes_read"] > 0 and unit["peak_memory_bytes"] > 0 and report["seconds"] > 0
    detail = unit["detail"]
    assert set(detail) == {"tasks", "index entries", "read requests", "write requests"}
    assert (detail["tasks"], detail["write requests"]) == ("1", str(STREAMS))
    assert int(detail["read requests"]) > 0
    entries_before, entries_after = map(int, detail["index entries"].split(" → "))
    assert entries_before > entries_after >= STREAMS
    assert len(run("check", "--store", store.folder, "--json").json["findings"]) == before, "await deletion"
    (again,) = maintained(store, *arguments).json
    assert (again["units"], again["job_id"], again["is_well"]) == ([], None, True)


def test_a_dry_run_is_the_plan(store: NodeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_options, "find_spec", lambda _: None)
    dry = run("maintain", "run", "--dry-run", "--store", store.folder)
    assert dry.status == 0 and dry.out == run("maintain", "plan", "--store", store.folder).out


def test_what_fails_is_told_and_is_the_exit_status(store: NodeSettings, tidy: FakeKind) -> None:
    tidy.units = {"bad": lambda _: "object 3 is damaged", "good": nothing}
    outcome = maintained(store)
    assert outcome.status == 1 and outcome.err == ""
    assert "  bad: failed: object 3 is damaged\n  good: done: it was tidied" in outcome.out
    again = maintained(store)
    assert again.status == 0 and "1 postponed" in again.out
    chosen = maintained(store, "--kind", "key-compaction")
    assert "1 postponed" in chosen.out and "explain" not in chosen.err, "why is told already"
    assert maintained(store, "--force").status == 1


def test_a_damaged_source_is_named_and_the_old_data_stay(store: NodeSettings) -> None:
    file = object_files(store.folder)[0]
    raw = bytearray(file.read_bytes())
    raw[100] ^= 1
    file.write_bytes(raw)
    before = run("check", "--store", store.folder, "--json").json["objects_checked"]
    outcome = maintained(store, "--json", "--kind", "sso-compaction")
    assert outcome.status == 1
    (unit,) = outcome.json[0]["units"]
    assert (unit["name"], unit["outcome"]) == ("object 0", "failed") and "DamagedBlock" in unit["text"]
    assert run("check", "--store", store.folder, "--json").json["objects_checked"] == before
    status = run("maintain", "status", "--json", "--store", store.folder).json
    assert [each["name"] for each in status["set_aside"]] == ["object 0"]
    (job,) = status["jobs"]
    assert "0 of 1 done; 1 failed" in job["report"]


def test_the_budget(store: NodeSettings, tidy: FakeKind) -> None:
    tidy.units = dict.fromkeys(["one", "two", "three"], nothing)
    assert maintained(store, "--max-bytes", "200B").status == 0
    assert tidy.done == ["one", "two"]


def test_the_time(store: NodeSettings, tidy: FakeKind) -> None:
    tidy.units = {"one": nothing, "two": lambda watch: None if not watch.is_over else "too late"}
    assert maintained(store, "--max-seconds", "10min").status == 0
    assert tidy.done == ["one", "two"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal_it_says_what_stands(store: NodeSettings, tidy: FakeKind, number: int) -> None:
    tidy.units = {"one": lambda _: os.kill(os.getpid(), number), "two": nothing}
    before = signal.getsignal(signal.SIGINT)
    outcome = maintained(store)
    assert outcome.status == 130
    assert tidy.done == ["one"] and "  one: done" in outcome.out
    assert "units listed as done are committed and stay; not done: two" in outcome.out
    assert "stopping: uncommitted work is discarded" in outcome.err
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_ends_it_at_once(
    store: NodeSettings, tidy: FakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruption, "counted_signals", partial(counted_signals, one_signal_ms_max=0))

    def impatient(_watch: Watch) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    tidy.units = {"one": impatient}
    outcome = maintained(store)
    assert outcome.status == 130 and outcome.out == "" and "interrupted" in outcome.err


def test_a_signal_that_is_sent_twice_at_once_is_one(store: NodeSettings, tidy: FakeKind) -> None:
    def stopped_by_timeout(_watch: Watch) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    tidy.units = {"one": stopped_by_timeout, "two": nothing}
    outcome = maintained(store)
    assert outcome.status == 130 and "  one: done" in outcome.out


def test_another_driver_at_work_is_told_with_a_way_out(store: NodeSettings) -> None:
    with open_store(store) as opened:
        opened.metadata.execute(StartJob("sso-compaction", "somebody else", 60_000))
    outcome = maintained(store, "--kind", "sso-compaction")
    assert outcome.status == 1
    assert "is run by somebody else" in outcome.out and "siltstone maintain cancel 0" in outcome.out
    assert run("maintain", "cancel", 0, "--store", store.folder).status == 0
    assert maintained(store, "--kind", "sso-compaction").status == 0


def test_spark_is_not_started_for_nothing(
    store: NodeSettings, tidy: FakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> None:
        pytest.fail("a run without tasks started Spark")

    monkeypatch.setattr(runner_options, "start_runner", started)
    monkeypatch.setattr(runner_options, "check_runner", lambda name: None)
    assert run("maintain", "run", "--store", store.folder).status == 0


def test_a_spark_that_does_not_start_is_no_units_fault(
    store: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise Unavailable("spark://nowhere:7077 does not answer")

    monkeypatch.setattr(runner_options, "start_runner", failing)
    monkeypatch.setattr(runner_options, "check_runner", lambda name: None)
    outcome = run("maintain", "run", "--kind", "sso-compaction", "--store", store.folder)
    assert outcome.status == 1 and "spark://nowhere:7077 does not answer" in outcome.out
    status = run("maintain", "status", "--json", "--store", store.folder).json
    assert status["set_aside"] == [] and status["jobs"][0]["state"] == "FAILED"


def test_t35_without_pyspark_the_extra_is_named(store: NodeSettings, monkeypatch) -> None:
    monkeypatch.setattr(runner_options, "find_spec", lambda _: None)
    outcome = run("maintain", "run", "--store", store.folder)
    assert_one_line(outcome, 2, "pyspark is not installed: pip install 'siltstone[spark]'")


def test_t35_without_java_it_is_said_how_to_get_one(store: NodeSettings, monkeypatch) -> None:
    def none() -> None:
        raise JavaNotFound("Spark needs Java 17 or newer: pip install 'siltstone[java]'")

    monkeypatch.setattr(runner_options, "find_java", none)
    outcome = run("maintain", "run", "--store", store.folder)
    assert_one_line(outcome, 2, "Java 17", "siltstone[java]")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--set", "compaction.split_size_bytes=big"), ("compaction.split_size_bytes", '"big"')),
        (("--set", "compaction.memory_bytes=5GiB"), ("memory_bytes", "at most")),
        (("--runner", "hadoop"), ("'hadoop'", "spark", "in-process")),
        (("--conf", "spark.x"), ("write spark.some.setting=VALUE",)),
        (("--max-bytes", "much"), ("--max-bytes much", "10GiB")),
        (("--max-seconds", "soon"), ("--max-seconds soon", "600 (seconds)")),
        (("--max-seconds", "0"), ("a time above 0",)),
        (("--up-to", "7"), ("--up-to is an offset of one topic: add --kind key-compaction and one --topic",)),
        (("--up-to", "7", "--kind", "key-compaction"), ("one --topic",)),
        (("--conf", "x=1"), ("write spark.some.setting=VALUE",)),
        (("--dry-run", "--flush"), ("--dry-run changes nothing, and --flush does: leave one of them out",)),
    ],
)
def test_wrong_options(store: NodeSettings, arguments, parts) -> None:
    assert_one_line(maintained(store, *arguments), 2, *parts)


def test_a_store_that_lost_objects_has_not_nothing_to_do(store: NodeSettings) -> None:
    lost = object_files(store.folder)
    for path in lost:
        path.unlink()
    outcome = maintained(store)
    assert outcome.status == 1
    assert f"sso-compaction: nothing was done; {len(lost)} cannot be read" in outcome.out.splitlines()
    assert f"and {len(lost) - 1} more objects cannot be read" in outcome.err
    assert "siltstone check" in outcome.err
    document = maintained(store, "--json")
    assert document.status == 1
    assert {each["kind"]: len(each["unusable"]) for each in document.json}["major-gc"] == len(lost)
    shown = run("maintain", "plan", "--store", store.folder)
    assert "cannot be read" in shown.out and "Nothing to do" not in shown.out
    explained = run("maintain", "explain", "--kind", "major-gc", "--json", "--store", store.folder)
    assert {each["now"] for each in explained.json} == {"left out"}
