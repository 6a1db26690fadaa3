"""(n) The metadata log on PostgreSQL (with fsync): commands a second and their latency with 1, 3 and 6 nodes that all
write all the time, beside a bare transaction that inserts as many bytes; and what 20 idle nodes cost it."""

import os
import subprocess
import sys
import time
from statistics import median, quantiles
from typing import Any

import msgspec
import psutil

from benchmarks.support.places import folder
from benchmarks.support.report import Row
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import PutKey
from siltstone.metadata.store.opening import open_log
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from support.broker.broker_process import BrokerProcess
from support.metadata.postgres_server import PostgresServer, running_postgres_server

TITLE = "(n) the metadata log on PostgreSQL"
SECONDS = 8.0
VALUE_BYTES = 200
WRITERS = (1, 3, 6)
IDLE_NODES = 20
IDLE_SECONDS = 20.0


class Written(msgspec.Struct, frozen=True):
    """``took_ms``: the time of each command, or of each transaction."""

    took_ms: list[float]

    @property
    def per_second(self) -> float:
        return len(self.took_ms) / SECONDS

    @property
    def latency(self) -> str:
        return f"p50 {median(self.took_ms):.1f} ms, p99 {quantiles(self.took_ms, n=100)[-1]:.1f} ms"


def run() -> list[Row]:
    with running_postgres_server(fsync="on") as server:
        bare = _bare(server)
        against = f"bare transaction: {bare.per_second:,.0f} a second, {bare.latency}"
        rows = []
        for writers in WRITERS:
            url = server.url(server.new_schema())
            found = _written_by(url, writers)
            rows.append(
                Row(
                    f"commands a second, {writers} nodes",
                    f"{found.per_second:,.0f}, {found.latency}",
                    against,
                )
            )
        return [*rows, *_idle(server)]


def _written_by(url: str, writers: int) -> Written:
    open_log(url).close()
    command = [sys.executable, "-m", "benchmarks.cluster.metadata_log", url]
    processes = [
        subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE) for number in range(writers)
    ]
    answers = [msgspec.json.decode(process.communicate()[0], type=Written) for process in processes]
    return Written([each for answer in answers for each in answer.took_ms])


def write(url: str, name: str) -> Written:
    client = MetadataClient(open_log(url), SystemClock(), system_randomness())
    return _timed(lambda: client.execute(PutKey(f"of-{name}", os.urandom(VALUE_BYTES), overwrite=True)))


def _bare(server: PostgresServer) -> Written:
    with server.connect() as connection:
        connection.execute("CREATE TABLE bare (number bigserial PRIMARY KEY, content bytea)")
        connection.execute("SET synchronous_commit = on")
        return _timed(
            lambda: connection.execute("INSERT INTO bare (content) VALUES (%s)", (os.urandom(VALUE_BYTES),))
        )


def _timed(act: Any) -> Written:
    took, begun = [], time.perf_counter()
    while (started := time.perf_counter()) < begun + SECONDS:
        act()
        took.append((time.perf_counter() - started) * 1000)
    return Written(took)


def _idle(server: PostgresServer) -> list[Row]:
    with folder() as place:
        settings = {"metadata": server.url(server.new_schema())}
        nodes = [
            BrokerProcess(place / "store", settings, options=("--node-id", str(node_id)))
            for node_id in range(IDLE_NODES)
        ]
        try:
            for node in nodes:
                node.start()
            time.sleep(10)
            served, own = _cpu_s(server.process_ids), _cpu_s([node.process_id for node in nodes])
            time.sleep(IDLE_SECONDS)
            served = (_cpu_s(server.process_ids) - served) / IDLE_SECONDS
            own = (_cpu_s([node.process_id for node in nodes]) - own) / IDLE_SECONDS / IDLE_NODES
        finally:
            for node in nodes:
                node.stop()
    return [
        Row(f"{IDLE_NODES} idle nodes: of a core, PostgreSQL", f"{served:.1%}"),
        Row(f"{IDLE_NODES} idle nodes: of a core, each node", f"{own:.2%}"),
    ]


def _cpu_s(pids: list[int]) -> float:
    total = 0.0
    for pid in pids:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:  # a connection of PostgreSQL that has ended
            continue
        total += times.user + times.system
    return total


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(write(*sys.argv[1:])).decode())
