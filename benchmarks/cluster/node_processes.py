"""(m) Compares one node with two node processes on this machine, ``siltstone serve --nodes 2``: four clients produce
to four partitions, each in a process of its own. The clients and the brokers share the cores."""

import signal
import subprocess
import time
from contextlib import ExitStack
from statistics import median

from benchmarks.brokers.client import Produce, Target, Throughput
from benchmarks.brokers.client_runs import begun
from benchmarks.brokers.process_cost import cost_of
from benchmarks.cluster.contenders import Named, made_topic
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_most
from oracles.broker_process import HOST, free_ports
from siltstone.model.limits import GIB, KIB
from support.broker.broker_process import SILTSTONE

TITLE = "(m) one node against two node processes, four clients"
CLIENTS = 4
ROUNDS = 3
WARM_SECONDS = 25.0
"""The bytes that are produced before anything is measured: until caches and log files are used again, each node
takes memory that this machine has never used, and two nodes take it twice."""

SECONDS = 15.0
CPU_AIM = 1.1
BATCH_BYTES = 128 * KIB


def run() -> list[Row]:
    measured: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for nodes, found in measured.items():
            found.append(_measured(nodes))
    speed = {nodes: median(each[0] for each in found) for nodes, found in measured.items()}
    cost = {nodes: median(each[1] for each in found) for nodes, found in measured.items()}
    return [
        Row("throughput of two against one", f"{speed[2] / speed[1]:.2f} ×", f"one: {speed[1]:.0f} MB/s"),
        at_most("CPU a GB of two against one", cost[2] / cost[1], CPU_AIM, " ×", f"one: {cost[1]:.2f} s/GB"),
    ]


def _measured(nodes: int) -> tuple[float, float]:
    """The MB/s, and the CPU seconds of all brokers for a GB."""
    with folder() as place, ExitStack() as opened:
        first = free_ports(1)[0] // 10 * 10  # the nodes take the ports from there on
        command = [str(SILTSTONE), "serve", "--store", str(place / "store"), "--listener", f"{HOST}:{first}"]
        process = subprocess.Popen(
            [*command, "--nodes", str(nodes)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        opened.callback(process.wait)
        opened.callback(process.send_signal, signal.SIGTERM)
        assert process.stdout is not None
        for _ in range(nodes):
            assert "is ready" in process.stdout.readline()
        cluster = Named(f"{nodes} nodes", f"{HOST}:{first}")
        targets = [Target(cluster.bootstrap, f"of-client-{number}") for number in range(CLIENTS)]
        for target in targets:
            made_topic(cluster, target.topic, 1)
        _produced(targets, WARM_SECONDS)
        before, started = cost_of(process.pid), time.monotonic()
        produced = _produced(targets, SECONDS)
        seconds = time.monotonic() - started
        cpu_seconds = cost_of(process.pid).cpu_seconds - before.cpu_seconds
        return produced / 1e6 / seconds, cpu_seconds / (produced / 1e9)


def _produced(targets: list[Target], seconds: float) -> int:
    """Returns the bytes of all clients."""
    with ExitStack() as opened:
        runs = [
            opened.enter_context(begun(target, Produce(BATCH_BYTES, 100 * GIB, seconds)))
            for target in targets
        ]
        return sum(each.answer(Throughput).size_bytes for each in runs)
