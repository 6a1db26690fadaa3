#!/usr/bin/env bash
# What    pyiceberg 0.12.0 (PyPI): a null list of structs is read as an empty list.
# Guess   A row whose array<struct<…>> is null has null there, as one of array<string> has, and as Polars reads it.
# Seen    The data file has null; to_arrow() of a scan, and DuckDB on top of it, give [] in that row. A file that
#         append() writes has [] in the first place.
# So      Readers that tell a list that is missing from one without items read such a table by Polars or Spark, and a
#         program that writes such rows writes the files itself.
# Source  pyiceberg/io/pyarrow.py of that version, ArrowProjectionVisitor.list: an array of lists is made of offsets and
#         values, and its mask is left out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "pyiceberg[sql-sqlite]==0.12.0" "pyarrow==26.0.1"
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

folder = sys.argv[1]
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
catalog.create_namespace("n")
schema = pa.schema({"structs": pa.list_(pa.struct([("a", pa.int64())])), "texts": pa.list_(pa.string())})
table = catalog.create_table("n.t", schema=schema)
rows = pa.Table.from_pylist([{}, {"structs": [], "texts": []}], schema=schema)
pq.write_table(rows, f"{folder}/rows.parquet")
assert pq.read_table(f"{folder}/rows.parquet")["structs"].to_pylist() == [None, []]
table.add_files([f"file://{folder}/rows.parquet"])
rows = table.scan().to_arrow()
print("as pyiceberg reads it:", rows["structs"].to_pylist(), rows["texts"].to_pylist())
assert rows["texts"].to_pylist() == [None, []]
assert rows["structs"].to_pylist() == [[], []], "pyiceberg keeps the null now: this finding is out of date"
PY
echo "seen again"
