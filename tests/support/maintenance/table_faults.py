"""Makes commits to tables fail: their driver is killed, they are repeated, or overtaken by another driver."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.model.limits import HOUR_MS
from support.maintenance.table_world import TableWorld

Append = Callable[[Any, Any, Any], None]


class Killed(BaseException):
    """The driver's process ends here."""


@contextmanager
def appending(
    world: TableWorld,
    monkeypatch: pytest.MonkeyPatch,
    instead: Callable[[Append, Any, Any, Any], None],
    nth: int = 1,
) -> Iterator[None]:
    """The n-th commit to a table calls ``instead``, with the real commit as its argument."""
    with world.tables() as tables:
        kind = type(tables).__name__.replace("Format", "Table")
        of = getattr(__import__(type(tables).__module__, fromlist=[kind]), kind)
    real, calls = of.append, [0]

    def append(table: Any, files: Any, ledger: Any, replacement: Any) -> None:
        calls[0] += 1

        def commit(table: Any, files: Any, ledger: Any) -> None:
            real(table, files, ledger, replacement)

        if calls[0] == nth:
            instead(commit, table, files, ledger)
        else:
            commit(table, files, ledger)

    with monkeypatch.context() as patched:
        patched.setattr(of, "append", append)
        yield
    assert calls[0] >= nth, "that commit was never made"


def kill(real: Append, table: Any, files: Any, ledger: Any) -> None:
    raise Killed


def commit_and_kill(real: Append, table: Any, files: Any, ledger: Any) -> None:
    real(table, files, ledger)
    raise Killed


def export_is_killed(world: TableWorld) -> None:
    with pytest.raises(Killed):
        world.export()
    world.finish_jobs()


def another_driver(world: TableWorld) -> Callable[[Append, Any, Any, Any], None]:
    """Lets another driver do the whole round, after the lease of the first driver has ended; then the first one
    commits."""

    def instead(real: Append, table: Any, files: Any, ledger: Any) -> None:
        world.clock.advance_ms(HOUR_MS)
        report = world.export(context=world.another_context())
        assert [unit.outcome for unit in report.units] == [Outcome.DONE], report
        real(table, files, ledger)

    return instead
