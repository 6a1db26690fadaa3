"""A plain Parquet table: data files, and beside them commit files that say which data files count.

    NAMESPACE/TABLE/_siltstone/00000000000000000003.json      the third commit: ledger, columns, its data files
    NAMESPACE/TABLE/data/…/….parquet                          data files

A commit file is written only if there is none with its number, so of two drivers that commit at once one is refused.
Readers read the data files that commit files list (``siltstone tables show --files``); rounds that failed may have left
other files in the folder.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from siltstone.maintenance.tables.failures import CommitOvertaken, CommitUnknown, LedgerLost, TableRolledBack
from siltstone.maintenance.tables.formats.port import DataFile, LoadedTable, folder_of, plain_column
from siltstone.maintenance.tables.ledger import Ledger, ledger_of, properties_of
from siltstone.model.errors import Unavailable
from siltstone.object_store.port import ObjectAlreadyExists, ObjectStore
from siltstone.topic_configs.table_export import KAFKA, PartitionTransform

COMMITS = "_siltstone/"
_DIGITS = 20


class ParquetCommit(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a commit file, as JSON. ``schema`` is the table's, in Arrow's IPC form; ``rows`` counts those of
    all data files so far. ``files`` are those of this commit."""

    number: int
    rows: int
    properties: dict[str, str]
    partition_by: tuple[PartitionTransform, ...]
    schema: bytes
    files: tuple[DataFile, ...] = ()


class ParquetTable:
    """See LoadedTable."""

    def __init__(self, name: str, store: ObjectStore, newest: ParquetCommit, count: int) -> None:
        self._name = name
        self._store = store
        self._newest = newest
        self._count = count

    @property
    def name(self) -> str:
        return self._name

    @property
    def ledger(self) -> Ledger:
        if self._count != self._newest.number + 1:
            missing = f"{self._newest.number + 1 - self._count} of its commit files are missing"
            raise TableRolledBack(self._name, missing)
        return ledger_of(self._name, self._newest.properties)

    @property
    def schema(self) -> Any:
        return pa.ipc.read_schema(pa.py_buffer(self._newest.schema))

    @property
    def file_schema(self) -> Any:
        return self.schema

    @property
    def partition_by(self) -> tuple[PartitionTransform, ...]:
        return self._newest.partition_by

    @property
    def place(self) -> str:
        return f"{self._store.url.split('?')[0].rstrip('/')}/{folder_of(self._name)}"

    @property
    def rows(self) -> int:
        return self._newest.rows

    def files(self) -> Iterator[DataFile]:
        for number in range(self._newest.number + 1):
            yield from _read(self._name, self._store, number).files

    def kept_paths(self) -> set[str]:
        return {each.path for each in self.files()}

    def expire(self, now_ms: int) -> None:
        """Does nothing: a Parquet table has a single state, that of all its commit files."""

    def append(self, files: Sequence[DataFile], ledger: Ledger) -> None:
        rows = self._newest.rows + sum(each.rows for each in files)
        self._commit(rows=rows, properties=properties_of(ledger), files=tuple(files))

    def add_columns(self, schema: Any) -> None:
        known = self.schema
        added = [field for field in schema if field.name not in known.names]
        fields = list(known)
        at = next((at for at, field in enumerate(fields) if field.name == KAFKA), len(fields))
        fields[at:at] = added
        self._commit(files=(), schema=pa.schema(fields).serialize().to_pybytes())

    def _commit(self, **changes: Any) -> None:
        number = self._newest.number + 1
        commit = msgspec.structs.replace(self._newest, number=number, **changes)
        _write(self._name, self._store, commit)

    def offsets_from(self, ends: Mapping[int, int]) -> dict[int, list[int]]:
        """Reads only the files of the last commit: the offsets that earlier commits added are below ``ends``."""
        found: dict[int, list[int]] = {}
        for each in self._newest.files:
            data = self._store.get_range(f"{folder_of(self._name)}{each.path}", 0, each.size_bytes)
            rows = pq.read_table(BytesIO(data), columns=["partition", "offset"])
            collect_offsets(rows, ends, found)
        return found


def collect_offsets(rows: Any, ends: Mapping[int, int], found: dict[int, list[int]]) -> None:
    """Adds the offsets at or after ``ends`` of a pyarrow.Table with the columns partition and offset."""
    for partition, offset in zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True):
        if partition in ends and offset >= ends[partition]:
            found.setdefault(partition, []).append(offset)


class ParquetFormat:
    """See TableFormat. ``store`` is that of ``tables.location``."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def load(self, name: str) -> LoadedTable | None:
        keys = [each.key for each in self._store.list(f"{folder_of(name)}{COMMITS}")]
        if not keys:
            return None
        try:
            number = int(keys[-1].rpartition("/")[2].removesuffix(".json"))
        except ValueError as damage:
            raise LedgerLost(name, f"{keys[-1]} is none of its commit files") from damage
        return ParquetTable(name, self._store, _read(name, self._store, number), len(keys))

    def make(
        self, name: str, ledger: Ledger, schema: Any, partition_by: Sequence[PartitionTransform]
    ) -> LoadedTable:
        first = ParquetCommit(
            number=0,
            rows=0,
            properties=properties_of(ledger),
            partition_by=tuple(
                msgspec.structs.replace(each, column=plain_column(each.column)) for each in partition_by
            ),
            schema=schema.serialize().to_pybytes(),
        )
        with suppress(CommitOvertaken):  # another driver has made it
            _write(name, self._store, first)
        loaded = self.load(name)
        assert loaded is not None, "its first commit file is there"
        return loaded

    def close(self) -> None:
        return None


def _key(name: str, number: int) -> str:
    return f"{folder_of(name)}{COMMITS}{number:0{_DIGITS}}.json"


def _write(name: str, store: ObjectStore, commit: ParquetCommit) -> None:
    try:
        store.put_if_absent(_key(name, commit.number), [msgspec.json.encode(commit)])
    except ObjectAlreadyExists as overtaken:
        raise CommitOvertaken(f"commit {commit.number} of table {name} is another driver's") from overtaken
    except Unavailable as trouble:
        raise CommitUnknown(f"the commit to table {name} may have been written: {trouble}") from trouble


def _read(name: str, store: ObjectStore, number: int) -> ParquetCommit:
    key = _key(name, number)
    try:
        data = store.get_range(key, 0, store.head(key).size_bytes)
        return msgspec.json.decode(data, type=ParquetCommit)
    except (msgspec.DecodeError, UnicodeDecodeError) as damage:
        raise LedgerLost(name, f"its commit file {key} is damaged: {damage}") from damage
