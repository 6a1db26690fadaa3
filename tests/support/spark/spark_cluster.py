"""A standalone Spark cluster on this machine: a master and a worker on each of two loopback addresses.

Only processes that it started are ever signalled, each by its pid: the three Popens, and what runs under the workers.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from siltstone.spark.java import find_java
from support.processes.ports import free_port

TESTS = Path(__file__).parents[2]
HOSTS = ("127.0.0.1", "127.0.0.2")
DEADLINE_SECONDS = 300.0  # a loaded machine takes many times as long as an idle one

LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DRIVER_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": LIGHT_JVM,
    "spark.executor.extraJavaOptions": LIGHT_JVM,
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.executorEnv.PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}",
}


class SparkCluster:
    """``start_worker`` starts a worker process on a host, again after one was killed."""

    def __init__(
        self, master: str, state_url: str, start_worker: Callable[[str], subprocess.Popen[bytes]]
    ) -> None:
        self.master = master
        self._state_url = state_url
        self._start_worker = start_worker
        self._workers = {host: start_worker(host) for host in HOSTS}

    def alive_workers(self) -> int:
        try:
            with urllib.request.urlopen(self._state_url, timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, json.JSONDecodeError):
            return 0  # the master is not up yet, or its page answers before its state does

    def executor_of(self, python_worker: int) -> psutil.Process:
        """The executor JVM above a Python worker, itself under one of our workers."""
        ours = {worker.pid for worker in self._workers.values()}
        for parent in psutil.Process(python_worker).parents():
            if parent.ppid() in ours:
                return parent
        raise AssertionError(f"process {python_worker} does not run under our workers")

    def kill_python_worker(self, pid: int) -> None:
        assert self.executor_of(pid).pid != pid
        psutil.Process(pid).kill()

    def kill_executor_of(self, python_worker: int) -> psutil.Process:
        executor = self.executor_of(python_worker)
        executor.kill()
        return executor

    def restart_worker_of(self, python_worker: int) -> None:
        """Kills the worker process of the cluster, not the Python worker alone: its executor ends with it. Then starts
        one on the same host."""
        executor = self.executor_of(python_worker)
        (host,) = [host for host, worker in self._workers.items() if worker.pid == executor.ppid()]
        self._workers[host].kill()
        self._workers[host].wait()
        wait_until(lambda: not executor.is_running(), "the executor has ended with its worker")
        self._workers[host] = self._start_worker(host)


@contextmanager
def running_spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Logs and work go under ``folder``. Ends with nothing of it running."""
    port, page = free_port(), free_port()
    master = f"spark://{HOSTS[0]}:{port}"
    with ExitStack() as stack:

        def start(name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((folder / f"{name}.log").open("ab"))
            started = _spark_class(kind, *arguments, log=log)
            stack.callback(_stop, started)
            return started

        start("master", "master.Master", "--host", HOSTS[0], "--port", str(port), "--webui-port", str(page))
        wait_until(lambda: _listens(port), "the master listens")

        def start_worker(host: str) -> subprocess.Popen[bytes]:
            return start(
                f"worker-{host}",
                "worker.Worker",
                *("--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(folder / f"work-{host}"), master),
            )

        cluster = SparkCluster(master, f"http://{HOSTS[0]}:{page}/json/", start_worker)
        wait_until(lambda: cluster.alive_workers() == len(HOSTS), "both workers have registered")
        yield cluster


def start_driver(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python program in a process of its own, since a process runs one Spark."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "SPARK_LOCAL_IP": HOSTS[0], "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(holds: Callable[[], Any], what: str) -> Any:
    """Returns the result of ``holds`` once it is true. It looks again and again, since there is no clock of
    processes to turn."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {DEADLINE_SECONDS:.0f} s: {what}")


def _spark_class(kind: str, *arguments: str, log: Any) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": LIGHT_JVM,
        "SPARK_PUBLIC_DNS": HOSTS[0],
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    return subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _stop(started: subprocess.Popen[bytes]) -> None:
    below = psutil.Process(started.pid).children(recursive=True) if started.poll() is None else []
    started.terminate()
    try:
        started.wait(10)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()
    for process in psutil.wait_procs(below, timeout=5)[1]:
        process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOSTS[0], port)) == 0
