"""Reads and writes plain Parquet tables: data files, and beside them commit files that say which data files belong to
the table.

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

from siltstone.model.errors import Unavailable
from siltstone.model.limits import DAY_MS
from siltstone.object_store.port import ObjectAlreadyExists, ObjectStore
from siltstone.tables.failures import CommitOvertaken, LedgerLost, TableCommitUnknown, TableRolledBack
from siltstone.tables.formats.port import (
    DataFile,
    LoadedTable,
    Replacement,
    TableFile,
    TableUse,
    folder_of,
    listed,
    plain_column,
)
from siltstone.tables.ledger import LAYOUT, PREFIX, Ledger, ledger_of, properties_of
from siltstone.topic_configs.table_export import KAFKA, PartitionTransform

# Why a table format of our own: a folder of Parquet files has no commit, so readers would see half an export, and a
# repeated one would double rows. Numbered files need nothing but an exclusive put. Users who have pyiceberg or
# deltalake choose those formats.
COMMITS = "_siltstone/"
_DIGITS = 20
_LAYOUT = f"{PREFIX}layout"
REPLACING_LAYOUT = "2"
WHOLE_EVERY = 20
"""At most this many commit files are read to find the data files of a table."""
REPLACED_AGE_MS = 1 * DAY_MS
"""A reader that has listed the files a day ago still finds them all."""


class ParquetCommit(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a commit file, as JSON. ``schema`` is the schema of the table, in Arrow's IPC form; ``rows``
    counts the rows of all data files so far. ``files`` are the data files that this commit adds.

    A commit of layout 2 may also remove files, ``removed``, and list all files that the table has afterwards,
    ``whole``. Every later commit has layout 2, too, so that a program which knows only layout 1 does not read the
    table."""

    number: int
    rows: int
    properties: dict[str, str]
    partition_by: tuple[PartitionTransform, ...]
    schema: bytes
    files: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    whole: tuple[DataFile, ...] | None = None

    @property
    def layout(self) -> str:
        return self.properties.get(_LAYOUT, "")


class ParquetTable:
    """Implements LoadedTable."""

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
        properties = self._newest.properties
        if self._newest.layout == REPLACING_LAYOUT:
            properties = {**properties, _LAYOUT: str(LAYOUT)}
        return ledger_of(self._name, properties)

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
    def columns_of_division(self) -> tuple[PartitionTransform, ...]:
        return ()

    @property
    def place(self) -> str:
        return f"{self._store.url.split('?')[0].rstrip('/')}/{folder_of(self._name)}"

    @property
    def rows(self) -> int:
        return self._newest.rows

    @property
    def has_names_of_files(self) -> bool:
        """No other program changes a table whose commit files are ours."""
        return True

    def refuse_unknown_features(self, use: TableUse) -> None:
        """Does nothing: a layout that is not known is refused with the ledger."""

    def files(self) -> Iterator[TableFile]:
        yield from map(listed, self._files())

    def _files(self) -> Iterator[DataFile]:
        found: dict[str, DataFile] = {}
        for commit in reversed(list(self._commits_since_whole())):
            if commit.whole is not None:
                found = {each.path: each for each in commit.whole}
                continue
            for path in commit.removed:
                del found[path]
            found |= {each.path: each for each in commit.files}
        yield from found.values()

    def _commits_since_whole(self) -> Iterator[ParquetCommit]:
        """Yields the commits from the newest back to one that lists all files, or to the first."""
        commit = self._newest
        yield commit
        while commit.whole is None and commit.number:
            commit = _read(self._name, self._store, commit.number - 1)
            yield commit

    def kept_paths(self) -> set[str]:
        """Returns the files of the table, and the files that were replaced in the day before its last commit."""
        return self.paths_since(None, _time_of(self._newest) - REPLACED_AGE_MS)

    def paths_since(self, state: int | None, committed_ms: int) -> set[str]:
        kept = {each.path for each in self.files()}
        commit = self._newest
        while _time_of(commit) > committed_ms:
            kept.update(commit.removed)
            if not commit.number:
                break
            commit = _read(self._name, self._store, commit.number - 1)
        return kept

    def expire(self, now_ms: int) -> None:
        """Does nothing: a Parquet table has a single state, that of all its commit files."""

    def forget_before(self, state: int | None) -> tuple[str, ...]:
        """Does nothing, for the same reason. Commit files stay: they name files and partition values."""
        return ()

    def append(
        self, files: Sequence[DataFile], ledger: Ledger, replacement: Replacement | None = None
    ) -> None:
        rows = self._newest.rows + sum(each.rows for each in files)
        removed: tuple[str, ...] = ()
        if replacement is not None:
            if not replacement.keeps_rows:
                rows += sum(each.rows for each in replacement.added)
                rows -= sum(each.live_rows for each in replacement.removed)
            removed, files = tuple(each.path for each in replacement.removed), (*files, *replacement.added)
        self._commit(rows=rows, properties=properties_of(ledger), files=tuple(files), removed=removed)

    def add_columns(self, schema: Any) -> None:
        known = self.schema
        added = [field for field in schema if field.name not in known.names]
        fields = list(known)
        at = next((at for at, field in enumerate(fields) if field.name == KAFKA), len(fields))
        fields[at:at] = added
        self._commit(files=(), removed=(), schema=pa.schema(fields).serialize().to_pybytes())

    def _commit(self, **changes: Any) -> None:
        number, layout = self._newest.number + 1, self._newest.layout
        commit = msgspec.structs.replace(self._newest, number=number, whole=None, **changes)
        if number % WHOLE_EVERY == 0:
            there = [each for each in self._files() if each.path not in commit.removed]
            commit = msgspec.structs.replace(commit, whole=(*there, *commit.files))
        if layout == REPLACING_LAYOUT or commit.removed or commit.whole is not None:
            properties = {**commit.properties, _LAYOUT: REPLACING_LAYOUT}
            commit = msgspec.structs.replace(commit, properties=properties)
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
    """Implements TableFormat. ``store`` is the store of ``tables.location``."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def load(self, name: str) -> LoadedTable | None:
        keys = [each.key for each in self._store.list(f"{folder_of(name)}{COMMITS}")]
        if not keys:
            return None
        try:
            number = int(keys[-1].rpartition("/")[2].removesuffix(".json"))
        except ValueError as damage:
            raise LedgerLost(name, f"{keys[-1]} is not a commit file") from damage
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


def _time_of(commit: ParquetCommit) -> int:
    return int(commit.properties.get(f"{PREFIX}time", 0))


def _bytes_of(commit: ParquetCommit) -> bytes:
    """Returns the content of a commit file in its layout: in layout 1 it has fewer fields."""
    if commit.layout == REPLACING_LAYOUT:
        return msgspec.json.encode(commit)
    written = msgspec.to_builtins(commit)
    return msgspec.json.encode({name: written[name] for name in written if name not in ("removed", "whole")})


def _key(name: str, number: int) -> str:
    return f"{folder_of(name)}{COMMITS}{number:0{_DIGITS}}.json"


def _write(name: str, store: ObjectStore, commit: ParquetCommit) -> None:
    try:
        store.put_if_absent(_key(name, commit.number), [_bytes_of(commit)])
    except ObjectAlreadyExists as overtaken:
        raise CommitOvertaken(f"commit {commit.number} of table {name} is another driver's") from overtaken
    except Unavailable as trouble:
        raise TableCommitUnknown(f"the commit to table {name} may have been written: {trouble}") from trouble


def _read(name: str, store: ObjectStore, number: int) -> ParquetCommit:
    key = _key(name, number)
    try:
        data = store.get_range(key, 0, store.head(key).size_bytes)
        return msgspec.json.decode(data, type=ParquetCommit)
    except (msgspec.DecodeError, UnicodeDecodeError) as damage:
        raise LedgerLost(name, f"its commit file {key} is damaged: {damage}") from damage
