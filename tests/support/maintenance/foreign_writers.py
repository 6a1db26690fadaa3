"""Changes tables as other programs do: deltalake and pyiceberg by their own calls; deletion vectors, position deletes
and equality deletes as their specifications say, because neither library writes these."""

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.types import IntegerType, ListType, NestedField, StructType
from pyroaring import BitMap64

from siltstone.tables.formats.iceberg import CATALOG_NAME
from siltstone.tables.table_scan import file_inputs, rows_of_files
from support.maintenance.table_world import TableWorld

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


# -- Delta -------------------------------------------------------------------------------------------------------


def delta_table(world: TableWorld, name: str = "t") -> deltalake.DeltaTable:
    return deltalake.DeltaTable(f"{world.settings.location}/kafka/{name}")


def delta_commit(world: TableWorld, actions: Sequence[Mapping[str, Any]], name: str = "t") -> None:
    """Writes a commit into the log of a table."""
    version = delta_table(world, name).version() + 1
    info = {"timestamp": world.clock.now_ms(), "operation": "DELETE", "operationParameters": {}}
    lines = [json.dumps(each) for each in ({"commitInfo": info}, *actions)]
    log = world.folder / "tables/kafka" / name / "_delta_log"
    (log / f"{version:020}.json").write_text("\n".join(lines))


def vector(folder: Path, positions: Sequence[int], *, is_inline: bool) -> dict[str, Any]:
    """Returns the descriptor of a deletion vector, which is written to a file if it is not inline [Delta protocol,
    deletion vector descriptor schema]."""
    data = struct.pack("<i", 1_681_511_377) + BitMap64(positions).serialize()
    found = {"sizeInBytes": len(data), "cardinality": len(positions)}
    if is_inline:
        return {"storageType": "i", "pathOrInlineDv": _z85(data), **found}
    named = UUID(int=1 + len([*folder.glob("deletion_vector_*.bin")]))
    content = b"\1" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (folder / f"deletion_vector_{named}.bin").write_bytes(content)
    return {"storageType": "u", "pathOrInlineDv": _z85(named.bytes), "offset": 1, **found}


def _z85(data: bytes) -> str:
    data += b"\0" * (-len(data) % 4)
    digits = []
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4])
        digits.append("".join(_Z85[number // 85**place % 85] for place in range(4, -1, -1)))
    return "".join(digits)


def delete_by_vector(
    world: TableWorld, path: str, positions: Sequence[int], *, is_inline: bool = True, name: str = "t"
) -> None:
    """Deletes rows of a data file as Spark does in a table with delta.enableDeletionVectors. ``path`` is not quoted."""
    if "deletionVectors" not in (delta_table(world, name).protocol().reader_features or ()):
        delta_table(world, name).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    table = delta_table(world, name)
    (added,) = (
        each
        for each in pa.table(table.get_add_actions(flatten=True)).to_pylist()
        if unquote(each["path"]) == path
    )
    values = {
        key.removeprefix("partition."): None if value is None else str(value)
        for key, value in added.items()
        if key.startswith("partition.")
    }
    folder = world.folder / "tables/kafka" / name
    delta_commit(
        world,
        [
            {"remove": {"path": added["path"], "deletionTimestamp": world.clock.now_ms(), "dataChange": True}},
            {
                "add": {
                    "path": added["path"], "partitionValues": values, "size": added["size_bytes"],
                    "modificationTime": added["modification_time"], "dataChange": True,
                    "stats": json.dumps({"numRecords": added["num_records"]}),
                    "deletionVector": vector(folder, positions, is_inline=is_inline),
                }
            },
        ],
        name,
    )  # fmt: skip


# -- Iceberg -----------------------------------------------------------------------------------------------------


def iceberg_table(world: TableWorld, name: str = "kafka.t") -> Table:
    return load_catalog(CATALOG_NAME, **world.settings.catalog).load_table(name)


def expire_all_but(world: TableWorld, *kept: int | None, name: str = "kafka.t") -> None:
    """Expires snapshots as pyiceberg does: those after them have no parent then."""
    table = iceberg_table(world, name)
    old = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in kept]
    table.maintenance.expire_snapshots().by_ids(old).commit()


def set_snapshot(world: TableWorld, snapshot_id: int, name: str = "kafka.t") -> None:
    iceberg_table(world, name).manage_snapshots().set_current_snapshot(snapshot_id).commit()


def delete_by_positions(
    world: TableWorld, deletes: Mapping[str, Sequence[int]], name: str = "kafka.t"
) -> None:
    """Deletes rows of data files as Trino, or Spark with merge-on-read, does. ``deletes`` has positions by path below
    the folder of the table."""
    table = iceberg_table(world, name)
    rows = [(f"{table.location()}/{path}", at) for path, found in deletes.items() for at in found]
    content = pa.table(
        {"file_path": [each[0] for each in rows], "pos": pa.array([each[1] for each in rows], pa.int64())}
    )
    _commit_deletes(table, content, DataFileContent.POSITION_DELETES)


def delete_by_equality(world: TableWorld, column: str, values: Sequence[Any], name: str = "kafka.t") -> None:
    """Deletes rows with these values as Flink does."""
    table = iceberg_table(world, name)
    _commit_deletes(
        table,
        pa.table({column: values}),
        DataFileContent.EQUALITY_DELETES,
        [table.schema().find_field(column).field_id],
    )


def _commit_deletes(
    table: Table, content: Any, kind: DataFileContent, equality_ids: list[int] | None = None
) -> None:
    """Adds a snapshot with a file of deletes for each partition value of the data files."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    metadata, number = table.metadata, table.metadata.last_sequence_number + 1
    snapshot_id = table.metadata.new_snapshot_id()
    path = f"{table.location()}/data/deletes-{number}.parquet"
    with table.io.new_output(path).create() as stream:
        pq.write_table(content, stream)
    partitions = {(task.file.spec_id, task.file.partition) for task in _tasks(table)}
    entries = []
    for spec_id, partition in sorted(partitions, key=repr):
        file = DataFile.from_args(
            content=kind, file_path=path, file_format=FileFormat.PARQUET, partition=partition,
            record_count=content.num_rows, file_size_in_bytes=len(table.io.new_input(path)), spec_id=spec_id,
            equality_ids=equality_ids, column_sizes={}, value_counts={}, null_value_counts={},
            nan_value_counts={}, lower_bounds={}, upper_bounds={},
        )  # fmt: skip
        entries.append(
            ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file)
        )
    manifest = f"{table.location()}/metadata/deletes-{number}-m0.avro"
    writer = _DeleteManifestWriter(
        table.spec(),
        table.schema(),
        table.io.new_output(manifest),
        snapshot_id,
        "null",  # type: ignore[arg-type]
    )
    with writer:
        for entry in entries:
            writer.add_entry(entry)
    listed = f"{table.location()}/metadata/snap-{snapshot_id}-deletes.avro"
    with write_manifest_list(
        format_version=2, output_file=table.io.new_output(listed), snapshot_id=snapshot_id,
        parent_snapshot_id=snapshot.snapshot_id, sequence_number=number, avro_compression="null",
    ) as lists:  # fmt: skip
        lists.add_manifests([writer.to_manifest_file(), *snapshot.manifests(table.io)])
    totals = dict(snapshot.summary.additional_properties) if snapshot.summary else {}
    made = Snapshot(
        snapshot_id=snapshot_id, parent_snapshot_id=snapshot.snapshot_id, sequence_number=number,
        timestamp_ms=metadata.last_updated_ms + 1, manifest_list=listed, schema_id=metadata.current_schema_id,
        summary=Summary(Operation.DELETE, **{**totals, "total-delete-files": "1"}),
    )  # fmt: skip
    table.catalog.commit_table(
        table,
        (AssertRefSnapshotId(ref="main", snapshot_id=snapshot.snapshot_id),),
        (
            AddSnapshotUpdate(snapshot=made),
            SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot_id),
        ),
    )


def _tasks(table: Table) -> list[Any]:
    try:
        return list(table.scan().plan_files())
    except ValueError:  # it has equality deletes already
        return [
            type("Task", (), {"file": entry.data_file})
            for each in table.current_snapshot().manifests(table.io)  # type: ignore[union-attr]
            if each.content == ManifestContent.DATA
            for entry in each.fetch_manifest_entry(table.io)
        ]


def _with_short_ids(field: NestedField) -> NestedField:
    if field.name != "equality_ids":
        return field
    kind = ListType(element_id=136, element_type=IntegerType(), element_required=True)
    return field.model_copy(update={"field_type": kind})


class _DeleteManifestWriter(ManifestWriterV2):
    """pyiceberg writes manifests of data files alone, and has ``long`` for the ids of columns, which Java refuses."""

    def _with_partition(self, format_version: Any) -> Schema:
        fields = []
        for each in super()._with_partition(format_version).fields:
            kind: Any = each.field_type
            parts = [_with_short_ids(part) for part in kind.fields] if each.name == "data_file" else []
            fields.append(each.model_copy(update={"field_type": StructType(*parts)}) if parts else each)
        return Schema(*fields)

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


# -- readers -----------------------------------------------------------------------------------------------------


def offsets_by_reader(world: TableWorld, name: str = "kafka.t") -> list[int]:
    """Returns the offsets of the rows as a reader of the format finds them, one for each row."""
    return sorted(_offsets(rows_by_reader(world, name)))


def rows_by_reader(world: TableWorld, name: str = "kafka.t") -> Any:
    if world.table_format == "delta":
        table = deltalake.DeltaTable(f"{world.settings.location}/{name.replace('.', '/')}")
        return pa.table(deltalake.QueryBuilder().register("t", table).execute("select * from t"))
    return iceberg_table(world, name).scan().to_arrow()


def offsets_by_tasks(world: TableWorld, name: str = "kafka.t") -> list[int]:
    """Returns the same as the tasks of ``read_table`` find them."""
    return sorted(_offsets(rows_by_tasks(world, name)))


def rows_by_tasks(world: TableWorld, name: str = "kafka.t") -> Any:
    with world.table_of(name) as table:
        inputs = file_inputs(table, list(table.files()), world.settings)
        batches = list(rows_of_files([pa.record_batch({"input": pa.array([each])}) for each in inputs]))
        return pa.Table.from_batches(batches) if batches else table.file_schema.empty_table()


def _offsets(rows: Any) -> list[int]:
    column = (
        rows["offset"] if "offset" in rows.schema.names else rows["kafka"].combine_chunks().field("offset")
    )
    return list(column.to_pylist())
