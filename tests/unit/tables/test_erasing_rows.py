"""The task that looks for rows of erased keys in a file of a table, and writes the file again without them."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.offline.erased_keys import hashes_of_keys
from siltstone.offline.erasures import StreamErasure
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.record_columns.kernels import plain
from siltstone.tables.erasing_rows import CODEC, RowErasureInput, erase_rows, run_row_erasure
from siltstone.tables.formats.port import TableFile, listed
from siltstone.tables.row_deletes import count, packed
from siltstone.tables.sequences import REMOVED_NOTE

HASH_KEY = bytes(range(16))
PATH = "data/1-0123456789abcdef-00000-0000.parquet"
PLAIN = {"key": pa.binary(), "value": pa.binary(), "partition": pa.int32(), "offset": pa.int64()}
Row = tuple[bytes | None, int | None, int | None]


def erased(*keys: bytes, bound: int = 10) -> tuple[StreamErasure, ...]:
    return (StreamErasure("e", HASH_KEY, tuple(hashes_of_keys(keys, HASH_KEY, plain)), bound),)


class File:
    """A file of a table in a folder. Rows are key, partition and offset; each value is the offset."""

    def __init__(self, folder: Path, rows: list[Row], *, is_nested: bool = False, key: Any = None) -> None:
        self.location = folder.as_uri()
        columns = PLAIN | ({"key": key} if key else {})
        plain_schema = pa.schema(list(columns.items()))
        values = [
            {"key": k, "value": str(offset).encode(), "partition": partition, "offset": offset}
            for k, partition, offset in rows
        ]
        made = pa.Table.from_pylist(values, schema=plain_schema)
        if is_nested:
            made = pa.table({"id": made["offset"], "kafka": made.to_struct_array()})
        self.schema = made.schema
        (folder / "data").mkdir()
        pq.write_table(made, folder / PATH)
        self.file = TableFile(PATH, len(rows), (folder / PATH).stat().st_size)
        self.outer = "kafka." if is_nested else ""

    def task(self, erasures: dict[int, tuple[StreamErasure, ...]], **changes: Any) -> RowErasureInput:
        given = RowErasureInput(
            name="t",
            file=self.file,
            erasures=erasures,
            outer=self.outer,
            has_names=True,
            schema=self.schema.serialize().to_pybytes(),
            location=self.location,
            folder="",
            token="2-0123456789abcdef",
            number=7,
        )
        return msgspec.structs.replace(given, **changes)

    def left(self, given: RowErasureInput) -> tuple[int, list[int]]:
        """Returns how many rows were found, and the offsets of the rows in the new file."""
        store = store_at(self.location, create=True)
        result = CODEC.decode_result(run_row_erasure(CODEC.encode_input(given)))
        assert erase_rows(given, store).files == result.files, "a task that runs twice writes the same files"
        offsets: list[int] = []
        for each in result.files:
            assert each.path.startswith("data/2-0123456789abcdef-00007-")
            rows = pq.read_table(pa.BufferReader(store.get_range(each.path, 0, each.size_bytes)))
            assert rows.num_rows == each.rows
            column = rows["kafka"].combine_chunks().field("offset") if self.outer else rows["offset"]
            offsets += column.to_pylist()
        return result.erased, offsets


ROWS: list[Row] = [(b"a", 0, 1), (b"b", 0, 2), (b"a", 1, 3), (None, 0, 4), (b"", 0, 5), (b"a", 0, 10)]


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("has_names", [False, True])
def test_rows_go_by_partition_key_and_bound(is_nested: bool, has_names: bool, tmp_path: Path) -> None:
    file = File(tmp_path, ROWS, is_nested=is_nested)
    given = file.task({0: erased(b"a", b"")}, has_names=has_names)
    assert file.left(given) == (2, [2, 3, 4, 10]), "not of the other partition, null, or at the bound"


def test_a_file_without_such_rows_is_left_as_it_is(tmp_path: Path) -> None:
    file = File(tmp_path, ROWS)
    assert file.left(file.task({0: erased(b"c"), 1: erased(b"b")})) == (0, [])
    assert len(list(tmp_path.glob("data/*"))) == 1


def test_a_file_of_such_rows_alone_leaves_none(tmp_path: Path) -> None:
    file = File(tmp_path, [(b"a", 0, 1), (b"a", 0, 2)])
    assert file.left(file.task({0: erased(b"a")})) == (2, [])


def test_keys_as_text_are_compared_by_their_bytes(tmp_path: Path) -> None:
    file = File(tmp_path, [("ä", 0, 1), ("b", 0, 2)], key=pa.string())  # type: ignore[list-item]
    assert file.left(file.task({0: erased("ä".encode())})) == (1, [2])


def test_a_row_that_is_no_record_stays(tmp_path: Path) -> None:
    file = File(tmp_path, [(b"a", None, 1), (b"a", 0, None), (b"a", 0, 3)])
    assert file.left(file.task({0: erased(b"a")})) == (1, [1, None])


def test_a_row_that_another_program_deleted_is_still_in_the_file(tmp_path: Path) -> None:
    file = File(tmp_path, ROWS)
    deleted = packed(np.array([True, True]))
    with_deletes = listed(file.file, deleted=deleted, deleted_rows=count(deleted))
    found, left = file.left(file.task({0: erased(b"a")}, file=with_deletes))
    assert (found, left) == (1, [3, 4, 5, 10]), "the other deleted row does not come back"


def test_a_file_that_cannot_be_replaced_is_looked_at_alone(tmp_path: Path) -> None:
    file = File(tmp_path, ROWS)
    kept = listed(file.file, kept="it is elsewhere")
    assert file.left(file.task({0: erased(b"a")}, file=kept)) == (1, [])


def test_sq2_the_note_of_removed_keys_stays_with_the_bucket(tmp_path: Path) -> None:
    made = File(tmp_path, [(b"a", 0, 1)])
    rows = pq.read_table(tmp_path / PATH).replace_schema_metadata({REMOVED_NOTE: b"a note"})
    pq.write_table(rows, tmp_path / PATH)
    made.file = TableFile(PATH, 1, (tmp_path / PATH).stat().st_size)
    result = erase_rows(made.task({0: erased(b"a")}), store_at(made.location, create=True))
    (file,) = result.files
    assert (result.erased, file.rows) == (1, 0), "a file without rows has the note"
    assert (pq.read_metadata(tmp_path / file.path).metadata or {})[REMOVED_NOTE] == b"a note"
