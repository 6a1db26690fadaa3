"""Starts Spark in this process: finds Java, applies the settings below, keeps Spark's output off the terminal.

pyspark is imported only when Spark is started, so commands that need no Spark do not pay for it. A process has one JVM,
which lives until the process ends; a second start uses it again. Starting a context (jobs) takes 2 s less CPU than a
session (SQL and data frames, too), so the runner uses a context.

Each setting of a Spark that we start has its reason beside it; the caller's settings override all but the master and
the application's name.
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
from importlib.util import find_spec
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

__all__ = ["SparkAlreadyRunning", "SparkNotStarted", "active_context", "start_context", "start_session"]

APP_NAME = "siltstone"

TASK_ATTEMPTS_MAX = 4  # Spark's default on a cluster; in local mode Spark would not retry a task

ANY_MASTER = {
    # Python workers use Unix sockets: over TCP each task waits some 25 ms for its handshake.
    "spark.python.unix.domain.socket.enabled": "true",
    # The commands show their own progress.
    "spark.ui.showConsoleProgress": "false",
    # The web pages of the driver listen on every address of the machine and ask for no login. For a Spark that lives
    # for one command they are of little use, and starting them takes a second.
    "spark.ui.enabled": "false",
}

LIGHT_JVM = {
    # A JVM that only schedules tasks: with a light compiler and collector its start takes half the CPU. Rows of data
    # frames take twice the CPU in it.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class SparkAlreadyRunning(InvalidRequest):
    """This process runs a Spark already, and cannot start another with other settings."""


class SparkMissing(InvalidRequest):
    """The package pyspark is not installed."""


def start_session(
    master: str = "local[*]", app_name: str = APP_NAME, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """Returns a session on a context from ``start_context``, whose JVM is made for data frames. What the JVM prints
    goes to stdout, such as the rows of a streaming query with Spark's console sink."""
    context = start_context(master, app_name, settings, for_data_frames=True)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkSession(context)


def start_context(
    master: str = "local[*]",
    app_name: str = APP_NAME,
    settings: Mapping[str, str] | None = None,
    *,
    for_data_frames: bool = False,
) -> "SparkContext":
    """Returns a new context; ``settings`` are Spark's and override ours. In local mode its JVM only schedules tasks,
    unless it is ``for_data_frames``. Raises SparkMissing, JavaNotFound, MasterMalformed, SparkNotStarted and
    SparkAlreadyRunning."""
    if find_spec("pyspark") is None:
        raise SparkMissing("Spark is the package pyspark; install it: pip install 'siltstone[spark]'")
    if active_context() is not None:
        raise SparkAlreadyRunning("this process runs a Spark already: use its context, or stop it first")
    refuse_silent_master(master)
    with _environment(_variables(master)):
        chosen = settings_for(master, app_name, settings or {}, for_data_frames=for_data_frames)
        return _start(chosen, shows_stdout=for_data_frames)


def active_context() -> "SparkContext | None":
    """Returns the context that runs in this process, also if the user started it."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext  # noqa: PLC0415

    return SparkContext._active_spark_context


def jvm_has_died() -> bool:
    """Returns whether the JVM that this process started has died: out of memory, or killed. Then a new one can be
    started."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext  # noqa: PLC0415

    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _start(settings: Mapping[str, str], *, shows_stdout: bool) -> "SparkContext":
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    if jvm_has_died():
        SparkContext._gateway = SparkContext._jvm = None
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    log = _jvm_log()
    try:
        gateway = SparkContext._gateway or _launch_jvm(conf, log, shows_stdout=shows_stdout)
        return SparkContext(gateway=gateway, conf=conf)
    except Exception as failure:
        cause = cause_in_one_line(failure)
        raise SparkNotStarted(
            f"Spark did not start: {cause} (last line of its log: {_last_words(log)})"
        ) from failure


def _launch_jvm(conf: "SparkConf", log: Path, *, shows_stdout: bool) -> Any:
    """Starts the JVM. What it and its Python workers print is written to ``log``, since the terminal is for our own
    output; but if ``shows_stdout``, only what they print to stderr. Ctrl-C is deferred for the seconds that this takes,
    because a JVM whose launcher is gone never ends."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    with log.open("ab") as file, interruption_deferred():
        return launch_gateway(conf, {"stdout": None if shows_stdout else file, "stderr": file})


def _jvm_log() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="siltstone-spark-", suffix=".log")
    os.close(descriptor)
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)


def _last_words(log: Path) -> str:
    """Returns the last line of the log that is neither a line of a Java stack trace nor bash's report that the JVM
    died."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    said = [line for line in lines if line and not line.startswith("at ") and "spark-class: line" not in line]
    return said[-1] if said else "none"


def _variables(master: str) -> dict[str, str]:
    variables = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    if is_local(master):
        # Otherwise Spark looks for an address of the machine, warns, and fails without a network.
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables, the only way to pass these values to pyspark, and restores them at the end."""
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


def settings_for(
    master: str, app_name: str, overrides: Mapping[str, str], *, for_data_frames: bool = False
) -> dict[str, str]:
    """Returns all settings of a Spark that is started; ``overrides`` are the caller's."""
    settings = {**ANY_MASTER, **(LIGHT_JVM if is_local(master) and not for_data_frames else {})}
    if source := source_folder():
        settings["spark.executorEnv.PYTHONPATH"] = source
    return {**settings, **overrides, "spark.master": with_retries(master), "spark.app.name": app_name}


def is_local(master: str) -> bool:
    """Returns whether tasks run in the driver's own JVM."""
    return re.match(r"local(\[|$)", master) is not None


def with_retries(master: str) -> str:
    """``local[2]`` → ``local[2,4]``. A master that has its own number of retries, or is a cluster, is not changed."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    if found is None:
        return master
    threads = found[1] or "1"
    return f"local[{len(os.sched_getaffinity(0)) if threads == '*' else threads},{TASK_ATTEMPTS_MAX}]"


def source_folder() -> str | None:
    """Returns the folder of this package if it is not installed: executors on this machine import it from there. On
    other machines it has to be installed, and that the folder is missing there does no harm."""
    folder = Path(__file__).parents[2]
    installed = {Path(sysconfig.get_path(scheme)) for scheme in ("purelib", "platlib")}
    return None if folder in installed else str(folder)


@contextmanager
def interruption_deferred() -> Iterator[None]:
    """Defers a SIGINT that arrives in the block to the end of the block. Only the main thread gets SIGINT, so in other
    threads this does nothing."""
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
