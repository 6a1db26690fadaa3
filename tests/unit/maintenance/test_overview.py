import pytest

from siltstone.carrying.pipeline.kind import Budget, PlannedUnit, Scope, Unplanned
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.text_tables import NOTHING
from siltstone.maintenance.overview import KindOverview, Overview, Waiting, overview, unusable_words
from siltstone.metadata.store_id import put_store_id, store_id_of
from siltstone.model.errors import CorruptData, Unavailable
from siltstone.object_store.bucket_identity import mark
from siltstone.object_store.metadata_mark import MetadataMark, MetadataOlderThanBucket, key_of_mark
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.runtime.randomness import seeded_randomness
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.fake_kind import FakeKind, nothing
from support.values.left_out import numbers_left_out


def test_units_what_waits_and_what_stays(world: CompactionWorld) -> None:
    kind = FakeKind(
        units={"bad": lambda _: "damaged", "good": nothing}, unplanned=[Unplanned("other", "too small")]
    )
    run(world.context, kind, InProcessRunner, Scope(), Budget(), Watch("tidy", world.clock))
    (seen,) = overview(world.context, [kind], Scope()).kinds
    assert [each.name for each in seen.units] == ["good"]
    assert [(each.name, each.reason, each.failures) for each in seen.waiting] == [("bad", "damaged", 1)]
    assert seen.unplanned == (Unplanned("other", "too small"),)
    (forced,) = overview(world.context, [kind], Scope(is_forced=True)).kinds
    assert [each.name for each in forced.units] == ["bad", "good"] and forced.waiting == ()


def test_a_kind_that_cannot_plan_says_why_and_the_others_do(world: CompactionWorld) -> None:
    def damaged() -> None:
        raise CorruptData("the index is cut off")

    def away() -> None:
        raise Unavailable("no route")

    first, second, third = FakeKind("first"), FakeKind("second"), FakeKind("third")
    first.when_planned, second.when_planned = damaged, away
    seen = overview(world.context, [first, second, third], Scope())
    assert [each.trouble for each in seen.kinds] == ["CorruptData: the index is cut off", "no route", ""]
    assert seen.unit_count == 1


def test_rule_11_an_older_copy_of_the_metadata_is_refused_and_nothing_is_planned(
    world: CompactionWorld,
) -> None:
    """As ``run`` refuses it: "Nothing to do." would be a wrong answer."""
    world.metadata.execute(put_store_id(seeded_randomness(1)))
    mark(world.store, store_id_of(world.metadata.image))
    seen = MetadataMark(world.metadata.image.version + 1, 0)
    world.store.put(key_of_mark(seen), [b"newer"])
    kind = FakeKind(units={})
    kind.when_planned = lambda: pytest.fail("nothing may be planned")
    with pytest.raises(MetadataOlderThanBucket, match="It is an older copy"):
        overview(world.context, [kind], Scope())


def test_it_reads_as_a_table(world: CompactionWorld) -> None:
    seen = overview(world.context, [FakeKind(units={"one": nothing, "<b>": nothing})], Scope())
    assert repr(seen).splitlines() == [
        "kind  unit  reads  writes  objects  because",
        "tidy  one   100 B                   a test wants it",
        "tidy  <b>   100 B                   a test wants it",
    ]
    html = seen._repr_html_()
    assert html.startswith("<table>") and "&lt;b&gt;" in html and "<b>" not in html
    assert '<th style="text-align: left !important">kind</th>' in html
    assert '<td style="text-align: right !important">100 B</td>' in html


def test_nothing_to_do_is_said(world: CompactionWorld) -> None:
    seen = overview(world.context, [FakeKind(units={})], Scope())
    assert repr(seen) == "Nothing to do." and "Nothing to do." in seen._repr_html_()


def test_what_another_driver_set_aside_waits_here_too(world: CompactionWorld) -> None:
    kind = FakeKind(units={"bad": lambda _: "damaged"})
    run(world.another_context(), kind, InProcessRunner, Scope(), Budget(), Watch("tidy", world.clock))
    (seen,) = overview(world.context, [kind], Scope()).kinds
    assert [each.name for each in seen.waiting] == ["bad"] and seen.units == ()


def test_when_units_are_set_aside_that_is_said_and_not_that_there_is_nothing_to_do() -> None:
    waits = [
        Waiting(f"bad-{number}", "damaged", 1, 1_357_034_400_000 + number * 1_000) for number in range(8)
    ]
    kinds = (KindOverview("tidy", waiting=tuple(waits[1:])), KindOverview("mend", waiting=tuple(waits[:1])))
    said = (
        "8 units are set aside after failures; next try at 2013-01-01 10:00:00 UTC: siltstone maintain status"
    )
    assert repr(Overview(kinds)) == said
    assert Overview(kinds)._repr_html_() == f"<p>{said}</p>"
    unit = PlannedUnit(name="one", reason="old")
    both = Overview((KindOverview("tidy", units=(unit,), waiting=tuple(waits[:1])),))
    assert [line.split("  ")[0] for line in repr(both).splitlines()][1] == "tidy"
    assert repr(both).splitlines()[2:] == [
        "1 unit is set aside after failures; next try at 2013-01-01 10:00:00 UTC: siltstone maintain status",
    ]
    assert "<table>" in both._repr_html_() and "1 unit is set aside" in both._repr_html_()


def test_a_kind_that_could_not_be_planned_is_said() -> None:
    seen = Overview((KindOverview("tidy", trouble="the disk is <gone>"),))
    assert repr(seen) == "tidy: no plan could be made: the disk is <gone>"
    assert "&lt;gone&gt;" in seen._repr_html_()


def test_more_than_one_round_is_said_to_remain(world: CompactionWorld) -> None:
    (seen,) = overview(world.context, [FakeKind(rounds=2)], Scope()).kinds
    assert seen.has_remaining
    (whole,) = overview(world.context, [FakeKind()], Scope()).kinds
    assert not whole.has_remaining


def test_what_is_left_out() -> None:
    assert numbers_left_out(KindOverview) == {"has_remaining": False}


def test_what_cannot_be_read_is_never_hidden_by_nothing_to_do() -> None:
    lost = Unplanned("object 3", "its index cannot be read: no object", True)
    alike = Unplanned("object 2", "it holds nothing that others hold")
    planned = Overview(
        (KindOverview("minor-gc", unplanned=(alike, lost)), KindOverview("sso-compaction", unplanned=(lost,)))
    )
    words = (
        "object 3 cannot be read (object 3: its index cannot be read: no object): siltstone check names what is lost "
        "or damaged"
    )
    assert planned.unusable_words == words and repr(planned) == words
    assert unusable_words([lost, Unplanned("object 4", "damaged", True)]).startswith(
        "object 3 and 1 more object cannot be read (object 3: "
    )
    assert unusable_words([alike]) == "" and repr(Overview((KindOverview("sweep"),))) == NOTHING
