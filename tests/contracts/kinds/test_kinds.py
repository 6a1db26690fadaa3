"""What holds for every kind that makes objects, because one engine carries them out: rule 5, the watch, the owner of a
bucket.

Seen to fail when the engine forgot it, on 2026-11-28: that an outcome was unknown (every kind but copies, whose
objects stay committed, so that nothing is ever discarded), the watch after a failed runner (every kind but key
compaction, whose runner looks at the watch itself), and the owner of a bucket (every kind but copies, which looks at
each target again).
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.set_aside import all_set_aside
from siltstone.carrying.pipeline.watch import Watch
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.refusals import CoverageNotMatched
from siltstone.metadata.store_id import put_store_id, store_id_of
from siltstone.model.objects import object_id_of_key
from siltstone.object_store.bucket_identity import mark
from siltstone.offline.kind_rows import COPYING
from siltstone.offline.tasks.runner import InProcessRunner, RunFailed
from siltstone.runtime.randomness import seeded_randomness
from support.maintenance.kind_cases import KIND_WORLDS, KindWorld

Execute = Callable[[Any], Any]


@pytest.fixture(params=sorted(KIND_WORLDS))
def world(request: pytest.FixtureRequest) -> Iterator[KindWorld]:
    with KIND_WORLDS[request.param]() as made:
        yield made


def test_every_kind_that_copies_bytes_is_here() -> None:
    with_tables = set(COPYING) - set(KIND_WORLDS)
    assert with_tables <= {"table-export"}, (
        "a table's rounds commit to the table, which has its own three outcomes"
    )


def outcomes(report: RunReport) -> set[Outcome]:
    """Those of the units that make objects: the kind of copies lists its buckets, too."""
    return {each.outcome for each in report.units if not each.name.startswith("listing")}


def made_objects(world: KindWorld, before: set[tuple[str, str]]) -> set[tuple[str, str]]:
    return {each for each in world.keys() - before if object_id_of_key(each[1]) is not None}


def test_it_does_its_work(world: KindWorld) -> None:
    report = world.run()
    assert report.is_well and outcomes(report) == {Outcome.DONE}, report


def test_what_is_refused_is_discarded_or_stays_prepared(world: KindWorld) -> None:
    def refuse(command: Any, execute: Execute) -> Any:
        raise CoverageNotMatched("as if")

    before = world.keys()
    world.answer_commits(refuse)
    report = world.run()
    assert outcomes(report) and Outcome.DONE not in outcomes(report)
    assert made_objects(world, before) == set() or world.kind.name == "copies", (
        "its object is still committed"
    )


def test_unknown_is_not_refused(world: KindWorld) -> None:
    """The first answer is lost though the commit was applied, and the retry is refused: deleting what was written
    would lose data."""
    put: list[set[tuple[str, str]]] = []

    def lose(command: Any, execute: Execute) -> Any:
        put.append(made_objects(world, before))
        if len(put) == 1:
            execute(command)
            raise CommitUnknown("no answer")
        raise CoverageNotMatched("as if")

    before = world.keys()
    world.answer_commits(lose)
    world.run()
    assert len(put) >= 2 and put[0]
    assert put[0] <= world.keys()


def test_an_outcome_that_stays_unknown_ends_the_run_and_deletes_nothing(world: KindWorld) -> None:
    def silent(command: Any, execute: Execute) -> Any:
        raise CommitUnknown("no answer")

    before = world.keys()
    world.answer_commits(silent)
    report = world.run()
    assert "it may have been applied" in report.trouble
    assert made_objects(world, before)
    assert not list(all_set_aside(world.context.metadata.refresh()))


def test_a_failure_after_a_cancellation_is_not_the_fault_of_the_unit(world: KindWorld) -> None:
    watch = Watch(world.kind.name, world.context.clock)

    class Stopped(InProcessRunner):
        def run(self, *_: Any, **__: Any) -> Any:
            watch.cancel("Ctrl-C")
            raise RunFailed("the executors were killed")

        def run_each(self, *given: Any, **__: Any) -> Any:
            next(iter(given[1]))
            watch.cancel("Ctrl-C")
            given[2]()
            yield

    report = world.run(Stopped(), watch)
    assert report.is_cancelled and not report.failed
    assert not list(all_set_aside(world.context.metadata.refresh()))


def test_nothing_is_written_into_a_bucket_of_another_store(world: KindWorld) -> None:
    if store_id_of(world.context.metadata.image) is None:
        world.context.metadata.execute(put_store_id(seeded_randomness(1)))
    for store in world.stores:
        mark(store, "f" * 32)
    before = world.keys()
    changes = len(world.changes())
    report = world.run()
    assert Outcome.DONE not in outcomes(report) and not report.is_well
    assert made_objects(world, before) == set()
    assert world.changes()[changes:] == []
