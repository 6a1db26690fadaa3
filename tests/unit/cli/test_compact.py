"""``siltstone compact`` with the in-process runner; Spark itself is tested in tests/spark and by make demo."""

import pytest

from siltstone.cli.compacting import runners
from siltstone.metadata.commands import StartJob
from siltstone.metadata.entities import JobState
from siltstone.server.components import open_store
from siltstone.server.settings import StoreSettings
from siltstone.spark.java import JavaNotFound
from support.cli import assert_one_line, run
from support.small_store import STREAMS, object_files

HERE = ("--runner", "in-process", "--split-size", "5KiB")


def objects(store: StoreSettings) -> int:
    return run("check", "--store", store.folder, "--json").json["objects_checked"]


def test_a_dry_run_shows_the_plan_with_its_reasons_and_changes_nothing(store: StoreSettings) -> None:
    before = objects(store)
    outcome = run("compact", "--dry-run", "--split-size", "5KiB", "--store", store.folder)
    assert outcome.status == 0
    rows = [line for line in outcome.out.splitlines() if line.startswith("SO ")]
    assert len(rows) == STREAMS
    assert all("bytes of one stream, more than 5,120" in row for row in rows)
    assert f"replaces {before} stream set objects by {STREAMS} objects" in outcome.words
    assert "in 1 task of at most 500.0 MiB" in outcome.words
    assert (
        outcome.words.count(
            "SSO: stream set object, blocks of many streams; SO: stream object, of one stream"
        )
        == 1
    )
    assert objects(store) == before
    with open_store(store) as opened:
        assert not opened.metadata.image.jobs


def test_a_dry_run_starts_no_spark_and_needs_none(store: StoreSettings, monkeypatch) -> None:
    monkeypatch.setattr(runners, "find_spec", lambda _: None)
    assert run("compact", "--dry-run", "--store", store.folder).status == 0


def test_the_plan_as_json(store: StoreSettings) -> None:
    document = run("compact", "--dry-run", "--json", "--split-size", "5KiB", "--store", store.folder).json
    assert set(document) == {"plan"}
    plan = document["plan"]
    assert len(plan["compacted"]) == objects(store)
    assert [row["kind"] for row in plan["outputs"]] == ["SO"] * STREAMS
    assert sum(row["size_bytes"] for row in plan["outputs"]) == plan["live_bytes"]


def test_compaction_reports_what_it_did_and_the_store_is_whole(store: StoreSettings) -> None:
    before = objects(store)
    outcome = run("compact", *HERE, "--store", store.folder)
    assert outcome.status == 0
    assert f"objects {before} {STREAMS}" in outcome.words
    for part in ("index entries", "read", "written", "took", "1 task", "peak memory"):
        assert part in outcome.words
    assert run("check", "--store", store.folder).status == 0
    assert objects(store) == STREAMS
    again = run("compact", *HERE, "--store", store.folder)
    assert (again.status, again.out) == (
        0,
        f"Nothing to compact: no stream set object, {STREAMS} stream objects.\n",
    )


def test_the_report_as_json(store: StoreSettings) -> None:
    before = objects(store)
    outcome = run("compact", *HERE, "--json", "--store", store.folder)
    report = outcome.json["report"]
    assert report["committed"] is True
    assert (report["objects_before"], report["objects_after"]) == (before, STREAMS)
    assert report["bytes_read"] > 0 and report["read_requests"] > 0 and report["peak_memory_bytes"] > 0
    again = run("compact", *HERE, "--json", "--store", store.folder).json
    assert again["report"]["committed"] is False and again["plan"]["outputs"] == []


def test_what_was_replaced_is_swept_when_its_grace_period_is_over(store: StoreSettings) -> None:
    before = objects(store)
    run("compact", *HERE, "--store", store.folder)
    first = run("maintain", "sweep", "--store", store.folder)
    assert f"still waiting {before} destroyed objects" in first.words
    assert len(object_files(store.folder)) == before + STREAMS
    second = run("maintain", "sweep", "--store", store.folder, "--grace-period", "0").words
    assert f"deleted {before} objects" in second
    assert len(object_files(store.folder)) == STREAMS


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--split-size", "big"), ("compaction.split_size_bytes", '"big"')),
        (("--memory", "5GiB"), ("memory_bytes", "at most")),
        (("--runner", "hadoop"), ("'hadoop'", "spark", "in-process")),
        (("--conf", "x=1"), ("write spark.some.setting=VALUE",)),
        (("--conf", "spark.x"), ("write spark.some.setting=VALUE",)),
    ],
)
def test_t35_wrong_options(store: StoreSettings, arguments, parts) -> None:
    assert_one_line(run("compact", *arguments, "--store", store.folder), 2, *parts)


def test_t35_without_pyspark_the_extra_is_named(store: StoreSettings, monkeypatch) -> None:
    monkeypatch.setattr(runners, "find_spec", lambda _: None)
    outcome = run("compact", "--store", store.folder)
    assert_one_line(outcome, 2, "pyspark is not installed: pip install 'siltstone[spark]'")


def test_t35_without_java_it_is_said_how_to_get_one(store: StoreSettings, monkeypatch) -> None:
    def none() -> None:
        raise JavaNotFound("Spark needs Java 17 or newer: pip install 'siltstone[java]'")

    monkeypatch.setattr(runners, "find_java", none)
    assert_one_line(run("compact", "--store", store.folder), 2, "Java 17", "siltstone[java]")


def test_a_damaged_source_fails_the_round_and_the_old_data_stays(store: StoreSettings) -> None:
    file = object_files(store.folder)[0]
    raw = bytearray(file.read_bytes())
    raw[100] ^= 1
    file.write_bytes(raw)
    before = objects(store)
    outcome = run("compact", *HERE, "--json", "--store", store.folder)
    assert_one_line(outcome, 1, "DamagedBlock", "object 0")
    assert objects(store) == before
    with open_store(store) as opened:
        assert [job.state for job in opened.metadata.image.jobs.values()] == [JobState.FAILED]


def test_another_driver_at_work_is_an_operational_failure(store: StoreSettings) -> None:
    with open_store(store) as opened:
        opened.metadata.execute(StartJob("sso-compaction", "somebody else", 60_000))
    assert_one_line(run("compact", *HERE, "--json", "--store", store.folder), 1, "sso-compaction")
