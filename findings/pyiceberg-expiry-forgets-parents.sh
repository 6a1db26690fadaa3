#!/usr/bin/env bash
# What    pyiceberg 0.12.0 (PyPI): expiring snapshots takes the parent's id out of the snapshots that stay.
# Guess   A snapshot names its parent for as long as it lives, so a program that remembers the snapshot it wrote can walk
#         up from the current one and tell "mine was expired" from "the table was rolled back".
# Seen    After expire_snapshots().by_ids(all but the current one) the current snapshot has parent_snapshot_id None: it
#         looks like the first snapshot of a table that was made anew.
# So      A walk that ends at a snapshot without a parent proves nothing. Whether the wanted snapshot is still listed
#         does: listed and no ancestor is a rollback, not listed is an expiry.
# Source  pyiceberg/table/update/__init__.py of that version, where the removal of snapshots is applied.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "pyiceberg[sql-sqlite]==0.12.0" "pyarrow==26.0.1"
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

folder = sys.argv[1]
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
catalog.create_namespace("n")
rows = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
table = catalog.create_table("n.t", schema=rows.schema)
for _ in range(3):
    table.append(rows)
table = catalog.load_table("n.t")
first, second, third = table.metadata.snapshots
print("before:", [each.parent_snapshot_id is not None for each in (first, second, third)])
assert third.parent_snapshot_id == second.snapshot_id
table.maintenance.expire_snapshots().by_ids([first.snapshot_id, second.snapshot_id]).commit()
(left,) = catalog.load_table("n.t").metadata.snapshots
assert left.snapshot_id == third.snapshot_id
print("after: the parent of the snapshot that stayed is", left.parent_snapshot_id)
assert left.parent_snapshot_id is None, "pyiceberg keeps the parent now: this finding is out of date"
PY
echo "seen again"
