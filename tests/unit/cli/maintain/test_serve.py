"""``siltstone maintain serve`` in this process; stopped by signals in tests/integration."""

import logging
from collections.abc import Iterator

import pytest

from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.server.settings.store import StoreSettings
from support.processes.cli import assert_one_line, run

ONCE = ("maintain", "serve", "--once", "--runner", "in-process")


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("siltstone")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def test_once_it_does_everything_and_reports(store: StoreSettings) -> None:
    outcome = run(*ONCE, "--store", store.folder)
    assert outcome.status == 0, outcome
    assert f"Maintenance is running (store {store.folder}, tasks run in this process)" in outcome.out
    assert ": 1 run, 1 unit done" in outcome.out and "sweep: 0 runs" in outcome.out
    assert ": 1 of 1 done; " in outcome.err, "a line in the log for what was done"
    assert run("check", "--store", store.folder).status == 0


def test_as_json(store: StoreSettings) -> None:
    outcome = run(*ONCE, "--json", "--store", store.folder)
    kinds = {each["kind"]: each for each in outcome.json["kinds"]}
    assert sum(each["units_done"] for each in kinds.values()) == 1 and kinds["sweep"]["last_success_ms"] > 0
    assert "Maintenance is running" in outcome.err


def test_once_what_fails_is_the_exit_status(store: StoreSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamSetObjectCompaction, "plan", None)
    outcome = run(*ONCE, "--store", store.folder)
    assert outcome.status == 1
    assert "this is a bug, TypeError" in outcome.err and "sso-compaction: 0 runs" in outcome.out
    assert "major-gc: 0 runs, 0 units done, last success" in outcome.out, "the others had their turn"


def test_settings_that_cannot_be(store: StoreSettings) -> None:
    arguments = ("--set", "maintenance.interval.minor_gc_ms=2d", "--store", store.folder)
    assert_one_line(run(*ONCE, *arguments), 2, "maintenance.interval", "more often than a major one")


def test_a_store_that_is_none(tmp_path) -> None:
    outcome = run(*ONCE, "--store", tmp_path / "none")
    assert outcome.status == 2 and "there is no store at" in outcome.err
