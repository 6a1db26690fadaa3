"""Iceberg tables that were rolled back, and others whose snapshots were expired: only the first are stopped."""

from pathlib import Path

import pytest

from support.maintenance.foreign_writers import (
    expire_all_but,
    iceberg_table,
    offsets_by_reader,
    set_snapshot,
)
from support.maintenance.table_world import TableWorld


@pytest.fixture
def exported(iceberg: TableWorld) -> TableWorld:
    """Three exports of a record each, whose offset is the number of the export."""
    iceberg.kept(partition_by="")
    for _ in range(3):
        append(iceberg)
        iceberg.export_now()
    return iceberg


def append(world: TableWorld) -> None:
    (partition,) = world.topic_named().partitions
    world.append_pairs(partition.data_stream_id, [("k", "v")])


def states(world: TableWorld) -> list[int]:
    """Returns the snapshots of the exports."""
    return [each.snapshot_id for each in iceberg_table(world).metadata.snapshots]


def delete(world: TableWorld, offset: int) -> int:
    table = iceberg_table(world)
    table.delete(f"offset == {offset}")
    return table.metadata.current_snapshot_id or 0


def test_tb22_a_rollback_whose_undone_snapshots_are_listed_is_found(exported: TableWorld) -> None:
    set_snapshot(exported, states(exported)[0])
    append(exported)
    assert "TableRolledBack" in exported.why_failed()


@pytest.mark.parametrize("is_changed", [False, True])
def test_tb22_a_rollback_whose_undone_snapshots_were_expired_is_found(
    exported: TableWorld, is_changed: bool
) -> None:
    first, second, _ = states(exported)
    set_snapshot(exported, second)
    current = delete(exported, 0) if is_changed else second
    expire_all_but(exported, current)
    append(exported)
    before = offsets_by_reader(exported)
    assert "TableRolledBack" in exported.why_failed()
    assert offsets_by_reader(exported) == before and first not in states(exported)


def test_tb22_snapshots_that_are_expired_after_the_last_export_are_no_rollback(exported: TableWorld) -> None:
    """The snapshot of the last export is still listed; the one between it and the current one is not."""
    last = states(exported)[-1]
    delete(exported, 0)
    current = delete(exported, 1)
    expire_all_but(exported, last, current)
    append(exported)
    exported.export_now()
    assert offsets_by_reader(exported) == [2, 3]


@pytest.mark.parametrize("is_expired", [False, True])
def test_tb22_a_rollback_that_was_taken_back_stops_nothing(exported: TableWorld, is_expired: bool) -> None:
    first, _, last = states(exported)
    set_snapshot(exported, first)
    set_snapshot(exported, last)
    current = delete(exported, 1)
    if is_expired:
        expire_all_but(exported, current)
    append(exported)
    exported.export_now()
    assert offsets_by_reader(exported) == [0, 2, 3]


def test_tb22_without_older_metadata_files_what_is_not_listed_counts_as_expired(exported: TableWorld) -> None:
    expire_all_but(exported, delete(exported, 0))
    newest = Path(iceberg_table(exported).metadata_location.removeprefix("file://"))
    for each in newest.parent.glob("*.metadata.json"):
        if each != newest:
            each.unlink()
    append(exported)
    exported.export_now()
    assert offsets_by_reader(exported) == [1, 2, 3]
