"""Defines the inputs and the results of a task that rewrites files of a table, as bytes."""

import msgspec

from siltstone.offline.tasks.runner import TaskCodec
from siltstone.tables.formats.port import DataFile, PartitionValue, TableFile
from siltstone.tables.task_input import FileLimits, Truncate
from siltstone.topic_configs.table_export import PartitionTransform


class RewriteInput(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one partition value that are to be replaced. ``schema`` is the schema of data files, in Arrow's IPC
    form; ``division`` has the transforms of a Delta table. Files are named
    ``folder``/data/``token``-``number``-N.parquet in the store at ``location``.

    Without ``key`` the rows of the ``old`` files are written again, in their order. With ``key``, the path of the key's
    column, the rows of the ``staged`` files take the place of older rows with their partition and key, or with
    ``has_history`` end their current versions; with ``has_sequence`` their sequences decide (``sequences``).
    ``truncates``, in the order of their offsets, remove all rows before them, or end their versions; the old files have
    lower offsets than all of these. Rows of old files that were deleted are not written. ``now_ms``: the present
    time."""

    name: str
    old: tuple[TableFile, ...]
    staged: tuple[DataFile, ...] = ()
    schema: bytes
    values: tuple[PartitionValue, ...] = ()
    division: tuple[PartitionTransform, ...] = ()
    key: str = ""
    has_history: bool = False
    has_sequence: bool = False
    truncates: tuple[Truncate, ...] = ()
    now_ms: int = 0
    location: str
    folder: str
    token: str
    number: int
    limits: FileLimits = FileLimits()


class RewriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """The new files, which have ``rows`` rows."""

    files: tuple[DataFile, ...] = ()
    rows: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    peak_memory_bytes: int = 0


class RewriteInputs(msgspec.Struct, frozen=True):
    """What one task rewrites, in this order: a task for each of many small buckets costs more than their rewriting."""

    each: tuple[RewriteInput, ...]


class RewriteResults(msgspec.Struct, frozen=True):
    """The results of the inputs, in their order."""

    each: tuple[RewriteResult, ...]


CODEC = TaskCodec(RewriteInputs, RewriteResults)
