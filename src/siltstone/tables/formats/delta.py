"""Reads and writes Delta tables, with deltalake, below ``tables.location``; they have no catalog.

The ledger is in *application transactions*: numbers by name that a commit sets together with its data files, and that
checkpoints keep.

    siltstone/<topic id>/<partition>       the offset after the last exported one; -1 if nothing was exported
    siltstone/<topic id>/partitions        how many of these there are
    siltstone/<topic id>/job, …/plan       the two numbers of the token of the last export
    siltstone/<topic id>/version           the version of the table that the last export made
    siltstone/<topic id>/time              when it was committed, in ms since 1970
    siltstone/<topic id>/gaps              how many gaps are noted, each in a slot
    siltstone/<topic id>/gap/<slot>/…      partition, start and end

The store, the topic and the division of the table are in its configuration, which is written once. No transaction has a
time, because Delta forgets transactions with a time that is older than ``delta.setTransactionRetentionDuration``.

deltalake compares the transactions of a commit only with those of commits that it has not seen, so the ledger is read
from the object that commits. It does not repeat a refused commit here.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import deltalake
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX
from siltstone.object_store.port import ObjectStore
from siltstone.tables import row_deletes
from siltstone.tables.failures import (
    CatalogFailed,
    CommitOvertaken,
    LedgerLost,
    TableCommitUnknown,
    TableHasUnknownFeatures,
    TableNotOurs,
    TableRolledBack,
)
from siltstone.tables.formats.delta_log import (
    deletion_vectors,
    delta_errors,
    followed_back,
    in_one_line,
    paths_of_checkpoint,
    paths_of_commit,
    traits_of,
    why_kept,
)
from siltstone.tables.formats.delta_statistics import statistics_text
from siltstone.tables.formats.derived import (
    column_value,
    derived_field,
    division_column,
    is_derived,
    log_text,
    partition_value,
)
from siltstone.tables.formats.features import stopping_delta_features
from siltstone.tables.formats.parquet import collect_offsets
from siltstone.tables.formats.port import (
    OWN_NAME,
    DataFile,
    LoadedTable,
    Replacement,
    TableFile,
    TableUse,
    folder_of,
    plain_column,
    use_of,
)
from siltstone.tables.ledger import (
    LAYOUT,
    PREFIX,
    Gap,
    Ledger,
    TableIdentity,
)
from siltstone.topic_configs.table_export import APPEND, PartitionTransform

_LOG = "_delta_log/"
_DIVISION = f"{PREFIX}partition-by"
_HOUSEKEEPING = {
    "delta.checkpointInterval": "20",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
"""A table is read from its newest checkpoint and the commits after it, each of them a request. A reader that began a
day ago still finds the files that were replaced since. The user may change both."""
_SIGN_BIT = 1 << 63


class DeltaTable:
    """Implements LoadedTable. ``store`` is the store of ``tables.location``."""

    def __init__(self, name: str, table: Any, store: ObjectStore) -> None:
        self._name = name
        self._table = table
        self._store = store
        self._configuration: dict[str, str] = table.metadata().configuration

    @property
    def name(self) -> str:
        return self._name

    @cached_property
    def ledger(self) -> Ledger:
        given = self._configuration
        if not any(key.startswith(PREFIX) for key in given):
            raise TableNotOurs(self._name)
        if (layout := given.get(f"{PREFIX}layout")) != str(LAYOUT):
            raise LedgerLost(self._name, f"its layout is {layout}, and this program knows {LAYOUT}")
        identity = TableIdentity(self._property("store-id"), self._property("topic-id"))
        names = _Names(identity.topic_id)
        offsets = {
            number: offset
            for number in range(self._number(names.of("partitions")))
            if (offset := self._number(names.of(number))) >= 0
        }
        ledger = Ledger(
            identity=identity,
            created_ms=int(self._property("created")),
            offsets=offsets,
            token=_token_of(self._number(names.of("job")), self._number(names.of("plan"))),
            snapshot_id=self._number(names.of("version")),
            gaps=self._gaps(names),
            committed_ms=self._number(names.of("time")),
            mode=given.get(f"{PREFIX}mode", APPEND),
        )
        self._refuse_restored(ledger.snapshot_id or 0)
        return ledger

    def _property(self, name: str) -> str:
        found = self._configuration.get(f"{PREFIX}{name}")
        if found is None:
            raise LedgerLost(self._name, f"its property {PREFIX}{name} is missing")
        return found

    def _number(self, transaction: str) -> int:
        with delta_errors(self._name):
            found = self._table.transaction_version(transaction)
        if found is None:
            raise LedgerLost(self._name, f"its transaction {transaction} is missing")
        return int(found)

    def _gaps(self, names: "_Names") -> tuple[Gap, ...]:
        slots = [names.gap(slot) for slot in range(self._number(names.of("gaps")))]
        return tuple(Gap(*(self._number(each) for each in slot)) for slot in slots)

    def _refuse_restored(self, exported_version: int) -> None:
        """Raises TableRolledBack if the table was restored to a version before the last export. Delta then keeps the
        transactions, and removes the files of the versions that were undone. A table that was restored once more, to
        the version of the last export or a later one, has the files again."""
        version = self._table.version()
        if version < exported_version:
            raise TableRolledBack(
                self._name, f"its version is {version}, the last export made {exported_version}"
            )
        if version == exported_version:
            return
        with delta_errors(self._name):
            version = followed_back(
                self._table.history(version - exported_version), version, exported_version
            )
        if version < exported_version:
            reason = f"version {version} was restored, the last export made {exported_version}"
            raise TableRolledBack(self._name, reason)

    @property
    def schema(self) -> Any:
        derived = {division_column(each) for each in self._division if is_derived(each)}
        return pa.schema([each for each in self.file_schema if each.name not in derived])

    @cached_property
    def file_schema(self) -> Any:
        return pa.schema(self._table.schema().to_arrow())

    @cached_property
    def _division(self) -> tuple[PartitionTransform, ...]:
        """The transforms, with columns as paths in the schema."""
        text = self._configuration.get(_DIVISION)
        if text is None:
            return tuple(
                PartitionTransform("identity", each) for each in self._table.metadata().partition_columns
            )
        return msgspec.json.decode(text, type=tuple[PartitionTransform, ...])

    @property
    def partition_by(self) -> tuple[PartitionTransform, ...]:
        return tuple(PartitionTransform(each.transform, plain_column(each.column)) for each in self._division)

    @property
    def columns_of_division(self) -> tuple[PartitionTransform, ...]:
        return self._division

    @property
    def place(self) -> str:
        return str(self._table.table_uri)

    @property
    def rows(self) -> int:
        return sum(each.live_rows for each in self.files())

    @property
    def has_names_of_files(self) -> bool:
        """A table whose columns have other names in its files is refused: the feature columnMapping."""
        return True

    def refuse_unknown_features(self, use: TableUse) -> None:
        if found := stopping_delta_features(traits_of(self._table), use):
            verb = "read" if use is TableUse.READ else "written to"
            raise TableHasUnknownFeatures(self._name, found, verb)

    def files(self) -> Iterator[TableFile]:
        columns = [division_column(each) for each in self._division]
        with delta_errors(self._name):
            vectors = deletion_vectors(self._table)
        for each in self._added():
            found = [each[f"partition.{column}"] for column in columns]
            values = tuple(
                partition_value(by, value) for by, value in zip(self._division, found, strict=True)
            )
            vector = vectors.pop(each["path"], None)
            deleted = vector or b""
            yield TableFile(
                unquote(each["path"]),
                each["num_records"] or 0,
                each["size_bytes"],
                values,
                deleted,
                row_deletes.count(deleted),
                lacks=bool(columns) and OWN_NAME.fullmatch(each["path"]) is None,
                kept=why_kept(each["path"], has_vector=vector is not None),
            )
        if vectors:
            raise CatalogFailed(
                f"table {self._name} has deletes of {next(iter(vectors))}, which it does not list"
            )

    def _added(self) -> Iterator[dict[str, Any]]:
        with delta_errors(self._name):
            for batch in pa.table(self._table.get_add_actions(flatten=True)).to_batches():
                yield from batch.to_pylist()

    def kept_paths(self) -> set[str]:
        """Returns the files of the newest checkpoint, also files that were removed and not forgotten, and the files of
        the commits after it."""
        before = f"{folder_of(self._name)}{_LOG}"
        names = [each.key.removeprefix(before) for each in self._store.list(before)]
        suffix = ".checkpoint.parquet"
        checkpoints = [
            each for each in names if each.endswith(suffix) and each.removesuffix(suffix).isdecimal()
        ]
        newest = max(checkpoints, default="")
        paths: set[str] = set()
        for name in names:
            if name == newest or (name.endswith(".parquet") and name not in checkpoints):
                paths |= paths_of_checkpoint(self._read(f"{before}{name}"))
            elif name.endswith(".json") and name.removesuffix(".json") > newest.removesuffix(suffix):
                paths |= paths_of_commit(self._read(f"{before}{name}"))
        return paths | {each.path for each in self.files()}

    def _read(self, key: str) -> bytes:
        return bytes(self._store.get_range(key, 0, self._store.head(key).size_bytes))

    def expire(self, now_ms: int) -> None:
        """Deletes files that were replaced longer ago than the table keeps them, as Delta's ``vacuum`` does."""
        with delta_errors(self._name):
            if self._table.vacuum(dry_run=True):
                self._table.vacuum(dry_run=False)

    def forget_before(self, state: int | None) -> tuple[str, ...]:
        """Writes a checkpoint, and deletes the log before the state: it has the statistics of replaced files."""
        if state is None or self._table.version() < state:
            return ()
        with delta_errors(self._name):
            self._table.create_checkpoint()
        before = f"{folder_of(self._name)}{_LOG}"
        keys = [each.key for each in self._store.list(before)]
        if f"{before}{self._table.version():020}.checkpoint.parquet" not in keys:
            return ("a checkpoint in several parts",)
        older = [each for each in keys if (number := _number_in_log(each)) is not None and number < state]
        for first in range(0, len(older), DELETE_BATCH_KEYS_MAX):
            self._store.delete(older[first : first + DELETE_BATCH_KEYS_MAX])
        return ()

    def paths_since(self, state: int | None, committed_ms: int) -> set[str]:
        before = f"{folder_of(self._name)}{_LOG}"
        paths = {each.path for each in self.files()}
        for each in self._store.list(before):
            number = _number_in_log(each.key)
            if each.key.endswith(".json") and number is not None and number > (state or 0):
                paths |= paths_of_commit(self._read(each.key))
        return paths

    def append(
        self, files: Sequence[DataFile], ledger: Ledger, replacement: Replacement | None = None
    ) -> None:
        self.refuse_unknown_features(use_of(replacement))
        version = self._table.version() + 1
        transactions = _transactions(msgspec.structs.replace(ledger, snapshot_id=version), self.ledger)
        actions = [self._registered(each, ledger.committed_ms) for each in files]
        if replacement is not None:
            actions += self._replaced(replacement, ledger.committed_ms)
        with self._committing():
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                partition_by=list(self._table.metadata().partition_columns),
                commit_properties=_once(transactions),
            )

    def _replaced(self, replacement: Replacement, now_ms: int) -> list[Any]:
        is_change = not replacement.keeps_rows
        if not set(replacement.removed) <= set(self.files()):
            raise CommitOvertaken(
                f"files of table {self._name} that were to be replaced are gone, or have deletes"
            )
        removed = [
            RemoveAction(each.path, is_change, now_ms, each.size_bytes, self._values(each))
            for each in replacement.removed
        ]
        return [
            *removed,
            *(self._registered(each, now_ms, is_change=is_change) for each in replacement.added),
        ]

    def _values(self, each: DataFile) -> dict[str, str | None]:
        return {
            division_column(by): log_text(column_value(by, value))
            for by, value in zip(self._division, each.partition, strict=True)
        }

    def _registered(self, each: DataFile, made_ms: int, *, is_change: bool = True) -> Any:
        footer = pq.read_metadata(BytesIO(self._read(f"{folder_of(self._name)}{each.path}")))
        divided_by = [division_column(by) for by in self._division]
        statistics = statistics_text(footer, self.file_schema, self._configuration, divided_by)
        return AddAction(each.path, each.size_bytes, self._values(each), made_ms, is_change, statistics)

    def add_columns(self, schema: Any) -> None:
        self.refuse_unknown_features(TableUse.APPEND)
        known = set(self.file_schema.names)
        added = pa.schema([field for field in schema if field.name not in known])
        with self._committing():
            self._table.alter.add_columns(Schema.from_arrow(added).fields, commit_properties=_once([]))

    def offsets_from(self, ends: Mapping[int, int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        lowest = min(ends.values(), default=0)
        for each in self._added() if ends else ():
            if (largest := each.get("max.offset")) is not None and largest < lowest:
                continue
            data = BytesIO(self._read(f"{folder_of(self._name)}{unquote(each['path'])}"))
            collect_offsets(pq.read_table(data, columns=["partition", "offset"]), ends, found)
        return found

    @contextmanager
    def _committing(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as overtaken:
            raise CommitOvertaken(
                f"table {self._name} has changed meanwhile: {in_one_line(overtaken)}"
            ) from overtaken
        except SiltstoneError:
            raise
        except Exception as trouble:  # of object stores in Rust: none says whether the commit took place
            raise TableCommitUnknown(
                f"the commit to table {self._name} may have taken place: {in_one_line(trouble)}"
            ) from trouble


class DeltaFormat:
    """Implements TableFormat. ``home`` is the URL of ``tables.location`` without options; with ``options`` deltalake
    reaches it."""

    def __init__(self, home: str, options: Mapping[str, str], store: ObjectStore) -> None:
        self._home = home.rstrip("/")
        self._options = dict(options)
        self._store = store

    def load(self, name: str) -> LoadedTable | None:
        with delta_errors(name):
            try:
                table = deltalake.DeltaTable(self._place(name), storage_options=self._options)
            except TableNotFoundError:
                return None
            return DeltaTable(name, table, self._store)

    def _place(self, name: str) -> str:
        return f"{self._home}/{folder_of(name)}".rstrip("/")

    def make(
        self, name: str, ledger: Ledger, schema: Any, partition_by: Sequence[PartitionTransform]
    ) -> LoadedTable:
        derived = [derived_field(each, schema) for each in partition_by if is_derived(each)]
        configuration = {
            f"{PREFIX}layout": str(LAYOUT),
            f"{PREFIX}store-id": ledger.identity.store_id,
            f"{PREFIX}topic-id": ledger.identity.topic_id,
            f"{PREFIX}created": str(ledger.created_ms),
            f"{PREFIX}mode": ledger.mode,
            _DIVISION: msgspec.json.encode(tuple(partition_by)).decode(),
        }
        with delta_errors(name):
            try:
                deltalake.DeltaTable.create(
                    self._place(name),
                    pa.schema([*schema, *derived]),
                    partition_by=[division_column(each) for each in partition_by],
                    configuration={**_HOUSEKEEPING, **configuration},
                    storage_options=self._options,
                    raise_if_key_not_exists=False,
                    commit_properties=_once(_transactions(ledger, ledger)),
                )
            except Exception as trouble:
                if self.load(name) is None:  # otherwise another driver has made it
                    raise CatalogFailed(f"table {name} cannot be made: {in_one_line(trouble)}") from trouble
        loaded = self.load(name)
        assert loaded is not None, "the table was made"
        return loaded

    def close(self) -> None:
        return None


def _number_in_log(key: str) -> int | None:
    """Returns the version of a file of the log; None for other files, such as the pointer to the newest checkpoint."""
    number, dot, _ = key.rpartition("/")[2].partition(".")
    return int(number) if dot and number.isdecimal() else None


class _Names:
    """The names of the transactions of a topic."""

    def __init__(self, topic_id: str) -> None:
        self._before = f"siltstone/{topic_id}"

    def of(self, part: str | int) -> str:
        return f"{self._before}/{part}"

    def gap(self, slot: int) -> tuple[str, str, str]:
        before = self.of(f"gap/{slot}")
        return f"{before}/partition", f"{before}/start", f"{before}/end"


def _transactions(ledger: Ledger, before: Ledger) -> list[Any]:
    """Returns the transactions that set the ledger. ``before`` is the one that the table has."""
    names = _Names(ledger.identity.topic_id)
    partitions = max(ledger.offsets, default=-1) + 1
    job, plan = _numbers_of(ledger.token)
    numbers = {names.of(number): ledger.offset(number) for number in range(partitions)}
    numbers |= {
        names.of("partitions"): partitions,
        names.of("job"): job,
        names.of("plan"): plan,
        names.of("version"): ledger.snapshot_id or 0,
        names.of("time"): ledger.committed_ms,
        names.of("gaps"): len(ledger.gaps),
    }
    for slot, gap in enumerate(ledger.gaps):
        if before.gaps[slot : slot + 1] != (gap,):
            values = (gap.partition, gap.start_offset, gap.end_offset)
            numbers |= dict(zip(names.gap(slot), values, strict=True))
    return [Transaction(name, -1 if number is None else number) for name, number in numbers.items()]


def _numbers_of(token: str) -> tuple[int, int]:
    """Returns a token, ``<job id>-<16 hexadecimal digits>``, as two numbers with a sign; (-1, 0) for none."""
    if not token:
        return -1, 0
    job, _, plan = token.partition("-")
    number = int(plan, 16)
    return int(job), number - 2 * _SIGN_BIT if number >= _SIGN_BIT else number


def _token_of(job: int, plan: int) -> str:
    return "" if job < 0 else f"{job}-{plan % (2 * _SIGN_BIT):016x}"


def _once(transactions: list[Any]) -> Any:
    return CommitProperties(max_commit_retries=0, app_transactions=transactions)
