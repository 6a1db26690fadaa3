"""Defines the port to a format of tables: what an export needs of Parquet, Iceberg and Delta alike.

A loaded table shows one state of the table. ``append`` commits on top of that state, and is refused if the table has
changed since: two drivers that loaded the same ledger cannot both commit.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from siltstone.maintenance.tables.ledger import Ledger
from siltstone.topic_configs.table_export import KAFKA, PartitionTransform

PartitionValue = str | int | bool | None


class DataFile(msgspec.Struct, frozen=True, array_like=True):
    """A Parquet file of a table. ``path`` is below the table's folder; ``partition`` has one value for each transform
    (times count from 1970)."""

    path: str
    rows: int
    size_bytes: int
    partition: tuple[PartitionValue, ...] = ()


class Replacement(msgspec.Struct, frozen=True):
    """Data files that a commit replaces: the paths of old ones, and new ones. ``keeps_rows``: old and new files have
    the same rows, so a reader that follows the table need not read the new ones."""

    removed: tuple[str, ...]
    added: tuple[DataFile, ...]
    keeps_rows: bool


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
    def place(self) -> str:
        """The folder, or the metadata file, that other programs need to read the table."""
        ...

    @property
    def rows(self) -> int: ...

    def files(self) -> Iterator[DataFile]:
        """Yields the data files of the table. Raises what the catalog and the store raise."""
        ...

    def kept_paths(self) -> set[str]:
        """Returns the paths of all files that the table needs in its present state, or in an older state to which it
        can be set back: data files, and metadata files of the format."""
        ...

    def expire(self, now_ms: int) -> None:
        """Drops states of the table that are older than a day, except the newest ten. Raises CommitUnknown."""
        ...

    def append(
        self, files: Sequence[DataFile], ledger: Ledger, replacement: Replacement | None = None
    ) -> None:
        """Commits the data files, the ledger and a replacement together, trying once. Raises CommitOvertaken, and
        CommitUnknown for any exception after the commit was sent. Any other exception is raised before that."""
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


def plain_column(path: str) -> str:
    """Returns the column by which a table is divided, as the configurations name it."""
    return path.removeprefix(f"{KAFKA}.")


def folder_of(name: str) -> str:
    """Returns the folder of a table below ``tables.location``, as a key prefix that ends in a slash."""
    return f"{name.replace('.', '/')}/"
