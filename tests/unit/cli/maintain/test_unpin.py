from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import SHARED_PIN, PinScan
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from support.processes.cli import assert_one_line, run

HOUR_MS = 3_600_000


def pinned(store: NodeSettings, *tokens: str) -> None:
    with open_store(store) as opened:
        for token in tokens:
            opened.metadata.execute(PinScan(token, HOUR_MS, "host 7: flights"))


def pins(store: NodeSettings) -> set[str]:
    with open_store(store) as opened:
        return set(opened.metadata.image.pins)


def test_explain_lists_pins_and_unpin_ends_one(store: NodeSettings) -> None:
    pinned(store, "query-1", "query-2")
    words = run("maintain", "explain", "--kind", "sweep", "--store", store.folder).words
    assert "sweep pin query-1 stays host 7: flights holds nothing yet, until" in words
    outcome = run("maintain", "unpin", "query-1", "--store", store.folder)
    assert (outcome.status, outcome.words) == (0, "1 scan pin ended.")
    assert pins(store) == {"query-2"}


def test_all_of_them(store: NodeSettings) -> None:
    pinned(store, "query-1", SHARED_PIN)
    assert run("maintain", "unpin", "all", "--store", store.folder).words == "2 scan pins ended."
    assert pins(store) == set()
    assert run("maintain", "unpin", "all", "--store", store.folder).words == "0 scan pins ended."


def test_one_that_is_none(store: NodeSettings) -> None:
    assert_one_line(
        run("maintain", "unpin", "query-9", "--store", store.folder),
        2,
        "there is no pin query-9; siltstone maintain",
    )


def test_what_a_pin_holds_is_told_by_the_sweep(store: NodeSettings) -> None:
    pinned(store, "query-1")
    assert (
        run(
            "maintain", "run", "--kind", "sso-compaction", "--runner", "in-process", "--store", store.folder
        ).status
        == 0
    )
    held = run("maintain", "sweep", "--grace-period", "0ms", "--store", store.folder)
    assert held.status == 0 and "by scans" in held.words and "held 0 objects" not in held.words
    run("maintain", "unpin", "query-1", "--store", store.folder)
    with open_store(store) as opened:
        assert sweep(opened.context, 0).objects_deleted > 0
