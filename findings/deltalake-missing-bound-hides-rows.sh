#!/usr/bin/env bash
# What    deltalake 1.6.6 (PyPI): to_pyarrow_dataset() turns a bound that a data file's statistics lack into "column >= null".
# Guess   Statistics only help to pass over files. The Delta protocol lets a writer leave a bound out, so a missing one means
#         "read the file".
# Seen    Two files of a table have statistics, and one of them has no upper bound for column b. to_table() has all rows; with
#         a filter on b the rows of that file are gone, without an error. Polars, which reads the same log, has them.
#         A file without any bounds and counts is read whole.
# So      A writer for such readers gives both bounds of a column or none of any; a reader filters after to_table().
# Source  Delta protocol, "Per-file Statistics"; the partition expressions that the script prints.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "deltalake==1.6.6" "pyarrow==26.0.1" "polars==1.42.1"
"$folder/venv/bin/python" - "$folder/table" <<'PY'
import json
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake

table = sys.argv[1]
rows = pa.table({"a": [1, 2, 3], "b": [10, 20, 30]})
write_deltalake(table, rows)
commit = Path(table, "_delta_log", f"{0:020d}.json")
actions = [json.loads(line) for line in commit.read_text().splitlines()]
for action in actions:
    if "add" in action:  # as a writer does that cannot give an upper bound, for a text that is too long, for instance
        statistics = json.loads(action["add"]["stats"])
        del statistics["maxValues"]["b"]
        action["add"]["stats"] = json.dumps(statistics)
commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
write_deltalake(table, rows, mode="append")

dataset = DeltaTable(table).to_pyarrow_dataset()
for fragment in dataset.get_fragments():
    print("fragment:", fragment.partition_expression)
right = dataset.to_table().filter(ds.field("b") >= 20).num_rows
filtered = dataset.to_table(filter=ds.field("b") >= 20).num_rows
polars = pl.scan_delta(table).filter(pl.col("b") >= 20).collect().height
print(f"rows with b >= 20: {right} in the table, {filtered} by the filter, {polars} by Polars")
assert (right, polars) == (4, 4)
assert filtered == 2, "deltalake reads the file now: this finding is out of date"
PY
echo "seen again"
