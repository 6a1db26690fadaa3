"""Two brokers and the maintenance service on PostgreSQL and S3, with a producer at work and a Prometheus beside them.

The logs of the brokers are in the bucket, as on the page about clusters, and nothing of the cluster is on a disk.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

from support.broker.broker_process import BrokerProcess
from support.broker.cluster_clients import made_topic, until
from support.engine.s3_server import S3Server, running_s3_server
from support.metadata.postgres_server import PostgresServer, running_postgres_server
from support.metrics.prometheus_server import INTERVAL_SECONDS, Prometheus, running_prometheus
from support.processes.ports import free_port, free_ports

TESTS = Path(__file__).parents[2]
TOPIC, PARTITIONS = "alerts", 8
SECONDS_MAX = 240.0
UPLOADS_SOON = {"engine.upload.cache_block_age_ms_max": "1s"}
OFTEN = {f"maintenance.interval.{kind}_ms": f"{INTERVAL_SECONDS}s" for kind in ("sweep", "retention")}


class Service:
    """``maintain serve`` in a process of its own. Retention hangs while ``hang_file`` exists."""

    def __init__(self, options: Sequence[str], folder: Path) -> None:
        self.hang_file = folder / "hang"
        self._log = folder / "maintenance-log"
        words = [
            sys.executable,
            "-m",
            "support.metrics.hanging_kind",
            str(self.hang_file),
            "maintain",
            "serve",
        ]
        self._command = [*words, "--runner", "in-process", *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environment)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text()


class Traffic:
    """Ten records a second, to one partition after the other, from a thread, until ``stop``. The producer waits for as
    long as a fault takes."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0,
            "message.timeout.ms": 1_000_000, "reconnect.backoff.max.ms": 1_000,
        })  # fmt: skip
        self.errors: list[str] = []
        self.acknowledged = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        sent = 0
        while not self._stopping.is_set():
            self._producer.produce(TOPIC, str(sent), partition=sent % PARTITIONS, callback=self._done)
            sent += 1
            time.sleep(0.1)
            self._producer.poll(0)

    def _done(self, error: object, _: object) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged += 1

    def stop(self) -> None:
        """Returns when each record is acknowledged. Fails if one is not."""
        self.abandon()
        assert self._producer.flush(SECONDS_MAX) == 0
        assert not self.errors, self.errors[:3]

    def abandon(self) -> None:
        self._stopping.set()
        self._thread.join()


class AlertedCluster:
    """The cluster is used in a ``with``, which ends everything. ``targets``: what Prometheus scrapes: both brokers,
    then the service."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened = ExitStack()

    def __enter__(self) -> "AlertedCluster":
        with ExitStack() as opened:
            self.s3: S3Server = opened.enter_context(running_s3_server())
            self.postgres: PostgresServer = opened.enter_context(running_postgres_server())
            self.targets = [f"127.0.0.1:{port}" for port in free_ports(3)]
            store = ["--bucket", self.s3.new_url(), "--metadata", self.postgres.tcp_url("alerts")]
            self.brokers = [
                opened.enter_context(self._broker(number, admin, store))
                for number, admin in enumerate(self.targets[:2])
            ]
            settings = {"admin.listeners": self.targets[2], **OFTEN}
            pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
            self.service = Service([*store, "--store", str(self._folder / "service"), *pairs], self._folder)
            opened.callback(self.service.kill)
            self.service.start()
            bootstrap = ",".join(each.bootstrap_servers for each in self.brokers)
            made_topic(bootstrap, TOPIC, PARTITIONS)
            self.traffic = Traffic(bootstrap)
            opened.callback(self.traffic.abandon)
            self.prometheus: Prometheus = opened.enter_context(
                running_prometheus(self._folder / "prometheus", self.targets)
            )
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _broker(self, number: int, admin: str, store: list[str]) -> BrokerProcess:
        folder = self._folder / f"broker-{number}"
        folder.mkdir()
        settings = {**UPLOADS_SOON, "engine.wal.location": "bucket:0", "admin.listeners": admin}
        port = free_port()  # which it keeps: both are started again, and the producer has to find one
        options = ["--node-id", str(number), *store]
        return BrokerProcess(folder / "store", settings, port=port, options=options)

    def wait_until_well(self) -> None:
        def is_well() -> bool:
            count, prometheus = len(self.targets), self.prometheus
            return prometheus.is_up(count) and prometheus.is_used_to(count) and not prometheus.firing()

        until(is_well, lambda: f"these alerts do not end: {self.prometheus.active()}", SECONDS_MAX)

    @property
    def logs(self) -> str:
        return "\n".join(text[-2_000:] for text in (*(each.log for each in self.brokers), self.service.log))

    def start_broker_again(self, number: int) -> None:
        self.brokers[number].kill()
        self.brokers[number].start()
