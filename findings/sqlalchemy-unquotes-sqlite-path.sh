#!/usr/bin/env bash
# What    SQLAlchemy 2.0.44 and 2.1.9 (PyPI): the path in sqlite:///PATH is taken as it is by the one, and unquoted by the other.
# Guess   sqlite:///PATH names the file PATH; an upgrade of a minor version opens the same file.
# Seen    With a folder whose name has the three characters %20, version 2.0.44 opens the file in it. Version 2.1.9 opens, or
#         makes, a file in a folder with a space in its name. Nothing is said; the database seems to be empty.
# So      Quote the path with urllib.parse.quote for 2.1, and refuse a path with % where the version is not known.
# Source  The folders that the script prints, with each version.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/a%20b" "$folder/a b"
for version in 2.0.44 2.1.9; do
    python3 -m venv "$folder/venv-$version"
    "$folder/venv-$version/bin/pip" install --quiet --disable-pip-version-check "sqlalchemy==$version"
    "$folder/venv-$version/bin/python" - "$folder" "$version" <<'PY'
import sys
from pathlib import Path

import sqlalchemy as sa

folder, version = sys.argv[1:]
engine = sa.create_engine(f"sqlite:///{folder}/a%20b/{version}.sqlite")
with engine.begin() as connection:
    connection.execute(sa.text("CREATE TABLE rows (a INTEGER)"))
(made,) = (path.parent.name for path in Path(folder).glob(f"a*/{version}.sqlite"))
print(f"SQLAlchemy {version} has written into the folder {made!r}")
expected = {"2.0.44": "a%20b", "2.1.9": "a b"}[version]
assert made == expected, "the path is taken otherwise now: this finding is out of date"
PY
done
echo "seen again"
