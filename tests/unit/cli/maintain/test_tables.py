"""Plans and explanations as they are shown; through the commands themselves: test_plan and test_explain."""

import msgspec
import pytest
from rich.console import Console, RenderableType

from siltstone.carrying.pipeline.kind import (
    Outcome,
    PlannedOutput,
    PlannedUnit,
    Scope,
    UnitReport,
    Unplanned,
)
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.cli.maintain.tables import (
    ABBREVIATIONS,
    ROWS_SHOWN_MAX,
    explanation_rows,
    explanation_shown,
    left_words,
    plan_shown,
    report_lines,
)
from siltstone.foundation.quantity_words import seconds_words
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.maintenance.overview import KindOverview, Overview
from siltstone.maintenance.stream_set_compaction import kind as stream_set_kind
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.maintenance.stream_set_compaction.planner import plan_compaction
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.model.objects import ObjectKind, ObjectState
from siltstone.offline.blocks.columns import LeftOut
from siltstone.offline.settings import CompactionSettings
from siltstone.runtime.clock import ManualClock

SET, OWN = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT
OUTPUT = PlannedOutput(
    makes="SO", stream_id=7, start_offset=0, end_offset=1_200, streams=1, blocks=3, size_bytes=2048,
    sources=(3, 5), first_task=1, last_task=1, reason="of a size of its own",
)  # fmt: skip
OF_MANY = msgspec.structs.replace(
    OUTPUT, makes="SSO", stream_id=None, start_offset=None, end_offset=None, streams=12, last_task=4
)


def lines(shown: RenderableType) -> list[str]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(shown)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def planned(*outputs: PlannedOutput, objects: int = 0) -> KindOverview:
    unit = PlannedUnit(name="objects", reason="many", objects_after=objects or len(outputs), outputs=outputs)
    return KindOverview("sso-compaction", units=(unit,))


# -- the objects that a plan would make ---------------------------------------------------------------------


def test_of_one_kind_each_object_has_a_row_with_its_reason() -> None:
    shown = lines(plan_shown(Overview((planned(OF_MANY, OUTPUT),))))
    at = shown.index("makes stream start end bytes from task because")
    assert shown[at + 2 : at + 4] == [
        "SSO 12 str. 2.0 KiB 2 1-4 of a size of its own",
        "SO 7 0 1,200 2.0 KiB 2 1 of a size of its own",
    ]
    assert shown.count(ABBREVIATIONS) == 1


def test_of_several_kinds_only_units_are_shown() -> None:
    shown = lines(plan_shown(Overview((planned(OUTPUT), KindOverview("sweep")))))
    assert "sso-compaction objects 0 → 1 many" in shown
    assert not any(line.startswith(("makes", "SO ")) for line in shown) and ABBREVIATIONS not in shown


@pytest.mark.parametrize(
    ("listed", "objects", "more"),
    [
        (ROWS_SHOWN_MAX, ROWS_SHOWN_MAX, None),
        (ROWS_SHOWN_MAX + 1, ROWS_SHOWN_MAX + 1, "… and 1 more (--json has all)"),
        (1_000, 9_000 + ROWS_SHOWN_MAX, "… and 9,000 more (--json has the first 1,000)"),
    ],
)
def test_of_very_many_objects_the_first_are_shown_and_the_others_counted(
    listed: int, objects: int, more: str | None
) -> None:
    shown = lines(plan_shown(Overview((planned(*[OUTPUT] * listed, objects=objects),))))
    assert len([line for line in shown if line.startswith("SO ")]) == ROWS_SHOWN_MAX
    assert [line for line in shown if line.startswith("…")] == ([more] if more else [])


# -- why there is nothing to do -----------------------------------------------------------------------------


class Standing(msgspec.Struct):
    """The context of a store whose metadata stand still."""

    image: MetadataImage
    clock: ManualClock

    @property
    def metadata(self) -> "Standing":
        return self

    def refresh(self) -> MetadataImage:
        return self.image

    def now_ms(self) -> int:
        return self.clock.now_ms()


def image_of(*kinds: ObjectKind | None) -> MetadataImage:
    """Without a kind: prepared, not committed."""
    draft = ImageDraft(MetadataImage())
    for object_id, kind in enumerate(kinds):
        state = ObjectState.COMMITTED if kind else ObjectState.PREPARED
        draft.objects[object_id] = ObjectMetadata(object_id, state, 0, kind, 1, 0, 0, 0, 0, ())
    return draft.frozen(1)


def explained(
    image: MetadataImage, monkeypatch: pytest.MonkeyPatch, *left_out: LeftOut
) -> list[tuple[str, str, str]]:
    empty = plan_compaction((), ShardedMap(), CompactionSettings(), 0, left_out=left_out)
    monkeypatch.setattr(stream_set_kind, "plan_round", lambda *_: empty)
    context = Standing(image, ManualClock())
    kind = StreamSetObjectCompaction(CompactionSettings())
    plan = kind.plan(context, Scope(), Watch(kind.name, context.clock))
    assert plan.units == ()
    return explanation_rows(KindOverview(kind.name, unplanned=tuple(plan.unplanned)))


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (image_of(None), "there are no objects"),
        (image_of(OWN, OWN, None), "there is no stream set object, only 2 stream objects"),
        (image_of(SET, OWN, SET), "of 2 stream set objects no two hold the same stream"),
    ],
)
def test_why_there_is_nothing_to_compact(
    image: MetadataImage, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert explained(image, monkeypatch) == [("objects", "stays", reason)]


def test_what_is_left_out_has_a_row_of_its_own_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its contents are not known, so the table says nothing about the contents of all objects."""
    rows = explained(image_of(SET, SET), monkeypatch, LeftOut(0, "damaged"))
    assert rows == [
        ("object 0", "stays", "damaged"),
        ("objects", "stays", "without those left out, no two of 2 stream set objects hold the same stream"),
    ]


def test_an_explanation_has_the_facts_of_a_unit_behind_its_reason() -> None:
    unit = PlannedUnit(name="objects", reason="many", detail={"tasks": "2", "index entries": "9 → 3"})
    shown = lines(explanation_shown(Overview((KindOverview("tidy", units=(unit,)),))))
    assert shown[-1] == "tidy objects will be done many (tasks 2, index entries 9 → 3)"


def partitions(reasons: dict[str, str]) -> Overview:
    unplanned = tuple(Unplanned(name, reason) for name, reason in reasons.items())
    return Overview((KindOverview("tidy", unplanned=unplanned),))


def test_partitions_with_one_reason_share_a_row_of_an_explanation() -> None:
    planned = partitions({"a-0": "old", "a-1": "new", "a-2": "new", "a-3": "new", "a-5": "new", "b-6": "new"})
    assert lines(explanation_shown(planned))[2:] == [
        "tidy a-0 stays old",
        "tidy a-1 … a-3 stays new",
        "tidy a-5 stays new",
        "tidy b-6 stays new",
    ]
    assert len(explanation_rows(planned.kinds[0])) == 6, "--json has all"


def test_what_is_no_partition_keeps_its_row() -> None:
    planned = partitions({"object 1": "old", "object 2": "old", "object 3": "old"})
    assert len(lines(explanation_shown(planned))[2:]) == 3


# -- what else a plan says ----------------------------------------------------------------------------------


def test_a_plan_without_units_says_where_the_reasons_are() -> None:
    assert lines(plan_shown(Overview((KindOverview("tidy"),)))) == [
        "Nothing to do. (siltstone maintain explain shows why)"
    ]


def test_of_units_that_make_nothing_no_objects_are_shown() -> None:
    unit = PlannedUnit(name="object 3", reason="old", bytes_read=2048, bytes_written=1024)
    units = (unit, msgspec.structs.replace(unit, name="object 5"))
    shown = lines(plan_shown(Overview((KindOverview("tidy", units=units, has_remaining=True),))))
    assert shown[-1] == "2 units, 4.0 KiB to read, 2.0 KiB to write; another run will find more for tidy"
    assert ABBREVIATIONS not in shown
    shown = lines(plan_shown(Overview((KindOverview("tidy", units=units),))))
    assert shown[-1] == "2 units, 4.0 KiB to read, 2.0 KiB to write"


@pytest.mark.parametrize(
    ("units", "more"), [(ROWS_SHOWN_MAX, []), (ROWS_SHOWN_MAX + 1, ["tidy … and 1 more (--json has all)"])]
)
def test_of_very_many_units_the_first_are_shown_and_the_others_counted(units: int, more: list[str]) -> None:
    many = tuple(PlannedUnit(name=f"object {number}", reason="old") for number in range(units))
    shown = lines(plan_shown(Overview((KindOverview("tidy", units=many),))))
    assert len([line for line in shown if line.startswith("tidy object")]) == ROWS_SHOWN_MAX
    assert [line for line in shown if line.startswith("tidy …")] == more


def test_a_kind_in_trouble_says_so_in_plan_and_explanation() -> None:
    trouble = Overview((KindOverview("tidy", trouble="the disk is gone"),))
    assert lines(plan_shown(trouble))[1:] == ["tidy: no plan could be made: the disk is gone"]
    assert explanation_rows(trouble.kinds[0]) == [("all", "no plan", "the disk is gone")]
    assert explanation_rows(KindOverview("tidy")) == [("all", "stays", "there is nothing to do")]


# -- reports of runs ----------------------------------------------------------------------------------------


def run_of(*postponed: str, is_cancelled: bool) -> RunReport:
    unit = UnitReport(name="object 3", outcome=Outcome.DONE, text="made smaller")
    return RunReport(
        kind="tidy", job_id=1, units=(unit,), postponed=postponed, has_remaining=False, is_cancelled=is_cancelled,
        seconds=1.0,
    )  # fmt: skip


def test_a_report_has_a_line_for_each_unit() -> None:
    first, *units = report_lines(run_of("object 5", is_cancelled=False))
    assert first.startswith("tidy: 1 of 1 done") and units == ["  object 3: done: made smaller"]


@pytest.mark.parametrize(
    ("postponed", "left"),
    [("", ""), ("abcde", "; not done: a, b, c, d, e"), ("abcdef", "; not done: a, b, c, d, e …")],
)
def test_a_run_that_was_cancelled_says_what_is_left(postponed: str, left: str) -> None:
    told = report_lines(run_of(*postponed, is_cancelled=True))
    assert told[-1] == f"  units listed as done are committed and stay{left}"


def test_the_time_that_is_left_is_told_once_it_is_known() -> None:
    assert left_words(None) == ""
    assert left_words(90) == f"about {seconds_words(90)} left"
