#!/usr/bin/env bash
# What    SQLAlchemy 2.1.9 (PyPI) with Python's sqlite3: after a COMMIT that failed the pool hands the open transaction out again.
# Guess   commit() that raised has stored nothing; who asks on the next connection sees whether the rows are there.
# Seen    A reader holds its lock, so commit() raises "database is locked". The connection is closed, that is, returned to the
#         pool. The next connection of the engine is the same one, and sees the row; no other process does. Nobody has
#         committed it, and it is gone when the connection is.
# So      To find out whether a commit that failed took effect, ask on a connection that the pool has not seen.
# Source  SQLite, "File Locking": a COMMIT that fails with SQLITE_BUSY leaves the transaction open. The script shows the rest.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "sqlalchemy==2.1.9"
"$folder/venv/bin/python" - "$folder" <<'PY'
import sqlite3
import sys

import sqlalchemy as sa

path = f"{sys.argv[1]}/rows.sqlite"
count = "SELECT count(*) FROM rows"
engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0})
with engine.begin() as connection:
    connection.execute(sa.text("CREATE TABLE rows (a INTEGER)"))
reader = sqlite3.connect(path, isolation_level=None)
reader.execute("BEGIN")
reader.execute(count).fetchall()  # holds a shared lock until its transaction ends

connection = engine.connect()
connection.execute(sa.text("INSERT INTO rows VALUES (1)"))
try:
    connection.commit()
except sa.exc.OperationalError as failure:
    print("commit:", failure.orig)
else:
    raise AssertionError("the reader's lock did not hinder the commit")
connection.close()
with engine.connect() as following:
    seen = following.execute(sa.text(count)).scalar_one()
others = reader.execute(count).fetchone()[0]
print(f"the next connection of the engine sees {seen} row, another connection {others}")
assert others == 0
assert seen == 1, "the transaction is rolled back now: this finding is out of date"
PY
echo "seen again"
