"""The input and the report of one task of an export are encoded as bytes here."""

import msgspec

from siltstone.model.limits import MIB
from siltstone.offline.tasks.runner import TaskCodec, TaskFailure
from siltstone.tables.formats.port import DataFile, TableFile
from siltstone.topic_configs.column_types import ColumnType
from siltstone.topic_configs.table_export import PartitionTransform, TableColumn, TableConfig
from siltstone.value_formats.value_format import Schema
from siltstone.value_formats.wire import SchemaName

FILE_BYTES = 128 * MIB
"""A data file is closed at this size: large enough that a reader of a year of records opens thousands of files and not
millions, small enough to be written in one request."""

GROUP_BYTES = 32 * MIB
"""Rows of a file are gathered up to this size in memory, and then written as one row group."""

MEMORY_BYTES = 384 * MIB
"""A task holds at most this many bytes of rows and of files that are not closed yet; beyond it the largest file is
closed early. A partition value that has few records in each batch would otherwise keep a file open for each value."""


NEEDED_MAX = 2_000
"""A task reports at most so many ids of schemas that it lacks: more than a round may have."""


TRUNCATES_MAX = 1_000
"""A table that keeps versions takes so many truncates from one task; more are bad."""


class Truncate(msgspec.Struct, frozen=True, array_like=True):
    """A change event that removes all rows with lower offsets. ``time_us`` is the record's time, since 1970."""

    offset: int
    time_us: int


class FileLimits(msgspec.Struct, frozen=True):
    file_bytes: int = FILE_BYTES
    group_bytes: int = GROUP_BYTES
    memory_bytes: int = MEMORY_BYTES


class ValueSchemas(msgspec.Struct, frozen=True):
    """The schemas that a task may meet, by the ids or GUIDs with which values name them; values that name none have the
    id NOT_FRAMED. A value whose schema is ``refused`` is bad, for that reason."""

    by_name: dict[SchemaName, Schema] = {}
    refused: dict[SchemaName, str] = {}


class FoundColumns(msgspec.Struct, frozen=True):
    """The columns of values whose columns are found, listed ones first. ``nests``: structs of the table can get more
    fields. ``reserved`` are names in lower case that no other column may have. ``are_final``: the driver adds no more,
    so the task keeps other fields as rescued data, and reports none."""

    columns: tuple[TableColumn, ...] = ()
    nests: bool = False
    are_final: bool = False
    reserved: frozenset[str] = frozenset()


NOTHING_FOUND = FoundColumns()


class Mending(msgspec.Struct, frozen=True):
    """A function of the user that mends values: the source of its module, and its name there."""

    source: str
    module: str
    function: str


class DeadLetterUnit(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters that a task tries again: files of their table. ``is_dry``: nothing is written. ``staying``
    has the offsets of dead letters that are not tried, by partition, and why."""

    files: tuple[TableFile, ...]
    mending: Mending | None = None
    is_dry: bool = False
    staying: dict[int, dict[int, str]] = {}


class ReasonCount(msgspec.Struct, frozen=True):
    """How many dead letters of one reason can be decoded now, and how many cannot, with a reason that one of these has
    now."""

    fit: int = 0
    unfit: int = 0
    example: str = ""


class ExportInput(msgspec.Struct, frozen=True, kw_only=True):
    """``unit`` is an encoded ScanUnit, or with ``replays`` an encoded DeadLetterUnit; ``schema`` and
    ``dead_letter_schema`` are the tables' schemas in Arrow's IPC form. Files are named
    ``folder``/data/``token``-``number``-N.parquet in the store at ``location``.

    ``verdict`` has the offsets of dead letters by partition when an interrupted round is repeated: exactly these
    records are left out. None: the task leaves out the records that it cannot decode. ``may_truncate``: a change event
    may remove all rows."""

    name: str
    unit: bytes
    config: TableConfig
    schema: bytes
    dead_letter_schema: bytes
    partition_by: tuple[PartitionTransform, ...]
    location: str
    folder: str
    dead_letter_folder: str
    token: str
    number: int
    replays: bool = False
    may_truncate: bool = False
    verdict: dict[int, list[int]] | None = None
    limits: FileLimits = FileLimits()
    schemas: ValueSchemas = ValueSchemas()
    key_schemas: ValueSchemas = ValueSchemas()
    found: FoundColumns = FoundColumns()


class ExportResult(msgspec.Struct, frozen=True, kw_only=True):
    """``bad`` counts records that cannot be decoded, ``example`` names one of them. ``unexpected`` is a record, by
    partition and offset, that cannot be decoded and is not in the verdict. ``needed`` and ``needed_keys`` name the
    schemas of values and of keys that the task was not given, ``found`` the fields that are no columns and can be;
    then its files are not used, and it is run again. ``rescued`` counts rows with rescued data, and ``rescued_example``
    is one's. ``truncates`` are in the order of their offsets; there are records between any two. ``replayed`` counts
    dead letters that were tried again, by the reason that they had."""

    records: int = 0
    bad: int = 0
    example: str = ""
    files: tuple[DataFile, ...] = ()
    dead_letter_files: tuple[DataFile, ...] = ()
    unexpected: tuple[int, int] | None = None
    needed: tuple[SchemaName, ...] = ()
    needed_keys: tuple[SchemaName, ...] = ()
    found: dict[str, ColumnType] = {}
    rescued: int = 0
    rescued_example: str = ""
    truncates: tuple[Truncate, ...] = ()
    replayed: dict[str, ReasonCount] = {}
    bytes_written: int = 0
    peak_memory_bytes: int = 0
    failure: TaskFailure | None = None

    @property
    def must_run_again(self) -> bool:
        """Whether the task lacked schemas or columns, and has written nothing."""
        return bool(self.needed or self.needed_keys or self.found)


CODEC = TaskCodec(ExportInput, ExportResult)
