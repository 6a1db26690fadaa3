"""``siltstone maintain serve`` in this process; stopped by signals in tests/integration."""

from contextlib import contextmanager
from threading import Event

import pytest

from siltstone.cli.maintain import serve as serve_module
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.server.settings.node import NodeSettings
from support.engine.small_store import object_files
from support.processes.cli import assert_one_line, run

ONCE = ("maintain", "serve", "--once", "--runner", "in-process")


def test_once_it_does_everything_and_reports(store: NodeSettings) -> None:
    outcome = run(*ONCE, "--store", store.folder)
    assert outcome.status == 0, outcome
    assert f"Maintenance is running (store {store.folder}, tasks run in this process)" in outcome.out
    assert ": 1 run, 1 unit done" in outcome.out and "sweep: nothing to do, last looked " in outcome.out
    assert ": 1 of 1 done; " in outcome.err, "a line in the log for what was done"
    assert run("check", "--store", store.folder).status == 0


def test_as_json(store: NodeSettings) -> None:
    outcome = run(*ONCE, "--json", "--store", store.folder)
    kinds = {each["kind"]: each for each in outcome.json["kinds"]}
    assert sum(each["units_done"] for each in kinds.values()) == 1 and kinds["sweep"]["last_success_ms"] > 0
    assert "Maintenance is running" in outcome.err


def test_once_what_cannot_be_read_is_the_exit_status(store: NodeSettings) -> None:
    for path in object_files(store.folder):
        path.unlink()
    outcome = run(*ONCE, "--store", store.folder)
    assert outcome.status == 1
    assert "cannot be read, last success never" in outcome.out


def test_once_what_fails_is_the_exit_status(store: NodeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamSetObjectCompaction, "plan", None)
    outcome = run(*ONCE, "--store", store.folder)
    assert outcome.status == 1
    assert "this is a bug, TypeError" in outcome.err and "sso-compaction: 0 runs" in outcome.out
    assert "major-gc: nothing to do, last looked" in outcome.out, "the others had their turn"


def test_settings_that_cannot_be(store: NodeSettings) -> None:
    arguments = ("--set", "maintenance.interval.minor_gc_ms=2d", "--store", store.folder)
    assert_one_line(run(*ONCE, *arguments), 2, "maintenance.interval", "more often than a major one")


def test_a_store_that_is_none(tmp_path) -> None:
    outcome = run(*ONCE, "--store", tmp_path / "none")
    assert outcome.status == 2 and "there is no store at" in outcome.err


class Service:
    """As MaintenanceService: runs until it is stopped, or raises."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.ran: list[str] = []
        self.stopped = Event()
        self._failure = failure

    def run_once(self) -> None:
        self.ran.append("once")
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        self.ran.append("on")
        assert self.stopped.wait(60)

    def stop(self, reason: str) -> None:
        self.ran.append(reason)
        self.stopped.set()


def test_what_the_service_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="why"):
        serve_module._run(Service(ValueError("why")), is_once=True, has_parent=False, announce=list)
    assert serve_module._run(Service(), is_once=True, has_parent=False, announce=list) is False


def test_a_signal_stops_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def signalled(stop, *, is_silent):
        assert is_silent, "the broker has said it"
        stop("a signal")
        yield

    monkeypatch.setattr(serve_module, "cancelled_by_signals", signalled)
    service = Service()
    assert serve_module._run(service, is_once=False, has_parent=True, announce=list) is True
    assert sorted(service.ran) == ["a signal", "on"]


def test_it_looks_for_signals_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait without end may miss one that comes just before it."""

    class EventWithLimits(Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            return super().wait(timeout)

    monkeypatch.setattr(serve_module, "Event", EventWithLimits)
    assert serve_module._run(Service(), is_once=True, has_parent=False, announce=list) is False
