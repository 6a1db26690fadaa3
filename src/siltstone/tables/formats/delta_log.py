"""Reads what the log of a Delta table says besides rows: deletion vectors, paths of files, features.

A row that was deleted without a new file is named in the *deletion vector* of its file. Delta knows a file by its path
and its vector: a program that removes it has to name both [Delta protocol, add file and remove file]. deltalake reads
vectors, and writes none into the action that removes a file. So a file with a vector is read with it, and is never
replaced.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from siltstone.model.errors import SiltstoneError
from siltstone.tables.failures import CatalogFailed
from siltstone.tables.formats.features import DeltaTraits
from siltstone.tables.formats.locations import is_elsewhere
from siltstone.tables.row_deletes import packed

_HAS_VECTOR = (
    "rows of it were deleted with a deletion vector; Spark's OPTIMIZE delta.`FOLDER` ZORDER BY (COLUMN), or"
    " DeltaTable(FOLDER).optimize.z_order([COLUMN]) of deltalake, writes the other rows to new files"
)
_HAS_STRANGE_PATH = (
    "its path is written in Delta's log as deltalake would not write it, so it could not be removed from the table;"
    " Spark's OPTIMIZE … ZORDER BY (COLUMN) writes its rows to another file"
)
_LIES_ELSEWHERE = (
    "it lies outside the folder of the table; Spark's OPTIMIZE … ZORDER BY (COLUMN) writes its rows to"
    " a file inside"
)
_NOT_QUOTED = "!$&'()+,/:;=@"
"""What deltalake leaves in paths as it is, besides letters, digits and ``-._~``."""


def deletion_vectors(table: Any) -> dict[str, bytes]:
    """Returns the deleted rows of each file that has a vector, perhaps an empty one, by its path in Delta's log. Raises
    what deltalake raises."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    found: dict[str, bytes] = {}
    home = f"{table.table_uri.rstrip('/')}/"
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for url, kept in zip(batch.column("filepath"), batch.column("selection_vector"), strict=True):
            flags = np.asarray(kept.values.to_numpy(zero_copy_only=False), dtype=np.bool_)
            found[url.as_py().removeprefix(home)] = packed(~flags)
    return found


def why_kept(path: str, *, has_vector: bool) -> str:
    """Returns why a file cannot be replaced; nothing if it can. ``path`` is written as in Delta's log."""
    if has_vector:
        return _HAS_VECTOR
    if is_elsewhere(path):
        return _LIES_ELSEWHERE
    return "" if path == quote(unquote(path), safe=_NOT_QUOTED) else _HAS_STRANGE_PATH


def paths_of_commit(data: bytes) -> set[str]:
    entries = [json.loads(line) for line in data.splitlines() if line.strip()]
    return {unquote(each[kind]["path"]) for each in entries for kind in ("add", "remove") if kind in each}


def paths_of_checkpoint(data: bytes) -> set[str]:
    file = pq.ParquetFile(BytesIO(data))
    columns = [kind for kind in ("add", "remove") if kind in file.schema_arrow.names]
    rows = file.read(columns=[f"{kind}.path" for kind in columns])
    found = (rows[kind].combine_chunks().field("path").to_pylist() for kind in columns)
    return {unquote(path) for paths in found for path in paths if path}


def followed_back(history: Iterable[Mapping[str, Any]], version: int, to: int) -> int:
    """Returns the version from which the table has come: ``to``, or an older one that was restored since. A commit that
    restored a time, and names no version, counts as older."""
    restored = {
        each["version"]: (each.get("operationParameters") or {}).get("version")
        for each in history
        if each.get("operation") == "RESTORE"
    }
    while version > to:
        named = restored.get(version, version - 1)
        version = -1 if named is None else int(named)
    return version


def traits_of(table: Any) -> DeltaTraits:
    """Returns what decides about features. Raises what deltalake raises."""
    protocol, nodes = table.protocol(), list(_nodes(msgspec.json.decode(table.schema().to_json())))
    return DeltaTraits(
        reader_version=protocol.min_reader_version,
        writer_version=protocol.min_writer_version,
        readers=frozenset(protocol.reader_features or ()),
        writers=frozenset(protocol.writer_features or ()),
        configuration=table.metadata().configuration,
        field_keys=frozenset(key for node in nodes for key in node.get("metadata", {})),
        types=frozenset(node["type"] for node in nodes if isinstance(node.get("type"), str)),
    )


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yields all objects of a schema in JSON: columns and types, also nested ones. A list or a map may name the type of
    its elements without an object."""
    if isinstance(schema, list):
        for each in schema:
            yield from _nodes(each)
    elif isinstance(schema, dict):
        yield schema
        for name, each in schema.items():
            if name in ("elementType", "keyType", "valueType") and isinstance(each, str):
                yield {"type": each}
            elif name != "metadata":
                yield from _nodes(each)


@contextmanager
def delta_errors(name: str) -> Iterator[None]:
    """Turns exceptions of deltalake, inside the ``with`` block, into CatalogFailed."""
    try:
        yield
    except SiltstoneError:
        raise
    except (DeltaError, OSError) as trouble:
        raise CatalogFailed(f"table {name} cannot be read: {in_one_line(trouble)}") from trouble


def in_one_line(trouble: BaseException) -> str:
    return f"{type(trouble).__name__}: {' '.join(str(trouble).split())[:300]}"
