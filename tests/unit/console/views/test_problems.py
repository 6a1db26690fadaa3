import msgspec

from siltstone.carrying.pipeline.set_aside import SetAside
from siltstone.console.views.cluster import node_views
from siltstone.console.views.problems import problems
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import JobMetadata, JobState, NodeMetadata, StreamState
from siltstone.offline.pressure import Space
from support.console.images import ImageBuilder


def everybody(_: str) -> bool:
    return True


def node(node_id: int, *, is_fenced: bool = False) -> NodeMetadata:
    return NodeMetadata(node_id, 1, "life", False, "file:///log", is_fenced=is_fenced)


def titles(image: object, now_ms: int = 0, **more: object) -> list[str]:
    return [each.title for each in problems(image, now_ms, more.pop("sees", everybody), **more)]  # type: ignore[arg-type]


def test_a_store_without_trouble_has_no_problem():
    assert titles(ImageBuilder().topic("a", (1, 0, 10, 100)).image()) == []


def test_a_silent_node_is_a_problem_when_its_log_may_have_records_that_nobody_else_has():
    nodes = ShardedMap([(1, node(1, is_fenced=True))])
    leads = ShardedMap([(1, 1)])
    opened = (
        ImageBuilder().topic("a", state=StreamState.OPENED, owner=1).image(nodes=nodes, leader_counts=leads)
    )
    assert titles(opened) == ["Node 1 is silent and leads 1 partition"]
    stopped = ImageBuilder().topic("a", owner=1).image(nodes=nodes, leader_counts=leads)
    assert titles(stopped) == [], "a node that was stopped has closed its streams"
    live = ImageBuilder().topic("a", state=StreamState.OPENED).image(nodes=ShardedMap([(1, node(1))]))
    assert titles(live) == []


def test_a_unit_that_failed_is_a_problem_for_those_who_see_its_topic():
    aside = SetAside("key-compaction", "a-0", "the disk is full", 3, 0, 60_000, topic="a")
    keys = ShardedMap([("set-aside/key-compaction/a-0", msgspec.json.encode(aside))])
    image = ImageBuilder().topic("a").image(keys=keys)
    (found,) = problems(image, 0, everybody)
    assert found.title == "key-compaction: a-0 failed 3 times: the disk is full"
    assert "1970-01-01 00:01:00" in found.remedy
    assert titles(image, sees=lambda name: name != "a") == []


def test_a_job_whose_driver_is_gone_and_a_full_disk_are_problems():
    job = JobMetadata(4, "retention", JobState.RUNNING, "driver", "", 0, 1_000, 0, "")
    image = ImageBuilder().image(jobs=ShardedMap([(4, job)]))
    assert titles(image, 999) == []
    assert titles(image, 1_001) == ["Job 4, retention, has lost its driver"]
    spaces = [Space("the disk of /a", 99, 100), Space("the disk of /b", 10, 100)]
    assert titles(ImageBuilder().image(), spaces=spaces) == ["the disk of /a is 99% full"]


def test_a_table_whose_export_failed_is_a_problem_for_those_who_see_the_topic():
    aside = SetAside("table-export", "a", "the catalog refuses it", 1, 0, 60_000, topic="a")
    keys = ShardedMap([("set-aside/table-export/a", msgspec.json.encode(aside))])
    image = ImageBuilder().topic("a", configs={"siltstone.table.format": "parquet"}).image(keys=keys)
    assert "The table of a falls behind: the catalog refuses it" in titles(image)
    assert titles(image, sees=lambda name: name != "a") == []


def test_nodes_are_counted_with_what_they_lead():
    image = (
        ImageBuilder().topic("a").image(nodes=ShardedMap([(1, node(1))]), leader_counts=ShardedMap([(1, 5)]))
    )
    (row,) = node_views(image)
    assert (row.node_id, row.state, row.leads, row.is_live, row.note) == (1, "live", 5, True, "")
