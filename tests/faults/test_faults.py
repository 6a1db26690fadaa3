"""The table of faults, row by row, with real processes; ``SILTSTONE_FAULTS_SEED`` draws others for ``make test``."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from faults.table import FAILS_BY_CHANCE, FAILS_TODAY, ROWS
from support.faults.plays import PLAYS
from support.faults.row import Row
from support.faults.scene import SEED, Scene, Unwanted
from support.faults.small_disk import why_not_mounted
from support.faults.summary import TRIED

DRAWN = 1
DRAW = frozenset(row.id for row in Random(SEED).sample(ROWS, DRAWN))


def marked(row: Row) -> object:
    marks = [] if row.id in DRAW else [pytest.mark.nightly]
    if row.place.needs_s3:
        marks += [pytest.mark.s3, pytest.mark.xdist_group("faults-s3")]
    if reason := FAILS_TODAY.get(row.id):
        marks.append(pytest.mark.xfail(raises=Unwanted, strict=row.id not in FAILS_BY_CHANCE, reason=reason))
    return pytest.param(row, id=row.id, marks=marks)


def rows_of(rule: int) -> list[object]:
    return [marked(row) for row in ROWS if row.rule == rule]


@pytest.fixture
def play(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[Row], None]:
    def played(row: Row) -> None:
        if row.place.disks and (reason := why_not_mounted()):
            pytest.skip(reason)
        s3 = request.getfixturevalue("s3_server") if row.place.needs_s3 else None
        with Scene(tmp_path, row.place, s3) as scene:
            PLAYS[row.play](scene, row)

    return played


@pytest.mark.faults
@pytest.mark.parametrize("row", rows_of(11))
def test_rule_11_older_metadata_write_and_delete_nothing(
    row: Row, play, record_property, record_tried
) -> None:
    record_property(TRIED, row.id)
    record_tried("faults", 1)
    play(row)


@pytest.mark.faults
@pytest.mark.parametrize("row", rows_of(12))
def test_rule_12_a_fault_shows_and_nothing_stalls_or_is_lost(
    row: Row, play, record_property, record_tried
) -> None:
    record_property(TRIED, row.id)
    record_tried("faults", 1)
    play(row)


def test_the_table_has_no_row_twice_and_the_marks_name_rows() -> None:
    ids = [row.id for row in ROWS]
    assert len(ids) == len(set(ids))
    assert FAILS_BY_CHANCE <= set(FAILS_TODAY) <= set(ids)
    assert len(DRAW) == DRAWN
