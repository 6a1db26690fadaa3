"""The outcomes of a commit to a table, with a stand-in for the table that the test controls."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.tables.committing import ATTEMPTS_MAX, commit_round, loaded
from siltstone.tables.failures import (
    CatalogFailed,
    CommitFailed,
    CommitOvertaken,
    LedgerLost,
    TableCommitUnknown,
)
from siltstone.tables.formats.port import DataFile
from siltstone.tables.ledger import Ledger, TableIdentity

BEFORE = Ledger(identity=TableIdentity("store", "topic"), offsets={0: 5}, token="before")
AFTER = BEFORE.after({0: 9}, "ours", 1)
FILES = (DataFile("data/x.parquet", 4, 100),)


class OneTable:
    """A format with one table. ``steps`` are done one after another, one for each append."""

    name = "kafka.t"

    def __init__(self, *steps: Callable[["OneTable"], None]) -> None:
        self.ledger = BEFORE
        self.is_there = True
        self.steps = list(steps)
        self.appended: list[Any] = []
        self.pauses_ms: list[float] = []

    def append(self, files: Any, ledger: Ledger, replacement: Any = None) -> None:
        self.appended.append((tuple(files), ledger))
        self.steps.pop(0)(self)

    def load(self, name: str) -> Any:
        assert name == self.name
        return SimpleNamespace(name=name, ledger=self.ledger, append=self.append) if self.is_there else None

    def committed(self) -> Any:
        clock = SimpleNamespace(block_ms=self.pauses_ms.append)
        context: Any = SimpleNamespace(clock=clock, rng=SimpleNamespace(random=lambda: 0.5))
        tables: Any = self
        return commit_round(context, tables, self.load(self.name), FILES, AFTER)


def done(table: OneTable) -> None:
    table.ledger = AFTER


def by_another(table: OneTable) -> None:
    """Commits the round of another driver."""
    table.ledger = BEFORE.after({0: 7}, "theirs", 1)
    raise CommitOvertaken("changed")


def rewritten(table: OneTable) -> None:
    """Changes the table as another program does, without its ledger."""
    raise CommitOvertaken("changed")


def lost(table: OneTable) -> None:
    raise TableCommitUnknown("no answer")


def done_and_lost(table: OneTable) -> None:
    table.ledger = AFTER
    raise TableCommitUnknown("no answer")


@pytest.mark.parametrize(
    ("steps", "tries"),
    [((done,), 1), ((done_and_lost,), 1), ((rewritten, done), 2), ((lost, rewritten, done_and_lost), 3)],
)
def test_a_commit_is_repeated_until_the_ledger_is_ours(steps: Any, tries: int) -> None:
    table = OneTable(*steps)
    assert table.committed().ledger == AFTER
    assert table.appended == [(FILES, AFTER)] * tries


@pytest.mark.parametrize("steps", [(by_another,), (rewritten, by_another), (lost, by_another)])
def test_a_ledger_that_another_driver_has_moved_ends_it(steps: Any) -> None:
    table = OneTable(*steps)
    assert table.committed() is None
    assert len(table.appended) == len(steps)


@pytest.mark.parametrize(
    "theirs",
    [BEFORE.after({0: 9}, "theirs", 1), BEFORE.after({}, "theirs", 1), BEFORE.after({1: 1}, "before", 1)],
)
def test_another_token_or_other_offsets_are_another_drivers(theirs: Ledger) -> None:
    def step(table: OneTable) -> None:
        table.ledger = theirs
        raise TableCommitUnknown("no answer")

    assert OneTable(step).committed() is None


def test_only_an_answer_that_was_lost_is_waited_for_and_longer_each_time() -> None:
    table = OneTable(rewritten, lost, lost, rewritten, lost, *[lost] * 4, done)
    assert table.committed() is not None
    assert table.pauses_ms == [150, 300, 1_200, 2_400, 4_800, 7_500, 7_500], (
        "three quarters of 200 ms, 400 ms …"
    )


def test_a_table_that_never_takes_the_commit_is_left_to_the_next_run() -> None:
    table = OneTable(*[rewritten] * ATTEMPTS_MAX)
    with pytest.raises(
        TableCommitUnknown, match=r"kafka\.t could not be committed to in 10 tries: nothing is lost"
    ):
        table.committed()


def test_a_table_that_goes_meanwhile_is_a_lost_ledger() -> None:
    def gone(table: OneTable) -> None:
        table.is_there = False

    with pytest.raises(LedgerLost, match="the table is gone"):
        OneTable(gone).committed()
    there: Any = OneTable()
    assert loaded(there, "kafka.t").name == "kafka.t"


def faulty(table: OneTable) -> None:
    raise OverflowError("date value out of range")


def sent_and_faulty(table: OneTable) -> None:
    """The catalog's client fails at the answer, and whether the commit took place is not known."""
    raise TableCommitUnknown("it may have taken place") from TypeError("no such answer")


def taken_and_faulty(table: OneTable) -> None:
    table.ledger = AFTER
    sent_and_faulty(table)


def out_of_reach(table: OneTable) -> None:
    raise ConnectionRefusedError("no route")


@pytest.mark.parametrize(
    ("step", "cause"),
    [(faulty, "OverflowError: date value out of range"), (sent_and_faulty, "TypeError: no such")],
)
def test_rule_14_a_failure_that_is_certain_is_tried_once_and_named(
    step: Callable[[OneTable], None], cause: str
) -> None:
    table = OneTable(step)
    with pytest.raises(
        CommitFailed, match=rf"table kafka\.t.*partition 0 offsets 5 to 8: {cause}"
    ) as failure:
        table.committed()
    assert failure.value.offsets == {0: (5, 9)}
    assert len(table.appended) == 1


def test_rule_14_a_fault_after_the_commit_took_place_is_no_failure() -> None:
    assert OneTable(taken_and_faulty).committed().ledger == AFTER


def test_rule_14_what_could_not_be_sent_is_tried_again_and_never_called_unknown() -> None:
    assert OneTable(out_of_reach, done).committed().ledger == AFTER
    with pytest.raises(CatalogFailed, match="could not be prepared: ConnectionRefusedError: no route"):
        OneTable(*[out_of_reach] * ATTEMPTS_MAX).committed()
