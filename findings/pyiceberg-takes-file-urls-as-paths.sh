#!/usr/bin/env bash
# What    pyiceberg 0.12.0 (PyPI): a warehouse given as a file URL with %20 lands in a folder whose name has the characters %20.
# Guess   Path("…/my lake").as_uri() names the folder "my lake" to every program that takes a URL.
# Seen    The table is written to a new folder "my%20lake" beside "my lake", which stays empty; pyiceberg finds it again by the same
#         URL, so nothing is noticed until another program looks for the table.
# So      Give pyiceberg the path unquoted, file:///…/my lake, and keep # and ? out of the names of folders.
# Source  What the script prints; the URL is that of Python's pathlib.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "pyiceberg[sql-sqlite]==0.12.0" "pyarrow==26.0.1"
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

folder = Path(sys.argv[1])
wanted = folder / "my lake"
wanted.mkdir()
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.sqlite", warehouse=wanted.as_uri())
catalog.create_namespace("n")
rows = pa.table({"a": [1, 2, 3]})
catalog.create_table("n.t", schema=rows.schema).append(rows)
files = {path.relative_to(folder).parts[0] for path in folder.glob("my*/**/*.parquet")}
print("the warehouse is", wanted.as_uri().replace(folder.as_uri(), "file://…"), "and the data is in", files)
assert catalog.load_table("n.t").scan().to_arrow().num_rows == 3
assert files == {"my%20lake"}, "pyiceberg unquotes the URL now: this finding is out of date"
PY
echo "seen again"
