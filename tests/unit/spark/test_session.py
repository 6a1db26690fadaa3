"""Starting Spark when it does not start. That it does is shown by tests/spark."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os
from siltstone.model.errors import Unavailable
from siltstone.spark.session import SparkNotStarted, start_context
before = dict(os.environ)
try:
    start_context("local[1]")
except SparkNotStarted as failure:
    assert isinstance(failure, Unavailable)
    print(failure)
assert dict(os.environ) == before
"""

JAVA_THAT_ONLY_TELLS_ITS_VERSION = """#!/bin/sh
echo 'openjdk version "17.0.1"' >&2
[ "$2" = -version ] || { echo 'no room for a heap' >&2; exit 1; }
"""


def test_a_jvm_that_does_not_come_up_is_told_in_one_line(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA_THAT_ONLY_TELLS_ITS_VERSION)
    java.chmod(0o755)
    environment = {**os.environ, "SILTSTONE_JAVA": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert line.startswith("Spark did not start: ")
    assert "last line of its log: no room for a heap" in line
    assert list(tmp_path.glob("siltstone-spark-*.log")) == []
