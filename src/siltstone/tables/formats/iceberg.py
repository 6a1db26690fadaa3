"""Reads and writes Iceberg tables, with pyiceberg, in the user's catalog; by default an SQL catalog in the store's
folder.

The ledger is in table properties that are set in the transaction that adds the data files, so one metadata file has
both. Every commit adds a snapshot, even when it adds no files. The catalog refuses a snapshot if the table has got
another one since it was loaded; a commit of properties alone is not compared with other commits, and could set the
ledger back.

pyiceberg repeats a refused append on the newest metadata, which would append another driver's rows twice. So the number
of its attempts is set to one in memory; the value that is stored with the table stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any

import pyarrow.parquet as pq
from msgspec.structs import replace
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import AlwaysFalse, And, EqualTo, GreaterThanOrEqual, Or
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import TableProperties
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import ExpireSnapshots, _MergeAppendFiles, _OverwriteFiles
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.typedef import Record

from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import DAY_MS
from siltstone.tables import row_deletes
from siltstone.tables.failures import (
    CatalogFailed,
    CommitOvertaken,
    TableCommitUnknown,
    TableHasUnknownFeatures,
    TableNotOurs,
    TableRolledBack,
)
from siltstone.tables.formats.features import stopping_iceberg_features
from siltstone.tables.formats.iceberg_deletes import (
    data_files,
    has_deletes,
    names_are_kept,
    traits_of,
    why_kept,
    why_unreadable,
)
from siltstone.tables.formats.iceberg_history import comes_from
from siltstone.tables.formats.iceberg_statistics import file_statistics
from siltstone.tables.formats.locations import path_in
from siltstone.tables.formats.parquet import collect_offsets
from siltstone.tables.formats.port import (
    DataFile,
    LoadedTable,
    Replacement,
    TableFile,
    TableUse,
    folder_of,
    plain_column,
    use_of,
)
from siltstone.tables.ledger import PREFIX, Ledger, ledger_of, properties_of
from siltstone.topic_configs.table_export import (
    BUCKET,
    KAFKA,
    TIME_TRANSFORMS,
    TRUNCATE,
    PartitionTransform,
)

CATALOG_NAME = "siltstone"
_OF_TIME = dict(
    zip(TIME_TRANSFORMS, (YearTransform, MonthTransform, DayTransform, HourTransform), strict=True)
)
_ONE_TRY = "0"

_HOUSEKEEPING = {
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
}
"""Properties of a table that an export makes: an export every five minutes adds a hundred thousand manifests in a year,
and as many metadata files. The user may change them."""

SNAPSHOTS_MIN = 10
SNAPSHOT_AGE_MS = 1 * DAY_MS
"""A reader that began a day ago still finds its snapshot. A table also keeps ten states, however old, to which it can
be set back."""


class IcebergTable:
    """Implements LoadedTable. ``home`` is the same as of ``IcebergFormat``."""

    def __init__(self, name: str, table: Any, home: str) -> None:
        self._name = name
        self._table = table
        self._home = home

    @property
    def name(self) -> str:
        return self._name

    @property
    def ledger(self) -> Ledger:
        properties = self._table.properties
        if not any(key.startswith(PREFIX) for key in properties):
            raise TableNotOurs(self._name)
        ledger = ledger_of(self._name, properties)
        with _catalog_errors(self._name):
            is_known = ledger.snapshot_id is None or comes_from(self._table, ledger.snapshot_id)
        if not is_known:
            reason = f"snapshot {ledger.snapshot_id} of the last export is not in its history"
            raise TableRolledBack(self._name, reason)
        return ledger

    @property
    def schema(self) -> Any:
        return schema_to_pyarrow(self._table.schema())

    @property
    def file_schema(self) -> Any:
        return self.schema

    @property
    def partition_by(self) -> tuple[PartitionTransform, ...]:
        schema, found = self._table.schema(), []
        for field in self._table.spec().fields:
            column = schema.find_column_name(field.source_id) or ""
            found.append(PartitionTransform(str(field.transform), plain_column(column)))
        return tuple(found)

    @property
    def columns_of_division(self) -> tuple[PartitionTransform, ...]:
        return ()

    @property
    def place(self) -> str:
        return str(self._table.metadata_location)

    @property
    def rows(self) -> int:
        with _catalog_errors(self._name):
            if has_deletes(self._table):
                return sum(each.live_rows for each in self.files())
        snapshot = self._table.current_snapshot()
        summary = None if snapshot is None else snapshot.summary
        return 0 if summary is None else int(summary["total-records"] or 0)

    @property
    def has_names_of_files(self) -> bool:
        return names_are_kept(self._table.metadata)

    def refuse_unknown_features(self, use: TableUse) -> None:
        if found := stopping_iceberg_features(traits_of(self._table.metadata), use):
            verb = "read" if use is TableUse.READ else "written to"
            raise TableHasUnknownFeatures(self._name, found, verb)

    def files(self) -> Iterator[TableFile]:
        for file, _ in self._listed():
            yield file

    def _listed(self) -> Iterator[tuple[TableFile, Any]]:
        """Yields the data files, each also as pyiceberg has it."""
        folder = f"{self._home}/{folder_of(self._name)}"
        with _catalog_errors(self._name):
            for each, deletes in data_files(self._table):
                values = tuple(each.partition[at] for at in range(len(each.partition)))
                path = path_in(folder, each.file_path)
                yield (
                    TableFile(
                        path,
                        each.record_count,
                        each.file_size_in_bytes,
                        values,
                        deletes.rows,
                        row_deletes.count(deletes.rows),
                        is_divided_otherwise=each.spec_id != self._table.metadata.default_spec_id,
                        unreadable=why_unreadable(each, deletes),
                        kept=why_kept(each, path, self._table.metadata.default_spec_id),
                    ),
                    each,
                )

    def kept_paths(self) -> set[str]:
        folder = f"{self._home}/{folder_of(self._name)}"
        with _catalog_errors(self._name):
            snapshots = self._table.metadata.snapshots
            paths = {each.manifest_path for one in snapshots for each in one.manifests(self._table.io)}
            if paths:  # pyiceberg's function fails without a manifest, as after empty commits alone
                paths.update(self._table.inspect.all_files()["file_path"].to_pylist())
            paths.update(each.manifest_list for each in snapshots)
        return {path_in(folder, path) for path in paths}

    def expire(self, now_ms: int) -> None:
        """Expires old snapshots; if the catalog refuses, the export of the next day tries again. Files that only these
        snapshots needed become orphans."""
        newest_first = sorted(self._table.metadata.snapshots, key=lambda each: -each.timestamp_ms)
        current_id = self._table.metadata.current_snapshot_id
        old = [
            each.snapshot_id
            for each in newest_first[SNAPSHOTS_MIN:]
            if each.timestamp_ms < now_ms - SNAPSHOT_AGE_MS and each.snapshot_id != current_id
        ]
        named = {each.snapshot_id for each in self._table.metadata.refs.values()}
        if expired := [each for each in old if each not in named]:
            with suppress(CommitOvertaken), self._committing() as transaction:
                ExpireSnapshots(transaction).by_ids(expired).commit()

    def forget_before(self, state: int | None) -> tuple[str, ...]:
        metadata, refs = self._table.metadata, self._table.metadata.refs
        fence = None if state is None else metadata.snapshot_by_id(state)
        if fence is None:  # it was expired, and so were all before it
            return ()
        older = {each.snapshot_id for each in metadata.snapshots if _age_of(each) < _age_of(fence)}
        named = {name: each.snapshot_id for name, each in refs.items() if each.snapshot_id in older}
        if expired := sorted(older.difference(named.values())):
            with self._committing() as transaction:
                ExpireSnapshots(transaction).by_ids(expired).commit()
        return tuple(f"{refs[name].snapshot_ref_type.value} {name}" for name in sorted(named))

    def paths_since(self, state: int | None, committed_ms: int) -> set[str]:
        """Returns the files of all snapshots that are left."""
        return self.kept_paths()

    def append(
        self, files: Sequence[DataFile], ledger: Ledger, replacement: Replacement | None = None
    ) -> None:
        self.refuse_unknown_features(use_of(replacement))
        with self._committing() as transaction:
            if replacement is None or replacement.keeps_rows:
                with _Appending(Operation.APPEND, transaction, self._table.io) as made:
                    for each in files:
                        made.append_data_file(self._registered(each))
            if replacement is not None:
                with self._replacing(transaction, replacement) as made:
                    for each in replacement.added:
                        made.append_data_file(self._registered(each))
            transaction.set_properties(properties_of(replace(ledger, snapshot_id=made.snapshot_id)))

    def _replacing(self, transaction: Any, replacement: Replacement) -> Any:
        """Begins a snapshot that removes files. When rows are appended, too, they get another snapshot, because
        programs that follow the table skip a snapshot that keeps the rows."""
        wanted = set(replacement.removed)
        found = [each for file, each in self._listed() if file in wanted]
        if len(found) < len(wanted):
            raise CommitOvertaken(
                f"files of table {self._name} that were to be replaced are gone, or have deletes"
            )
        is_first = transaction.table_metadata.current_snapshot() is None
        made = _Replacing(Operation.APPEND if is_first else Operation.OVERWRITE, transaction, self._table.io)
        made.keeps_rows = replacement.keeps_rows
        for each in found:
            made.delete_data_file(each)
        return made

    def _registered(self, each: DataFile) -> Any:
        """Makes the entry of a data file in a manifest, with the statistics of its footer. pyiceberg's own function
        finds no partition value of a column inside a struct, so the value that the writer recorded is used."""
        path = f"{self._home}/{folder_of(self._name)}{each.path}"
        metadata = self._table.metadata
        with self._table.io.new_input(path).open() as stream:
            footer = pq.read_metadata(stream)
        return IcebergFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(*each.partition),
            file_size_in_bytes=each.size_bytes,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **file_statistics(footer, self._table.schema(), metadata.properties),
        )

    def add_columns(self, schema: Any) -> None:
        self.refuse_unknown_features(TableUse.APPEND)
        known = set(self.schema.names)
        with self._committing() as transaction, transaction.update_schema() as update:
            update.union_by_name(schema)
            for name in schema.names:
                if name not in known and KAFKA in known:
                    update.move_before(name, KAFKA)

    def offsets_from(self, ends: Mapping[int, int]) -> dict[int, list[int]]:
        wanted: Any = AlwaysFalse()
        for partition, end in ends.items():
            wanted = Or(wanted, And(EqualTo("partition", partition), GreaterThanOrEqual("offset", end)))
        found: dict[int, list[int]] = {}
        with _catalog_errors(self._name):
            scan = self._table.scan(row_filter=wanted, selected_fields=("partition", "offset"))
            for batch in scan.to_arrow_batch_reader():
                collect_offsets(batch, ends, found)
        return found

    @contextmanager
    def _committing(self) -> Iterator[Any]:
        """Begins a transaction that is committed at the end of the ``with`` block, and tried once. Exceptions inside
        the block are raised as they are: nothing was sent to the catalog then."""
        self._table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = _ONE_TRY
        transaction = self._table.transaction()
        yield transaction
        try:
            transaction.commit_transaction()
        except CommitFailedException as overtaken:
            raise CommitOvertaken(
                f"table {self._name} has changed meanwhile: {_line(overtaken)}"
            ) from overtaken
        except SiltstoneError:
            raise
        except (
            Exception
        ) as trouble:  # of SQLAlchemy, requests, pyarrow: none says whether the commit took place
            _end_connections(self._table.catalog)
            raise TableCommitUnknown(
                f"the commit to table {self._name} may have taken place: {_line(trouble)}"
            ) from trouble


def _age_of(snapshot: Any) -> tuple[int, int]:
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def _end_connections(catalog: Any) -> None:
    """Lets an SQL catalog answer on new connections. When a COMMIT fails, because another program reads the file of
    SQLite, SQLAlchemy leaves the transaction open and uses the connection again: what was not committed could be seen
    there, and nowhere else."""
    engine = getattr(catalog, "engine", None)
    if engine is not None:
        engine.dispose()


class _Summarised:
    """A snapshot whose summary needs no text of a partition value. pyiceberg counts the changed partitions by their
    texts, and has none for a day outside the years 1 to 9999: then the count is left out."""

    def _summary(self, *given: Any, **named: Any) -> Any:
        try:
            return super()._summary(*given, **named)  # type: ignore[misc]
        except OverflowError:
            counted = copy(self)
            counted._added_data_files = [_without_partition(each) for each in self._added_data_files]  # type: ignore[attr-defined]
            counted._deleted_data_files = {_without_partition(each) for each in self._deleted_data_files}  # type: ignore[attr-defined]
            return super(_Summarised, counted)._summary(*given, **named)  # type: ignore[misc]


def _without_partition(file: Any) -> Any:
    found = copy(file)
    found._data = [Record() if each is file.partition else each for each in file._data]
    return found


class _Appending(_Summarised, _MergeAppendFiles):  # type: ignore[misc]
    """A snapshot that adds files, and merges manifests."""


class _Replacing(_Summarised, _OverwriteFiles, _MergeAppendFiles):  # type: ignore[misc]
    """A snapshot that replaces files, and merges manifests as an append does. The overwrite of pyiceberg keeps
    manifests with only entries of removed files in all later snapshots, and cannot mark a snapshot as one that keeps
    the rows."""

    keeps_rows = False

    def _summary(self, *given: Any, **named: Any) -> Any:
        summary = super()._summary(*given, **named)
        operation = Operation.REPLACE if self.keeps_rows else summary.operation
        return Summary(operation, **summary.additional_properties)

    def _existing_manifests(self) -> list[Any]:
        return [
            each
            for each in super()._existing_manifests()
            if each.has_added_files() or each.has_existing_files()
        ]


class IcebergFormat:
    """Implements TableFormat. ``catalog`` has the properties that ``pyiceberg.catalog.load_catalog`` takes. ``home`` is
    the location of tables as Iceberg's programs write it: they quote no character of a folder's name."""

    def __init__(self, catalog: Mapping[str, str], home: str) -> None:
        self._home = home.rstrip("/")
        with _catalog_errors():
            self._catalog = load_catalog(CATALOG_NAME, **catalog)

    def load(self, name: str) -> LoadedTable | None:
        with _catalog_errors(name):
            try:
                return IcebergTable(name, self._catalog.load_table(name), self._home)
            except NoSuchTableError:
                return None

    def make(
        self, name: str, ledger: Ledger, schema: Any, partition_by: Sequence[PartitionTransform]
    ) -> LoadedTable:
        overtaken = suppress(TableAlreadyExistsError, CommitFailedException)  # another driver has made it
        with _catalog_errors(name), overtaken:
            self._make(name, ledger, schema, partition_by)
        loaded = self.load(name)
        assert loaded is not None, "the table was made"
        return loaded

    def _make(
        self, name: str, ledger: Ledger, schema: Any, partition_by: Sequence[PartitionTransform]
    ) -> None:
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(name.rpartition(".")[0])
        transaction = self._catalog.create_table_transaction(
            name,
            schema,
            location=f"{self._home}/{folder_of(name)}".rstrip("/"),
            properties={**_HOUSEKEEPING, **properties_of(ledger)},
        )
        with transaction, transaction.update_spec() as spec:
            for each in partition_by:
                spec.add_field(
                    each.column, _transform_of(each), replace(each, column=plain_column(each.column)).name
                )

    def close(self) -> None:
        close = getattr(self._catalog, "close", None)
        if close is not None:
            close()


def _transform_of(by: PartitionTransform) -> Any:
    if by.transform in _OF_TIME:
        return _OF_TIME[by.transform]()
    return (
        {BUCKET: BucketTransform, TRUNCATE: TruncateTransform}[by.kind](by.width)
        if by.width
        else IdentityTransform()
    )


@contextmanager
def _catalog_errors(name: str = "") -> Iterator[None]:
    """Turns exceptions of the catalog and its clients, inside the ``with`` block, into CatalogFailed. ``name`` is the
    name of the table; empty while the catalog is opened."""
    try:
        yield
    except (SiltstoneError, NoSuchTableError, CommitFailedException):
        raise
    except Exception as trouble:  # of SQLAlchemy, requests, pyarrow, botocore
        of_table = f" of table {name}" if name else ""
        raise CatalogFailed(f"the catalog{of_table} does not answer: {_line(trouble)}") from trouble


def _line(trouble: BaseException) -> str:
    return f"{type(trouble).__name__}: {' '.join(str(trouble).split())[:300]}"
