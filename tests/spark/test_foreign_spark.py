"""Tables that a real Spark with Delta or Iceberg changes between exports, compared with a plain model (rule 16)."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import siltstone
from oracles.foreign_spark import ForeignSpark
from siltstone.tables import joining
from siltstone.tables.failures import TableFileRefused, TableHasUnknownFeatures
from support.maintenance.foreign_table import ForeignTable, Row, flat_row
from support.maintenance.foreign_writers import delete_by_equality, delta_table, iceberg_table
from support.maintenance.table_world import TableWorld, table_world
from support.processes.tried import RecordTried
from support.spark.foreign_cases import CASES, Case

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

_JOINED_FILES = 4
_ROUNDS_OF_A_JOIN = 8


def named_in_spark(world: TableWorld) -> tuple[str, dict[str, str]]:
    """Returns the name of the table for the foreign Spark, and the settings of its catalog."""
    folder, prefix = world.folder / "tables", "spark.sql.catalog.siltstone"
    if world.table_format == "delta":
        return f"delta.`{folder}/kafka/t`", {}
    return "siltstone.kafka.t", {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": f"jdbc:sqlite:{folder / 'catalog.sqlite'}",
        f"{prefix}.warehouse": folder.as_uri(),
        f"{prefix}.cache-enabled": "false",
        f"{prefix}.jdbc.init-catalog-tables": "false",
    }


class Played:
    """A table of a world, the foreign Spark that changes it, and our Spark that reads it."""

    def __init__(self, world: TableWorld, mode: str, foreign: ForeignSpark, spark: Any) -> None:
        self.world, self._foreign, self._spark = world, foreign, spark
        self.table = ForeignTable(world, mode)
        self._name, self._settings = named_in_spark(world)
        self.states: dict[str, Any] = {"elsewhere": f"{world.folder}/elsewhere"}

    def state(self) -> int:
        if self.world.table_format == "delta":
            return delta_table(self.world).version()
        return iceberg_table(self.world).metadata.current_snapshot_id or 0

    def sql(self, statement: str) -> list[Row]:
        whole = statement.format(t=self._name, **self.states)
        return self._foreign.sql(whole, str(self.world.folder), self._settings)

    def foreign_spark(self) -> list[Row]:
        rows = self.sql(
            "SELECT * EXCEPT (kafka, at), unix_micros(at) AS at,"
            " struct(kafka.offset, CAST(kafka.key AS STRING) AS key) AS kafka FROM {t}"
        )
        return [flat_row({**each, "kafka": _with_bytes(each["kafka"])}) for each in rows]

    def read_table(self) -> list[Row]:
        store: Any = SimpleNamespace(
            context=self.world.context, kind_settings=SimpleNamespace(tables=self.world.settings)
        )
        frame = siltstone.spark.read_table("t", store=store, spark=self._spark)
        rows = frame.selectExpr("* EXCEPT (at)", "unix_micros(at) AS at").collect()
        return [flat_row(each.asDict(recursive=True)) for each in rows]

    def check(self) -> None:
        self.table.check(self.foreign_spark, self.read_table, by_library=self.world.table_format != "delta")


def _with_bytes(record: Row) -> Row:
    return {"offset": record["offset"], "key": None if record["key"] is None else record["key"].encode()}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("table_format", "mode", "case"),
    [
        pytest.param(table_format, mode, case, id=f"{table_format}-{mode}-{case.name}")
        for table_format, cases in CASES.items()
        for mode in ("append", "upsert")
        for case in cases
    ],
)
def test_rule_16_what_another_spark_does_to_a_table_is_kept(
    spark: Any,
    foreign_spark: ForeignSpark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_tried: RecordTried,
    table_format: str,
    mode: str,
    case: Case,
) -> None:
    monkeypatch.setattr(joining, "SMALL_FILES_MAX", _JOINED_FILES)
    folder = tmp_path / "a store, with ä"
    with table_world(folder, table_format) as world:
        played = Played(world, mode, foreign_spark, spark)
        table = played.table
        table.append(10)
        table.export()
        played.states["before"] = played.state()
        table.save("before")
        table.round()
        played.states["exported"] = played.state()
        table.save("exported")
        for statement in case.statements:
            played.sql(statement)
        if case.back_to:
            table.restored(case.back_to)
        case.effect(table.model)
        refused = case.refused.get(mode, "")
        record_tried("tables that another Spark changed", 1)
        if case.is_readable:
            played.check()
        else:
            with pytest.raises((TableHasUnknownFeatures, TableFileRefused)):
                played.read_table()
        table.append(tombstone=True)
        refusal = table.export_or_refusal()
        assert refusal.startswith(refused) and bool(refusal) == bool(refused), refusal
        if refused and case.is_readable:
            table.check(by_library=table_format != "delta")
        if refused and not case.advice:
            return
        if refused or not case.is_readable:
            for statement in case.advice:
                played.sql(statement)
            if refused == "TableRolledBack":
                table.restored("exported")
            case.then(table.model)
        if refused:
            table.export()
        played.check()
        texts = [table.round() for _ in range(_ROUNDS_OF_A_JOIN if mode == "append" else 1)]
        assert mode == "upsert" or any("joined to" in each for each in texts), texts
        table.next_day()
        table.round()
        played.check()


@pytest.mark.timeout(900)
def test_rule_16_equality_deletes_are_gone_when_the_files_are_rewritten_as_the_error_says(
    spark: Any, foreign_spark: ForeignSpark, tmp_path: Path, record_tried: RecordTried
) -> None:
    """As Flink writes them; here the test does."""
    with table_world(tmp_path, "iceberg") as world:
        played = Played(world, "upsert", foreign_spark, spark)
        table = played.table
        table.append(5)
        table.export()
        delete_by_equality(world, "a", [1, 2])
        table.model.delete(lambda row: row["a"] in (1, 2))
        table.append()
        refusal = table.export_or_refusal()
        assert refusal.startswith("TableFileRefused")
        played.sql(told(refusal))
        table.check(played.foreign_spark, played.read_table)
        table.export()
        table.check(played.foreign_spark, played.read_table)
        record_tried("tables with equality deletes", 1)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_sq7_another_spark_reads_a_table_whose_rows_are_all_removed(
    foreign_spark: ForeignSpark, tmp_path: Path, record_tried: RecordTried, table_format: str
) -> None:
    """Each of its files has no rows, and the removed keys in its footer."""
    with table_world(tmp_path, table_format) as world:
        table = {"mode": "upsert", "value": "json", "columns": "at long", "sequence": "at", "buckets": "2"}
        (stream,) = world.kept(**table, retention="true")
        name, settings = named_in_spark(world)

        def keys_after(*pairs: tuple[str, str | None]) -> list[str]:
            world.append_pairs(stream, list(pairs))
            world.export_now()
            rows = foreign_spark.sql(
                f"SELECT CAST(kafka.key AS STRING) AS key FROM {name}", str(world.folder), settings
            )
            return sorted(each["key"] for each in rows)

        keys = "abcd"
        assert keys_after(*[(each, '{"at": 5}') for each in keys]) == [*keys]
        assert keys_after(*[(each, None) for each in keys]) == []
        assert keys_after(*[(each, '{"at": 4}') for each in keys], ("e", '{"at": 1}')) == ["e"]
        record_tried("tables without rows that another Spark read", 1)


def told(refusal: str) -> str:
    """Returns the statement that an error advises, for this table."""
    (advised,) = re.findall(r"CALL (system\.rewrite_data_files\(.*?\)\))", refusal)
    return f"CALL siltstone.{advised}".replace("'TABLE'", "'kafka.t'")
