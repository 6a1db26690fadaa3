from siltstone.maintenance.pipeline.kind import PlannedUnit
from siltstone.maintenance.pipeline.set_aside import put_aside
from siltstone.metadata.commands import FinishJob, StartJob
from siltstone.server.components import open_store
from siltstone.server.settings.store import StoreSettings
from support.processes.cli import run


def some_history(store: StoreSettings) -> None:
    with open_store(store) as opened:
        execute = opened.metadata.execute
        execute(
            FinishJob(
                execute(StartJob("sso-compaction", "host process 1", 60_000)), True, "4 objects became 1"
            )
        )
        execute(
            FinishJob(
                execute(StartJob("minor-gc", "host process 1", 60_000)), False, "DamagedBlock: object 3"
            )
        )
        execute(StartJob("major-gc", "host process 2", 60_000, "12 units, 3.0 GiB to read"))
        execute(StartJob("so-compaction", "host process 3", 1, "2 units"))
        put_aside(
            opened.context, "minor-gc", PlannedUnit(name="object 3", reason=""), "block at 0 is damaged"
        )


def test_a_store_at_rest(store: StoreSettings) -> None:
    words = run("maintain", "status", "--store", store.folder).words
    for part in (
        "No job is running.",
        "No job has run yet.",
        "No unit is set aside.",
        "sso-compaction never",
    ):
        assert part in words
    assert "the disk of" in words and " free; " in words


def test_what_runs_what_ran_and_what_is_set_aside(store: StoreSettings) -> None:
    some_history(store)
    words = run("maintain", "status", "--store", store.folder).words
    assert "2 major-gc" in words and "left host process 2 12 units, 3.0 GiB to read" in words
    assert "expired: its driver is gone host process 3" in words
    assert "done 4 objects became 1" in words and "failed DamagedBlock: object 3" in words
    assert "minor-gc object 3 1" in words and "block at 0 is damaged" in words


def test_as_json(store: StoreSettings) -> None:
    some_history(store)
    run("maintain", "run", "--kind", "sweep", "--runner", "in-process", "--store", store.folder)
    document = run("maintain", "status", "--json", "--store", store.folder).json
    assert [(each["kind"], each["state"]) for each in document["jobs"]] == [
        ("so-compaction", "RUNNING"),
        ("major-gc", "RUNNING"),
        ("minor-gc", "FAILED"),
        ("sso-compaction", "SUCCEEDED"),
    ]
    assert document["jobs"][1]["lease_left_ms"] > 0 > document["jobs"][0]["lease_left_ms"]
    (aside,) = document["set_aside"]
    assert (aside["name"], aside["failures"]) == ("object 3", 1) and aside["retry_at_ms"] > document["now_ms"]
    assert [each["kind"] for each in document["last_runs"]] == ["sweep"]
    assert all(space["pressure"] in ("none", "warn", "full") for space in document["spaces"])
