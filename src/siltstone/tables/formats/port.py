"""Defines the port to a format of tables: what an export needs of Parquet, Iceberg and Delta alike.

A loaded table shows one state of the table. ``append`` commits on top of that state, and is refused if the table has
changed since: two drivers that loaded the same ledger cannot both commit.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import msgspec

from siltstone.tables.ledger import Ledger
from siltstone.topic_configs.table_export import KAFKA, PartitionTransform

PartitionValue = str | int | bool | None

OWN_NAME = re.compile(r"data/(\d+)-[0-9a-f]{16}-\d{5}-\d{4}\.parquet")
"""The name that a task gives a data file. The number is that of its job."""


class DataFile(msgspec.Struct, frozen=True, array_like=True):
    """A Parquet file of a table. ``path`` is below the table's folder; ``partition`` has one value for each transform
    (times count from 1970)."""

    path: str
    rows: int
    size_bytes: int
    partition: tuple[PartitionValue, ...] = ()


class TableFile(DataFile, frozen=True, array_like=True):
    """A data file as a table lists it, with the deletes of other programs that apply to it (rule 16). A file with other
    deletes is another file: two are equal only if their deletes are.

    ``deleted`` says which rows were deleted, as ``row_deletes`` packs them, and ``deleted_rows`` how many. ``lacks`` is
    true if columns by which the table is divided may not be in the file. ``is_divided_otherwise``: the partition value
    is of another division than the present one, so the file may have rows of any partition value. ``unreadable`` says
    why this program cannot read the file as the table means it, ``kept`` why it cannot replace it by another file;
    empty: it can."""

    deleted: bytes = b""
    deleted_rows: int = 0
    lacks: bool = False
    is_divided_otherwise: bool = False
    unreadable: str = ""
    kept: str = ""

    @property
    def live_rows(self) -> int:
        return self.rows - self.deleted_rows

    @property
    def other_rows(self) -> str:
        """Says why the table has other rows than the file; empty if it has the same."""
        if self.unreadable:
            return self.unreadable
        if self.deleted:
            return "another program has deleted rows of it, and they are still in the file"
        return (
            "another program has written it without the columns by which the table is divided"
            if self.lacks
            else ""
        )


def listed(file: DataFile, **found: Any) -> TableFile:
    """Returns the file as a table lists it; ``found`` has the fields of the deletes."""
    return TableFile(file.path, file.rows, file.size_bytes, file.partition, **found)


class Replacement(msgspec.Struct, frozen=True):
    """Data files that a commit replaces, as the table listed them, and new ones. ``keeps_rows``: old and new files have
    the same rows, so a reader that follows the table need not read the new ones."""

    removed: tuple[TableFile, ...]
    added: tuple[DataFile, ...]
    keeps_rows: bool


class TableUse(Enum):
    """What a table is loaded for. Each value allows what those before it allow."""

    READ = 0
    APPEND = 1
    UPSERT = 2


class LoadedTable(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def ledger(self) -> Ledger:
        """Raises LedgerLost, TableNotOurs, TableRolledBack."""
        ...

    @property
    def schema(self) -> Any:
        """The columns of records as a pyarrow.Schema, with the field ids of the format."""
        ...

    @property
    def file_schema(self) -> Any:
        """The pyarrow.Schema of data files. A Delta table has more columns, by which it is divided."""
        ...

    @property
    def partition_by(self) -> tuple[PartitionTransform, ...]:
        """The transforms by which the table is divided; transforms that an export never makes have the names that the
        format gives them."""
        ...

    @property
    def columns_of_division(self) -> tuple[PartitionTransform, ...]:
        """The transforms whose values are columns of the table, with columns as paths in the schema. Only Delta tables
        have some."""
        ...

    @property
    def place(self) -> str:
        """The folder, or the metadata file, that other programs need to read the table."""
        ...

    @property
    def rows(self) -> int:
        """The number of rows, without rows that other programs have deleted. Unreadable files are counted whole."""
        ...

    @property
    def has_names_of_files(self) -> bool:
        """Whether each column has had its present name, and no other column has had it, in every data file."""
        ...

    def files(self) -> Iterator[TableFile]:
        """Yields the data files of the table, with the deletes that apply to them. Raises what the catalog and the
        store raise."""
        ...

    def refuse_unknown_features(self, use: TableUse) -> None:
        """Raises TableHasUnknownFeatures if the table has a feature that this program does not know how to keep."""
        ...

    def kept_paths(self) -> set[str]:
        """Returns the paths of all files that the table needs in its present state, or in an older state to which it
        can be set back: data files, and metadata files of the format."""
        ...

    def expire(self, now_ms: int) -> None:
        """Drops states of the table that are older than a day, except the newest ten. Raises CommitUnknown."""
        ...

    def forget_before(self, state: int | None) -> tuple[str, ...]:
        """Drops all states before the one of an export (``Ledger.snapshot_id``), for an erasure, which then deletes
        their files. Returns what holds older states all the same. Raises CommitOvertaken, CommitUnknown."""
        ...

    def paths_since(self, state: int | None, committed_ms: int) -> set[str]:
        """Returns the paths of the files that the present state needs, or a state after that export, which was
        committed then; also those of older states that something holds."""
        ...

    def append(
        self, files: Sequence[DataFile], ledger: Ledger, replacement: Replacement | None = None
    ) -> None:
        """Commits the data files, the ledger and a replacement together, trying once. Raises CommitOvertaken, also if a
        file that is to be replaced has other deletes now, TableHasUnknownFeatures, and CommitUnknown for any exception
        after the commit was sent. Any other exception is raised before that."""
        ...

    def add_columns(self, schema: Any) -> None:
        """Commits the columns of a pyarrow.Schema that the table lacks, and no ledger. Raises CommitOvertaken,
        CommitUnknown."""
        ...

    def offsets_from(self, ends: Mapping[int, int]) -> dict[int, list[int]]:
        """Returns the offsets of rows at or after ``ends``, by partition. A partition without an end is left out."""
        ...


class TableFormat(Protocol):
    def load(self, name: str) -> LoadedTable | None:
        """Loads the newest state of the table; None if there is no table. Raises LedgerLost, CatalogFailed."""
        ...

    def make(
        self, name: str, ledger: Ledger, schema: Any, partition_by: Sequence[PartitionTransform]
    ) -> LoadedTable:
        """Makes the table, with a ledger without offsets. ``partition_by`` has columns as paths in the schema, such as
        ``kafka.timestamp``. If another driver has made the table meanwhile, that table is returned."""
        ...

    def close(self) -> None: ...


def use_of(replacement: Replacement | None) -> TableUse:
    """Returns the use of a table that a commit is."""
    return TableUse.APPEND if replacement is None or replacement.keeps_rows else TableUse.UPSERT


def plain_column(path: str) -> str:
    """Returns the column by which a table is divided, as the configurations name it."""
    return path.removeprefix(f"{KAFKA}.")


def folder_of(name: str) -> str:
    """Returns the folder of a table below ``tables.location``, as a key prefix that ends in a slash."""
    return f"{name.replace('.', '/')}/"
