"""Streaming queries of Spark 4.0.1 into Delta and Iceberg tables, beside which ours are measured, and which are killed
where ours are killed.

No release of Delta or Iceberg works with the Spark of ``.venv``, so the queries run in a process of their own, with the
packages of ``foreign_spark`` (``foreign_streams_program``).
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from oracles.foreign_spark import FOLDER, PACKAGES, ForeignSparkRefused
from oracles.java_artifacts import FOREIGN_KAFKA_CONNECTOR, FOREIGN_SPARK, fetch_jars, java_program
from oracles.pip_packages import installed

PROGRAM = Path(__file__).parent / "foreign_streams_program.py"


class ForeignStreams:
    """One process: started, killed and started again. ``folder`` holds its warehouse and its log. Raises
    JavaArtifactsUnavailable."""

    def __init__(self, folder: Path) -> None:
        packages = installed(FOLDER, PACKAGES, with_what_they_need=False)
        jars = (*fetch_jars(FOREIGN_SPARK), *fetch_jars(FOREIGN_KAFKA_CONNECTOR))
        self._folder, self._log = folder, folder / "foreign-streams.txt"
        warehouse = folder / "warehouse"
        self._command = [sys.executable, str(PROGRAM), ",".join(map(str, jars)), warehouse.as_uri()]
        self._environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))},
            "PYTHONPATH": str(packages),
            "SPARK_HOME": str(packages / "pyspark"),
            "JAVA_HOME": str(java_program().parents[1]),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "ForeignStreams":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._environment, text=True, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip

    def kill(self) -> None:
        """Kills the driver and its JVM at one moment, as the end of their machine does."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Raises ForeignSparkRefused."""
        return self._answered({"sql": statement})

    def run(self, *queries: dict[str, Any], waits: bool) -> None:
        """Starts queries; ``waits`` until all of them have ended. Raises ForeignSparkRefused."""
        self._answered({"queries": queries, "waits": waits})

    def _answered(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline() or '{"error": "the process has ended"}')
        if "error" in answer:
            raise ForeignSparkRefused(f"{answer['error']}\n{self._log.read_text(errors='replace')[-2_000:]}")
        return list(answer["rows"])


def query(
    way: str, servers: str, topic: str, into: str, checkpoint: Path, *, per_batch: int = 0, ends: bool = True,
    columns: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Returns a query for ``ForeignStreams.run``: the way is one of ``foreign_streams_program``, ``into`` a table, or
    the folder of one of Delta's. ``columns``: those of the events' rows, as in DDL, the key first."""
    return {
        "way": way, "servers": servers, "topic": topic, "into": into, "checkpoint": str(checkpoint),
        "per_batch": per_batch, "ends": ends, "columns": columns,
    }  # fmt: skip
