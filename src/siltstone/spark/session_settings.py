"""The settings of a Spark that we start ourselves, each with its reason; the caller's own win over all of them."""

import os
import re
import sysconfig
from collections.abc import Mapping
from pathlib import Path

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
