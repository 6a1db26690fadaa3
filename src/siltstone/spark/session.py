"""Starts Spark in this process: finds Java, sets what was measured to matter, keeps the terminal clean.

pyspark is imported when Spark is started and not before: commands that need no Spark do not pay for it. One JVM a
process: it lives until the process ends, and a second start uses it again. A context (jobs) costs 2 s less CPU than a
session (SQL and data frames as well), so the runner takes a context. The settings: ``session_settings.py``.

The settings of a Spark that we start ourselves, each with its reason; the caller's own win over all of them.

Ctrl-C, heard a little later.
"""

import atexit
import os
import re
import signal
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from siltstone.model.errors import InvalidRequest
from siltstone.spark.java import find_java
from siltstone.spark.master import SparkNotStarted, refuse_silent_master
from siltstone.spark.task_attempt import cause_in_one_line

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession


TASK_ATTEMPTS_MAX = 4  # Spark's own default on a cluster; local mode would give up at the first failure

ANY_MASTER = {
    # Python workers over Unix sockets: over TCP each task stalls some 25 ms on its handshake.
    "spark.python.unix.domain.socket.enabled": "true",
    # We draw our own progress.
    "spark.ui.showConsoleProgress": "false",
}

LOCAL_MASTER = {
    # Nobody looks at the pages of a Spark that lives for one command, and they cost a second.
    "spark.ui.enabled": "false",
    # The JVM only hands out tasks: a light compiler and collector halve the CPU that starting it takes.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def settings_for(master: str, app_name: str, overrides: Mapping[str, str]) -> dict[str, str]:
    settings = {**ANY_MASTER, **(LOCAL_MASTER if is_local(master) else {})}
    if source := source_folder():
        settings["spark.executorEnv.PYTHONPATH"] = source
    return {**settings, **overrides, "spark.master": with_retries(master), "spark.app.name": app_name}


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own JVM."""
    return re.match(r"local(\[|$)", master) is not None


def with_retries(master: str) -> str:
    """``local[2]`` → ``local[2,4]``; a master that says its retries, or is a cluster, stays as it is."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    if found is None:
        return master
    threads = found[1] or "1"
    return f"local[{len(os.sched_getaffinity(0)) if threads == '*' else threads},{TASK_ATTEMPTS_MAX}]"


def source_folder() -> str | None:
    """Where this package lies when it is not installed: executors on this machine then import it from there. On
    other machines it has to be installed, and a folder that is missing there does no harm."""
    folder = Path(__file__).parents[2]
    installed = {Path(sysconfig.get_path(scheme)) for scheme in ("purelib", "platlib")}
    return None if folder in installed else str(folder)


@contextmanager
def interruption_deferred() -> Iterator[None]:
    """A SIGINT that arrives inside takes effect at the end. Only the main thread has any to defer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[FrameType | None] = []
    before = signal.signal(signal.SIGINT, lambda _, frame: arrived.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if arrived and callable(before):
            before(signal.SIGINT, arrived[-1])


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
