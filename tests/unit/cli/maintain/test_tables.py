"""Plans and explanations as they are shown; through the commands themselves: test_plan and test_explain."""

import msgspec
import pytest
from rich.console import Console, RenderableType

from siltstone.cli.maintain.tables import (
    ABBREVIATIONS,
    ROWS_SHOWN_MAX,
    explanation_rows,
    explanation_shown,
    plan_shown,
)
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.maintenance.blocks.columns import LeftOut
from siltstone.maintenance.overview import KindOverview, Overview
from siltstone.maintenance.pipeline.kind import PlannedOutput, PlannedUnit, Scope
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.stream_set_compaction import kind as stream_set_kind
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.maintenance.stream_set_compaction.planner import plan_compaction
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.model.objects import ObjectKind, ObjectState
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
    """What lies in it is not known, so nothing is said of what all objects hold."""
    rows = explained(image_of(SET, SET), monkeypatch, LeftOut(0, "damaged"))
    assert rows == [
        ("object 0", "stays", "damaged"),
        ("objects", "stays", "without those left out, no two of 2 stream set objects hold the same stream"),
    ]


def test_an_explanation_has_the_facts_of_a_unit_behind_its_reason() -> None:
    unit = PlannedUnit(name="objects", reason="many", detail={"tasks": "2", "index entries": "9 → 3"})
    shown = lines(explanation_shown(Overview((KindOverview("tidy", units=(unit,)),))))
    assert shown[-1] == "tidy objects will be done many (tasks 2, index entries 9 → 3)"
