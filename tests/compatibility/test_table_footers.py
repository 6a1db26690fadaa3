"""The note in the footer of a data file that tells which columns of floats have NaN: written as it was, and read."""

from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock
from siltstone.tables.formats.footers import paths_with_nan
from siltstone.tables.task_input import FileLimits
from siltstone.tables.writing import FileWriting

GOLDEN = {b"siltstone.nan": b'["place.height","weight"]'}
NAN = float("nan")


def footer_of(rows: Any) -> Any:
    store = MemoryStore(ManualClock())
    writing = FileWriting(store, "kafka/t/", "s", rows.schema, FileLimits())
    writing.add(rows)
    (file,) = writing.close()
    return pq.read_metadata(BytesIO(store.get_range(f"kafka/t/{file.path}", 0, file.size_bytes)))


def test_the_note_is_written_as_it_was() -> None:
    rows = pa.RecordBatch.from_pylist([
        {"name": "a", "weight": NAN, "height": 1.0, "place": {"height": NAN}},
        {"name": "b", "weight": 2.0, "height": None, "place": {"height": 3.0}},
    ])  # fmt: skip
    assert GOLDEN.items() <= footer_of(rows).metadata.items()
    assert b"siltstone.nan" not in (footer_of(rows.select(["name"])).metadata or {})


def test_the_note_is_read() -> None:
    sink = BytesIO()
    with pq.ParquetWriter(sink, pa.schema([("weight", pa.float64())])) as writer:
        writer.write_table(pa.table({"weight": [1.0]}))
        writer.add_key_value_metadata(GOLDEN)
    assert paths_with_nan(pq.read_metadata(BytesIO(sink.getvalue()))) == {"place.height", "weight"}
    assert paths_with_nan(footer_of(pa.RecordBatch.from_pylist([{"name": "a"}]))) is None
