"""What a Spark with Delta or Iceberg does to a table of ours, what it makes of the rows, and what an export then does.

``{t}`` stands for the table, ``{exported}`` for its version or snapshot after the last export, ``{before}`` for the one
after the export before, ``{newest}`` for the one before the statements.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from support.maintenance.foreign_table import PlainTable, Row

Effect = Callable[[PlainTable], Any]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """``back_to`` is the state to which the statements restore the table, before their effect. ``refused`` is the error
    with which an export of a table in that mode stops, ``advice`` the statements after which it goes on, ``then`` their
    effect. ``is_readable``: ``read_table`` reads the table meanwhile."""

    name: str
    statements: tuple[str, ...]
    back_to: str = ""
    effect: Effect = lambda rows: None
    refused: dict[str, str] = {}
    advice: tuple[str, ...] = ()
    then: Effect = lambda rows: None
    is_readable: bool = True


def third(row: Row) -> bool:
    return row["a"] is not None and row["a"] % 3 == 1


DELETE = "DELETE FROM {t} WHERE a % 3 = 1"
UPDATE = "UPDATE {t} SET b = 'changed' WHERE a % 3 = 1"
MERGE = (
    "MERGE INTO {t} AS t USING (SELECT * FROM VALUES (7, 'm'), (8, 'm'), (1000, 'm') AS s(a, b)) AS s ON t.a = s.a"
    " WHEN MATCHED AND s.a = 7 THEN DELETE WHEN MATCHED THEN UPDATE SET b = s.b"
    " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, s.b)"
)


def deleted(rows: PlainTable) -> None:
    rows.delete(third)


def changed(rows: PlainTable) -> None:
    rows.update(third, b="changed")


def merged(rows: PlainTable) -> None:
    rows.delete(lambda row: row["a"] == 7)
    rows.update(lambda row: row["a"] == 8, b="m")
    rows.insert(a=1000, b="m")


def renamed(rows: PlainTable) -> None:
    rows.rename("b", "c")


def dropped(rows: PlainTable) -> None:
    rows.drop("b")


# -- Delta ---------------------------------------------------------------------------------------------------------

_VECTORS = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
_REWRITE = "OPTIMIZE {t} ZORDER BY (a)"
_MAPPING = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
_FILE_REFUSED = {"upsert": "TableFileRefused"}
_BOTH_ROLLED_BACK = {"append": "TableRolledBack", "upsert": "TableRolledBack"}
_BOTH_UNKNOWN = {"append": "TableHasUnknownFeatures", "upsert": "TableHasUnknownFeatures"}
_BOTH_SHAPED = {"append": "TableShapedOtherwise", "upsert": "TableShapedOtherwise"}

DELTA = (
    Case(name="delete", statements=(DELETE,), effect=deleted),
    Case(name="update", statements=(UPDATE,), effect=changed),
    Case(name="merge", statements=(MERGE,), effect=merged),
    Case(
        name="delete-vectors", statements=(_VECTORS, DELETE), effect=deleted, refused=_FILE_REFUSED,
        advice=(_REWRITE,),
    ),
    Case(
        name="update-vectors", statements=(_VECTORS, UPDATE), effect=changed, refused=_FILE_REFUSED,
        advice=(_REWRITE,),
    ),
    Case(
        name="merge-vectors", statements=(_VECTORS, MERGE), effect=merged, refused=_FILE_REFUSED,
        advice=(_REWRITE,),
    ),
    Case(name="optimize", statements=("OPTIMIZE {t}",)),
    Case(name="optimize-vectors", statements=(_VECTORS, DELETE, _REWRITE), effect=deleted),
    Case(name="vacuum", statements=(UPDATE, "VACUUM {t} RETAIN 0 HOURS"), effect=changed),
    Case(
        name="vacuum-vectors", statements=(_VECTORS, DELETE, _REWRITE, "VACUUM {t} RETAIN 0 HOURS"), effect=deleted
    ),
    Case(
        name="restore", statements=("RESTORE TABLE {t} TO VERSION AS OF {before}",),
        back_to="before",
        refused=_BOTH_ROLLED_BACK, advice=("RESTORE TABLE {t} TO VERSION AS OF {exported}",),
    ),
    Case(name="restore-own", statements=(UPDATE, "RESTORE TABLE {t} TO VERSION AS OF {exported}")),
    Case(
        name="rename-column", statements=(_MAPPING, "ALTER TABLE {t} RENAME COLUMN b TO c"), effect=renamed,
        refused=_BOTH_UNKNOWN, is_readable=False,
        advice=(
            "ALTER TABLE {t} RENAME COLUMN c TO b",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",
        ),
        then=lambda rows: rows.rename("c", "b"),
    ),
    Case(
        name="drop-column", statements=(_MAPPING, "ALTER TABLE {t} DROP COLUMN b"), effect=dropped,
        refused=_BOTH_UNKNOWN, is_readable=False,
        advice=("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",),
    ),
    Case(
        name="add-column", statements=("ALTER TABLE {t} ADD COLUMNS (c STRING)", "UPDATE {t} SET c = b"),
        effect=lambda rows: (rows.add_column("c"), copied(rows)),
    ),
)  # fmt: skip


def copied(rows: PlainTable) -> None:
    for each in rows.rows:
        each["c"] = each["b"]


# -- Iceberg -------------------------------------------------------------------------------------------------------

_ON_READ = (
    "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read',"
    " 'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')"
)
_REWRITE_FILES = (
    "CALL siltstone.system.rewrite_data_files(table => 'kafka.t', options => map('rewrite-all', 'true'))"
)
_EXPIRE = (
    "CALL siltstone.system.expire_snapshots(table => 'kafka.t', older_than => TIMESTAMP '2100-01-01 00:00:00',"
    " retain_last => 1)"
)
_MORE = "INSERT INTO {t} SELECT 2000, 'xx', NULL, NULL"


def inserted(rows: PlainTable) -> None:
    rows.insert(a=2000, b="xx")


ICEBERG = (
    Case(name="delete", statements=(DELETE,), effect=deleted),
    Case(name="update", statements=(UPDATE,), effect=changed),
    Case(name="merge", statements=(MERGE,), effect=merged),
    Case(name="delete-on-read", statements=(_ON_READ, DELETE), effect=deleted),
    Case(name="update-on-read", statements=(_ON_READ, UPDATE), effect=changed),
    Case(name="merge-on-read", statements=(_ON_READ, MERGE), effect=merged),
    Case(name="rewrite", statements=(_REWRITE_FILES,)),
    Case(name="rewrite-on-read", statements=(_ON_READ, DELETE, _REWRITE_FILES), effect=deleted),
    Case(
        name="rewrite-manifests",
        statements=(_ON_READ, DELETE, "CALL siltstone.system.rewrite_manifests(table => 'kafka.t')"), effect=deleted,
    ),
    Case(name="expire", statements=(_ON_READ, DELETE, UPDATE, _EXPIRE), effect=deleted),
    Case(name="expire-rewritten", statements=(_ON_READ, UPDATE, _REWRITE_FILES, _EXPIRE), effect=changed),
    Case(
        name="rollback", statements=("CALL siltstone.system.rollback_to_snapshot('kafka.t', {before})",),
        back_to="before",
        refused=_BOTH_ROLLED_BACK, advice=("CALL siltstone.system.set_current_snapshot('kafka.t', {exported})",),
    ),
    Case(
        name="rollback-own",
        statements=(UPDATE, "CALL siltstone.system.rollback_to_snapshot('kafka.t', {exported})"),
    ),
    Case(
        name="rollback-expired",
        statements=(
            "CALL siltstone.system.rollback_to_snapshot('kafka.t', {before})",
            DELETE, _EXPIRE,
        ),
        back_to="before", effect=deleted,
        refused=_BOTH_ROLLED_BACK,
    ),
    Case(name="rename-column", statements=("ALTER TABLE {t} RENAME COLUMN b TO c",), effect=renamed),
    Case(name="drop-column", statements=("ALTER TABLE {t} DROP COLUMN b",), effect=dropped),
    Case(
        name="add-column", statements=("ALTER TABLE {t} ADD COLUMNS (c STRING)", "UPDATE {t} SET c = b"),
        effect=lambda rows: (rows.add_column("c"), copied(rows)),
    ),
    Case(
        name="divide", statements=("ALTER TABLE {t} ADD PARTITION FIELD truncate(1, b)", _MORE), effect=inserted,
        refused=_BOTH_SHAPED, advice=("ALTER TABLE {t} DROP PARTITION FIELD truncate(1, b)", _REWRITE_FILES),
    ),
    Case(
        name="divided-once",
        statements=(
            "ALTER TABLE {t} ADD PARTITION FIELD truncate(1, b)", _MORE, UPDATE,
            "ALTER TABLE {t} DROP PARTITION FIELD truncate(1, b)",
        ),
        effect=lambda rows: (inserted(rows), rows.update(lambda row: row["a"] % 3 == 1, b="changed")),
        refused=_FILE_REFUSED, advice=(_REWRITE_FILES,),
    ),
    Case(
        name="elsewhere",
        statements=("ALTER TABLE {t} SET TBLPROPERTIES ('write.data.path' = '{elsewhere}')", UPDATE), effect=changed,
        refused=_FILE_REFUSED,
        advice=("ALTER TABLE {t} UNSET TBLPROPERTIES ('write.data.path')", _REWRITE_FILES),
    ),
    Case(
        name="orc",
        statements=("ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default' = 'orc')", UPDATE), effect=changed,
        refused=_FILE_REFUSED, is_readable=False,
        advice=("ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default' = 'parquet')", _REWRITE_FILES),
    ),
)  # fmt: skip

CASES = {"delta": DELTA, "iceberg": ICEBERG}
