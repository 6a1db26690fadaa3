from siltstone.server.settings.node import NodeSettings
from support.engine.small_store import STREAMS, object_files
from support.processes.cli import assert_one_line, run


def test_nothing_is_due_in_a_fresh_store(store: NodeSettings) -> None:
    outcome = run("maintain", "sweep", "--store", store.folder)
    assert outcome.status == 0
    assert "deleted 0 objects, 0 B" in outcome.words
    document = run("maintain", "sweep", "--store", store.folder, "--json").json
    assert document["objects_deleted"] == document["objects_waiting"] == 0


def test_what_compaction_replaced_is_swept_when_its_grace_period_is_over(store: NodeSettings) -> None:
    before = len(object_files(store.folder))
    arguments = ("--kind", "sso-compaction", "--set", "compaction.split_size_bytes=5KiB")
    run("maintain", "run", "--runner", "in-process", *arguments, "--store", store.folder)
    first = run("maintain", "sweep", "--store", store.folder)
    assert f"waiting {before} destroyed objects in the grace period" in first.words
    assert len(object_files(store.folder)) == before + STREAMS
    second = run("maintain", "sweep", "--store", store.folder, "--grace-period", "0").words
    assert f"deleted {before} objects" in second
    assert len(object_files(store.folder)) == STREAMS


def test_a_grace_period_that_is_none_is_refused(store: NodeSettings) -> None:
    assert_one_line(
        run("maintain", "sweep", "--store", store.folder, "--grace-period", "soon"),
        2,
        'sweep.grace_period_ms: "soon"',
        "20min",
    )
    assert len(object_files(store.folder)) >= 3
