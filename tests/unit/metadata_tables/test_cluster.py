"""Nodes and jobs."""

from siltstone.metadata.commands import FinishJob
from support.metadata.queried_store import queried, queried_world


def test_a_node_says_where_it_is_and_what_it_leads() -> None:
    world = queried_world()
    world.register_reachable(1, rack="a")
    world.fence(0)
    assert queried(world).nodes.rows() == [
        {
            "node_id": 0, "epoch": 1, "state": "fenced", "is_draining": False, "leads": 3, "rack": None,
            "listeners": "PLAINTEXT://host-0:9092", "log_epoch": 1, "claimed_by": None,
        },
        {
            "node_id": 1, "epoch": 1, "state": "live", "is_draining": False, "leads": 0, "rack": "a",
            "listeners": "PLAINTEXT://host-1:9092", "log_epoch": 0, "claimed_by": None,
        },
    ]  # fmt: skip


def test_a_job_that_runs_has_no_end_yet_and_one_that_is_over_has() -> None:
    world = queried_world()
    (running,) = queried(world).jobs.rows()
    assert (running["state"], running["seconds"], running["finished_at"]) == ("RUNNING", 2.0, None)
    world.now_ms += 3_000
    world.do(FinishJob(0, True, "gained 7 B"))
    world.now_ms += 3_000
    (over,) = queried(world).jobs.rows()
    assert (over["kind"], over["state"], over["seconds"], over["report"]) == (
        "stream-set-compaction",
        "SUCCEEDED",
        5.0,
        "gained 7 B",
    )
    assert over["finished_at"] > over["started_at"]
