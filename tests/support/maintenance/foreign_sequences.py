"""Draws sequences of exports and of what deltalake and pyiceberg do to the table between them, all from one seed, and
compares the table with a plain model after each step."""

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pyarrow.parquet as pq
from pyiceberg.types import StringType

from support.maintenance.foreign_table import ForeignTable, Row, flat
from support.maintenance.foreign_writers import (
    delete_by_positions,
    delete_by_vector,
    delta_table,
    expire_all_but,
    iceberg_table,
    rows_by_reader,
    set_snapshot,
)
from support.maintenance.table_world import TableWorld, table_world

FORMATS, MODES = ("delta", "iceberg"), ("append", "upsert")
OURS = 5
"""An export is drawn so many times as often as each deed of another program."""
_STRING = StringType()


class Sequence:
    """What a seed draws: the kind of the table, then its steps. ``said`` has the steps that were done, ``counts`` how
    many of a kind."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.table_format, self.mode = self.rng.choice(FORMATS), self.rng.choice(MODES)
        self.is_divided = self.mode == "append" and self.rng.random() < 0.3
        self.said: list[str] = []
        self.counts: Counter[str] = Counter()

    def play(self, folder: Path, steps: int) -> None:
        with table_world(folder, self.table_format) as world:
            given = {"partition_by": "identity(b)"} if self.is_divided else {}
            kind = _Delta if self.table_format == "delta" else _Iceberg
            played = kind(self, world, ForeignTable(world, self.mode, **given))
            played.table.append(3)
            played.export()
            for _ in range(steps):
                step = self.rng.choice([*[played.export] * OURS, played.table.next_day, *played.deeds()])
                self.said.append(step.__name__)
                step()
                self.counts["steps"] += 1
                played.table.check()


class _Deeds:
    """The steps of any format."""

    def __init__(self, of: Sequence, world: TableWorld, table: ForeignTable) -> None:
        self.of, self.rng, self.world, self.table = of, of.rng, world, table
        self.inserted = 0
        self.seen: list[Any] = []

    def export(self) -> None:
        self.table.append(self.rng.randint(1, 3), tombstone=self.rng.random() < 0.2)
        refusal = self.table.export_or_refusal()
        if refusal:
            self.of.counts["refusals"] += 1
            self.table.check()
            self.advised(refusal)
            self.table.export()
        self.of.counts["exports"] += 1
        self.seen = []
        self.note()

    def advised(self, refusal: str) -> None:
        raise AssertionError(refusal)

    def deeds(self) -> list[Callable[[], None]]:
        raise NotImplementedError

    def state(self) -> Any:
        raise NotImplementedError

    def note(self) -> None:
        """Keeps the model as it is now, for a restore to this state."""
        self.seen.append(self.state())
        self.table.save(self.seen[-1])

    def drawn(self) -> tuple[str, Callable[[Row], bool]]:
        """Returns a filter, and the rows that it means."""
        one = self.rng.choice([each["a"] for each in self.table.model.rows] or [0])
        return f"a = {one}", lambda row: row["a"] == one

    def new_row(self) -> Any:
        self.inserted += 1
        return self.table.new_row(a=1_000 + self.inserted, b="x")

    def delete_positions(self) -> None:
        """Deletes rows of a file, and writes no other data file."""
        with self.world.table_of() as table:
            files = [each for each in table.files() if not each.deleted and not each.kept]
        if not files:
            return
        path = self.rng.choice(sorted(each.path for each in files))
        whole = pq.read_table(self.world.folder / "tables" / "kafka" / "t" / path)
        rows = flat(whole)
        positions = sorted(self.rng.sample(range(len(rows)), self.rng.randint(1, len(rows))))
        self.write_positions(path, positions)
        gone = [(rows[at]["offset"], rows[at]["a"]) for at in positions]
        self.table.model.delete(lambda row: (row["offset"], row["a"]) in gone)

    def write_positions(self, path: str, positions: list[int]) -> None:
        raise NotImplementedError


class _Delta(_Deeds):
    def deeds(self) -> list[Callable[[], None]]:
        return [
            self.delete, self.update, self.overwrite, self.insert, self.compact, self.z_order, self.vacuum,
            self.checkpoint, self.delete_positions, self.restore,
        ]  # fmt: skip

    def advised(self, refusal: str) -> None:
        assert refusal.startswith("TableFileRefused") and "optimize.z_order([COLUMN])" in refusal, refusal
        self.z_order()

    def state(self) -> int:
        return delta_table(self.world).version()

    def delete(self) -> None:
        text, is_meant = self.drawn()
        delta_table(self.world).delete(text)
        self.table.model.delete(is_meant)
        self.note()

    def update(self) -> None:
        if self.of.is_divided:
            return
        text, is_meant = self.drawn()
        delta_table(self.world).update(updates={"b": "'changed'"}, predicate=text)
        self.table.model.update(is_meant, b="changed")
        self.note()

    def overwrite(self) -> None:
        deltalake.write_deltalake(delta_table(self.world), rows_by_reader(self.world), mode="overwrite")
        self.note()

    def insert(self) -> None:
        deltalake.write_deltalake(delta_table(self.world), self.new_row(), mode="append")
        self.note()

    def compact(self) -> None:
        delta_table(self.world).optimize.compact()

    def z_order(self) -> None:
        delta_table(self.world).optimize.z_order(["a"])

    def vacuum(self) -> None:
        delta_table(self.world).vacuum(0, enforce_retention_duration=False, dry_run=False)
        self.seen = []  # their files are gone

    def checkpoint(self) -> None:
        delta_table(self.world).create_checkpoint()
        delta_table(self.world).cleanup_metadata()

    def restore(self) -> None:
        if states := [each for each in self.seen if each < self.state()]:
            state = self.rng.choice(states)
            delta_table(self.world).restore(state)
            self.table.restored(state)

    def write_positions(self, path: str, positions: list[int]) -> None:
        delete_by_vector(self.world, path, positions, is_inline=self.rng.random() < 0.5)


class _Iceberg(_Deeds):
    """pyiceberg cannot write a table that is divided by a bucket without another package."""

    def deeds(self) -> list[Callable[[], None]]:
        found = [self.delete_positions, self.expire, self.expire_some, self.restore]
        if not self.of.is_divided:
            found += [self.add_column, self.rename_column, self.drop_column]
        return found if self.of.mode == "upsert" else [*found, self.delete, self.overwrite, self.insert]

    def state(self) -> int:
        return iceberg_table(self.world).metadata.current_snapshot_id or 0

    def delete(self) -> None:
        text, is_meant = self.drawn()
        with warnings.catch_warnings(action="ignore"):  # of rows that are not there
            iceberg_table(self.world).delete(text.replace("=", "=="))
        self.table.model.delete(is_meant)
        self.note()

    def overwrite(self) -> None:
        iceberg_table(self.world).overwrite(rows_by_reader(self.world))
        self.note()

    def insert(self) -> None:
        iceberg_table(self.world).append(self.new_row())
        self.note()

    def expire(self) -> None:
        expire_all_but(self.world, self.state())
        self.seen = []

    def expire_some(self) -> None:
        listed = [each.snapshot_id for each in iceberg_table(self.world).metadata.snapshots]
        kept = set(self.rng.sample(listed, len(listed) // 2)) | {self.state()}
        expire_all_but(self.world, *kept)
        self.seen = [each for each in self.seen if each in kept]

    def restore(self) -> None:
        """Sets the table back to a state since the last export. Columns are not set back with it."""
        if self.seen:
            state = self.rng.choice(self.seen)
            set_snapshot(self.world, state)
            self.table.restored(state)

    def add_column(self) -> None:
        name = f"n{len(self.of.said)}"
        with iceberg_table(self.world).update_schema() as update:
            update.add_column(name, _STRING)
        self.table.model.add_column(name)
        self.seen = []

    def rename_column(self) -> None:
        if "b" in self.table.model.columns:
            name = f"b{len(self.of.said)}"
            with iceberg_table(self.world).update_schema() as update:
                update.rename_column("b", name)
            self.table.model.rename("b", name)
            self.seen = []

    def drop_column(self) -> None:
        others = [each for each in self.table.model.columns if each != "a"]
        if others:
            name = self.rng.choice(others)
            with iceberg_table(self.world).update_schema() as update:
                update.delete_column(name)
            self.table.model.drop(name)
            self.seen = []

    def write_positions(self, path: str, positions: list[int]) -> None:
        delete_by_positions(self.world, {path: positions})
