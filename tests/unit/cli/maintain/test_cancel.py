from siltstone.metadata.commands import FinishJob, StartJob
from siltstone.metadata.entities import JobState
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from support.processes.cli import assert_one_line, run


def test_a_running_job_is_ended_and_its_kind_is_free(store: NodeSettings) -> None:
    with open_store(store) as opened:
        job = opened.metadata.execute(StartJob("sso-compaction", "a driver that died", 10_000_000))
    outcome = run("maintain", "cancel", job, "--store", store.folder)
    assert outcome.status == 0
    assert "Job 0, sso-compaction, was cancelled; its driver, a driver that died" in outcome.words
    with open_store(store) as opened:
        ended = opened.metadata.image.jobs[job]
        assert ended.state is JobState.FAILED and ended.report.startswith("cancelled by hand from ")
        opened.metadata.execute(StartJob("sso-compaction", "the next", 60_000))


def test_one_that_has_ended_stays_as_it_is(store: NodeSettings) -> None:
    with open_store(store) as opened:
        job = opened.metadata.execute(StartJob("sso-compaction", "me", 60_000))
        opened.metadata.execute(FinishJob(job, True, "4 objects became 1"))
    outcome = run("maintain", "cancel", job, "--store", store.folder)
    assert outcome.status == 0
    assert outcome.words == "Job 0, sso-compaction, had already ended: 4 objects became 1"


def test_one_that_is_none(store: NodeSettings) -> None:
    assert_one_line(run("maintain", "cancel", 9, "--store", store.folder), 2, "there is no job 9")
    assert_one_line(run("maintain", "cancel", "all", "--store", store.folder), 2, "'all'")
