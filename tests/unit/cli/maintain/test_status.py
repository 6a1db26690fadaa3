import msgspec
import pytest
from rich.console import Console

from siltstone.carrying.pipeline.kind import PlannedUnit
from siltstone.carrying.pipeline.next_runs import runs_that_ended
from siltstone.carrying.pipeline.set_aside import LastRun, put_aside
from siltstone.cli.maintain.status import FINISHED_SHOWN_MAX, _shown
from siltstone.metadata.commands import FinishJob, PrepareObjects, StartJob
from siltstone.metadata.entities import JobMetadata, JobState
from siltstone.metadata.image import MetadataImage
from siltstone.offline.opening.store import open_store
from siltstone.offline.pressure import Space
from siltstone.server.settings.node import NodeSettings
from support.maintenance.fake_kind import FakeKind
from support.processes.cli import run


def some_history(store: NodeSettings) -> None:
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


def test_a_store_at_rest(store: NodeSettings) -> None:
    words = run("maintain", "status", "--store", store.folder).words
    for part in (
        "No job is running.",
        "No job has found work yet.",
        "No unit is set aside.",
        "sso-compaction never not known",
        "The next run of each kind is not known: no service repeats it",
        "Time makes retention delete nothing.",
    ):
        assert part in words
    assert "the disk of" in words and " free; " in words


def test_what_runs_what_ran_and_what_is_set_aside(store: NodeSettings) -> None:
    some_history(store)
    words = run("maintain", "status", "--store", store.folder).words
    assert "2 major-gc" in words and "left host process 2 12 units, 3.0 GiB to read" in words
    assert "expired: its driver is gone host process 3" in words
    assert "done 4 objects became 1" in words and "failed DamagedBlock: object 3" in words
    assert "minor-gc object 3 1" in words and "block at 0 is damaged" in words


def test_as_json(store: NodeSettings) -> None:
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
    assert [each["kind"] for each in document["last_runs"]] == ["sweep", "sso-compaction", "minor-gc"]
    due = {each["kind"]: (each["due_ms"], each["words"]) for each in document["next_runs"]}
    assert due["sweep"] == (None, "not known") and due["major-gc"] == (document["now_ms"], "runs now")
    assert document["next_deletions"] == []
    assert all(space["pressure"] in ("none", "warn", "full") for space in document["spaces"])


NOW_MS = 1_357_034_400_000


def lines_of(jobs: list[JobMetadata], *spaces: Space) -> list[str]:
    console = Console(width=160)
    image = msgspec.structs.replace(MetadataImage(), jobs={job.job_id: job for job in jobs})
    with console.capture() as capture:
        console.print(_shown(image, spaces, NOW_MS))
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def job(job_id: int, state: JobState, lease_left_ms: int = 0) -> JobMetadata:
    return JobMetadata(
        job_id, "sweep", state, "driver", "2 units", NOW_MS - 60_000, NOW_MS + lease_left_ms, NOW_MS, "all is well"
    )  # fmt: skip


def test_how_jobs_look_the_newest_first() -> None:
    jobs = [
        job(1, JobState.SUCCEEDED), job(2, JobState.RUNNING, 1), job(3, JobState.RUNNING, 0), job(4, JobState.FAILED)
    ]  # fmt: skip
    lines = lines_of(jobs)
    assert lines[0] == "Running" and lines[3:6] == [
        "3 sweep 2013-01-01 09:59:00 expired: its driver is gone driver 2 units",
        "2 sweep 2013-01-01 09:59:00 1 ms left driver 2 units",
        "",
    ]
    assert lines[6] == "Recent jobs" and lines[9:12] == [
        "4 sweep 2013-01-01 10:00:00 failed all is well",
        "1 sweep 2013-01-01 10:00:00 done all is well",
        "",
    ]


@pytest.mark.parametrize(("more", "told"), [(0, []), (1, ["… and 1 more (--json has all)"])])
def test_of_many_jobs_the_newest_are_shown_and_the_others_counted(more: int, told: list[str]) -> None:
    count = FINISHED_SHOWN_MAX + more
    lines = lines_of([job(number, JobState.SUCCEEDED) for number in range(count)])
    shown = [line.split()[0] for line in lines if line.endswith("done all is well")]
    assert shown == [str(number) for number in range(count - 1, more - 1, -1)]
    assert [line for line in lines if line.startswith("…")] == told


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (50, "the disk: 50% used, 50 B free; maintenance is not held back"),
        (90, "the disk: 90% used, 10 B free; major garbage collection waits for free space"),
        (
            95,
            "the disk: 95% used, 5 B free; compaction and garbage collection wait for free space; deletion continues",
        ),
    ],
)
def test_what_waits_for_space_is_told(used: int, words: str) -> None:
    assert lines_of([], Space("the disk", used, 100))[-1] == words


def test_a_run_that_did_work_is_shown_right_after_an_idle_one(store: NodeSettings) -> None:
    def sweep() -> str:
        run("maintain", "run", "--kind", "sweep", "--runner", "in-process", "--store", store.folder)
        return run("maintain", "status", "--store", store.folder).words

    assert "nothing to do" in sweep()
    with open_store(store) as opened:
        job_id = opened.metadata.execute(StartJob("minor-gc", "test", 60_000))
        opened.metadata.execute(PrepareObjects(2, 1, job_id=job_id))
        opened.context.clock.block_ms(2)
    words = sweep()
    assert "nothing to do" not in words and "1 of 1 done" in words


def test_a_job_all_of_whose_units_failed_is_shown_as_failed(store: NodeSettings, tidy: FakeKind) -> None:
    tidy.units = {"bad": lambda _: "damaged"}
    run("maintain", "run", "--runner", "in-process", "--store", store.folder)
    assert "failed 0 of 1 done; 1 failed" in run("maintain", "status", "--store", store.folder).words


def test_the_last_run_of_a_kind_is_a_job_that_ended_after_what_runs_have_noted() -> None:
    def job(job_id: int, kind: str, finished_ms: int, state: JobState = JobState.SUCCEEDED) -> JobMetadata:
        return JobMetadata(job_id, kind, state, "d", "", 0, 0, finished_ms, f"job {job_id}")

    noted = {
        f"last-run/{kind}": msgspec.json.encode(LastRun(kind, NOW_MS - 10_000, "noted"))
        for kind in ("retention", "sweep", "minor-gc")
    }
    jobs = [
        job(0, "retention", NOW_MS - 20_000),
        job(1, "sweep", NOW_MS - 1_000),
        job(2, "key-compaction", NOW_MS - 3_000, JobState.FAILED),
        job(3, "key-compaction", NOW_MS - 5_000),
        job(4, "minor-gc", 0, JobState.RUNNING),
    ]
    image = msgspec.structs.replace(MetadataImage(), jobs={each.job_id: each for each in jobs}, keys=noted)
    assert {kind: (ran.ended_ms - NOW_MS, ran.report) for kind, ran in runs_that_ended(image).items()} == {
        "retention": (-10_000, "noted"), "sweep": (-1_000, "job 1"), "key-compaction": (-3_000, "job 2"),
        "minor-gc": (-10_000, "noted"),
    }  # fmt: skip
