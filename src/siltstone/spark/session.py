"""Starts Spark in this process: finds Java, sets what was measured to matter, keeps the terminal clean.

pyspark is imported when Spark is started and not before: commands that need no Spark do not pay for it. One JVM a
process: it lives until the process ends, and a second start uses it again. A context (jobs) costs 2 s less CPU than a
session (SQL and data frames as well), so the runner takes a context. The settings: ``session_settings.py``.
"""

import atexit
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siltstone.model.errors import InvalidRequest
from siltstone.spark.causes import cause_in_one_line
from siltstone.spark.interruption import interruption_deferred
from siltstone.spark.java import find_java
from siltstone.spark.master import SparkNotStarted, refuse_silent_master
from siltstone.spark.session_settings import is_local, settings_for

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

__all__ = ["SparkAlreadyRunning", "SparkNotStarted", "active_context", "start_context", "start_session"]

APP_NAME = "siltstone"


class SparkAlreadyRunning(InvalidRequest):
    """This process has a Spark; settings for another cannot take effect."""


def start_session(
    master: str = "local[*]", app_name: str = APP_NAME, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session on a context from ``start_context``."""
    context = start_context(master, app_name, settings)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkSession(context)


def start_context(
    master: str = "local[*]", app_name: str = APP_NAME, settings: Mapping[str, str] | None = None
) -> "SparkContext":
    """Raises JavaNotFound, SparkNotStarted and SparkAlreadyRunning. ``settings`` are Spark's own and win over ours."""
    if active_context() is not None:
        raise SparkAlreadyRunning("this process runs a Spark already: use its context, or stop it first")
    refuse_silent_master(master)
    with _environment(_variables(master)):
        return _start(settings_for(master, app_name, settings or {}))


def active_context() -> "SparkContext | None":
    """The context this process runs, whoever started it."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext  # noqa: PLC0415

    return SparkContext._active_spark_context


def jvm_has_died() -> bool:
    """The JVM that this process had started: out of memory, or killed. A new one can take its place."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext  # noqa: PLC0415

    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _start(settings: Mapping[str, str]) -> "SparkContext":
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    if jvm_has_died():
        SparkContext._gateway = SparkContext._jvm = None
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    log = _jvm_log()
    try:
        gateway = SparkContext._gateway or _launch_jvm(conf, log)
        return SparkContext(gateway=gateway, conf=conf)
    except Exception as failure:
        cause = cause_in_one_line(failure)
        raise SparkNotStarted(
            f"Spark did not start: {cause} (its last words: {_last_words(log)})"
        ) from failure


def _launch_jvm(conf: "SparkConf", log: Path) -> Any:
    """What the JVM and its Python workers print goes to a file: the terminal is for our own output. A JVM whose launch
    is broken off finds nobody to report to, and lives on for ever: Ctrl-C waits for the seconds it takes."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    with log.open("ab") as file, interruption_deferred():
        return launch_gateway(conf, {"stdout": file, "stderr": file})


def _jvm_log() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="siltstone-spark-", suffix=".log")
    os.close(descriptor)
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)


def _last_words(log: Path) -> str:
    """Without Java's stack and without what bash says of a JVM that gave no answer."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    said = [line for line in lines if line and not line.startswith("at ") and "spark-class: line" not in line]
    return said[-1] if said else "none"


def _variables(master: str) -> dict[str, str]:
    variables = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    if is_local(master):
        # Else Spark looks for an address of the machine, warns, and fails where there is no network.
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """pyspark has no other way to be told; what the caller's process had is put back."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
