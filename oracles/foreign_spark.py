"""Spark 4.0.1 with Delta 4.0.0 and Iceberg 1.10.1, which other people change our tables with.

No release of Delta or Iceberg works with the Spark of ``.venv``. So pip puts the older one into ``.build``, and it runs
in a process of its own, which is given statements of SQL and answers with rows (``foreign_spark_program``). Starting it
takes some ten seconds, so all tests of a worker share one.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oracles.java_artifacts import FOREIGN_SPARK, fetch_jars, java_program
from oracles.pip_packages import installed

PROGRAM = Path(__file__).parent / "foreign_spark_program.py"
FOLDER = f"spark-{FOREIGN_SPARK.version}"
PACKAGES = (f"pyspark=={FOREIGN_SPARK.version}", "py4j==0.10.9.9")


class ForeignSparkRefused(Exception):
    """Spark does not run the statement: the text says why."""


class ForeignSpark:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def sql(
        self, statement: str, session: str = "", settings: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """Runs a statement. ``settings`` are those of a session that is made when it is first named. Raises
        ForeignSparkRefused."""
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {"sql": statement, "session": session, "settings": dict(settings or {})}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "the process has ended"}')
        if "error" in answer:
            raise ForeignSparkRefused(f"{statement}: {answer['error']}")
        return list(answer["rows"])


@contextmanager
def running_foreign_spark() -> Iterator[ForeignSpark]:
    """Runs the process, until the end of the block. Raises JavaArtifactsUnavailable."""
    packages = installed(FOLDER, PACKAGES, with_what_they_need=False)
    jars, java = fetch_jars(FOREIGN_SPARK), java_program()
    with (
        tempfile.TemporaryDirectory(prefix="siltstone-foreign-") as folder,
        Path(folder, "log").open("w") as log,
    ):
        environment = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))
            },
            "PYTHONPATH": str(packages),
            "SPARK_HOME": str(packages / "pyspark"),
            "JAVA_HOME": str(java.parents[1]),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), ",".join(map(str, jars))],
            cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
        try:
            yield ForeignSpark(process)
        finally:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.wait()
            process.stdout.close()
