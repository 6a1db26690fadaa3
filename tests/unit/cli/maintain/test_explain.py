from siltstone.carrying.pipeline.kind import Unplanned
from siltstone.model.errors import CorruptData
from siltstone.server.settings.node import NodeSettings
from support.maintenance.fake_kind import FakeKind, nothing
from support.processes.cli import run

HERE = ("--runner", "in-process")


def test_everything_has_a_reason(store: NodeSettings, tidy: FakeKind) -> None:
    tidy.units = {"good": nothing, "bad": lambda _: "object 3 is damaged"}
    tidy.unplanned = (Unplanned("flights-0", "group billing has not read beyond offset 17"),)
    run("maintain", "run", *HERE, "--store", store.folder)
    words = run("maintain", "explain", "--store", store.folder).words
    assert "tidy good will be done a test wants it" in words
    assert "tidy bad waits failed 1 time, next try" in words and "object 3 is damaged" in words
    assert "tidy flights-0 stays group billing has not read beyond offset 17" in words


def test_as_json(store: NodeSettings, tidy: FakeKind) -> None:
    rows = run("maintain", "explain", "--json", "--store", store.folder).json
    assert rows == [
        {"kind": "tidy", "what": "one", "now": "will be done", "because": "a test wants it", "buckets": []}
    ]


def test_a_kind_that_cannot_plan_says_so(store: NodeSettings, tidy: FakeKind) -> None:
    def damaged() -> None:
        raise CorruptData("the index is cut off")

    tidy.when_planned = damaged
    assert (
        "tidy all no plan CorruptData: the index is cut off"
        in run("maintain", "explain", "--store", store.folder).words
    )


def test_every_kind_of_a_real_store_is_explained(store: NodeSettings) -> None:
    words = run("maintain", "explain", "--store", store.folder).words
    assert "sweep all stays there is nothing to do" in words
    assert "sso-compaction objects will be done" in words
