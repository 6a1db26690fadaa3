"""A real Prometheus with the shipped rules beside a cluster in which each process is killed and each part hangs once.

The rules wait for minutes; here each wait is WAITED. So what the test shows is that the alert fires while the fault
lasts, and ends after it, not how long it waits: that is in the rules, and in the table of docs/metrics.md. What needs
hours, such as SiltstoneNoMaintenance, promtool is asked (``test_alert_rules``).
"""

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.engine.s3_server import running_s3_server
from support.metrics.prometheus_package import program
from support.processes.ports import free_ports
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.s3, pytest.mark.nightly]

RULES = Path(__file__).parents[2] / "dashboards" / "alerts.yml"
WAITED, SECONDS_MAX = "2s", 150.0
SOON = {"engine.upload.cache_block_age_ms_max": "200ms"}


def shortened_rules() -> str:
    return re.sub(r"for: \w+", f"for: {WAITED}", RULES.read_text())


class Prometheus:
    """Asks for the alerts that fire now, as (name, instance)."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def firing(self) -> set[tuple[str, str]]:
        try:
            with urlopen(f"{self.url}/api/v1/alerts", timeout=10) as answer:
                alerts = json.load(answer)["data"]["alerts"]
        except URLError:
            return set()
        labels = [each["labels"] for each in alerts if each["state"] == "firing"]
        return {(each["alertname"], each.get("instance", "")) for each in labels}

    def is_up(self, count: int) -> bool:
        try:
            with urlopen(f"{self.url}/api/v1/query?query=sum(up)", timeout=10) as answer:
                found = json.load(answer)["data"]["result"]
        except URLError:
            return False
        return bool(found) and int(found[0]["value"][1]) == count


@contextmanager
def running_prometheus(folder: Path, targets: list[str]) -> Iterator[Prometheus]:
    folder.mkdir()
    (folder / "alerts.yml").write_text(shortened_rules())
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{folder}/alerts.yml]\n"
        f"scrape_configs: [{{job_name: siltstone, static_configs: [{{targets: {json.dumps(targets)}}}]}}]\n"
    )
    (port,) = free_ports(1)
    command = [
        program("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield Prometheus(port)
        finally:
            process.kill()


class Service:
    """``maintain serve`` in a process of its own."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command, self._log = command, log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()


def wait_until(holds: Callable[[], object], said: Callable[[], object]) -> float:
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < SECONDS_MAX, said()
        time.sleep(0.2)
    return time.monotonic() - begun


def test_each_process_that_dies_and_each_part_that_hangs_raises_its_alert(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    ports = free_ports(3)
    first, second, third = (f"127.0.0.1:{port}" for port in ports)
    with ExitStack() as opened:
        s3 = opened.enter_context(running_s3_server())
        bucket = ["--bucket", s3.new_url()]
        store = tmp_path / "store"
        brokers = [
            opened.enter_context(
                BrokerProcess(
                    store,
                    {**SOON, "broker.num_partitions": "8", "admin.listeners": admin},
                    options=["--node-id", str(number), *bucket],
                )
            )
            for number, admin in enumerate((first, second))
        ]
        words = f"maintain serve --runner in-process --set admin.listeners={third} --store {store}"
        service = Service([str(SILTSTONE), *words.split(), *bucket], tmp_path / "maintenance-log")
        service.start()
        opened.callback(service.kill)
        prometheus = opened.enter_context(running_prometheus(tmp_path / "prometheus", [first, second, third]))
        wait_until(lambda: prometheus.is_up(3) and not prometheus.firing(), prometheus.firing)
        _produce(brokers[0])
        took: dict[str, float] = {}

        def fires(what: str, *wanted: tuple[str, str]) -> None:
            took[what] = wait_until(lambda: prometheus.firing() >= {*wanted}, prometheus.firing)

        def ends() -> None:
            wait_until(lambda: prometheus.is_up(3) and not prometheus.firing(), prometheus.firing)

        brokers[1].kill()
        fires("broker killed", ("SiltstoneDown", second))
        brokers[1].start()
        ends()

        brokers[1].signal(signal.SIGSTOP)
        fires("broker hangs", ("SiltstoneDown", second))
        brokers[1].kill()
        brokers[1].start()
        ends()

        service.signal(signal.SIGSTOP)
        fires("maintenance hangs", ("SiltstoneDown", third))
        service.signal(signal.SIGCONT)
        ends()

        service.kill()
        fires("maintenance killed", ("SiltstoneDown", third))
        service.start()
        ends()

        with s3.silent():
            producing = _producing(brokers[0])
            fires("bucket hangs", ("SiltstoneBucketSilent", first))
        assert producing.wait(SECONDS_MAX) == 0, "records that waited for the bucket are stored"
        ends()
        record_tried("faults", len(took))
        print({what: f"{seconds:.0f} s" for what, seconds in took.items()})


def _produce(broker: BrokerProcess) -> None:
    assert _producing(broker).wait(SECONDS_MAX) == 0


def _producing(broker: BrokerProcess) -> "subprocess.Popen[str]":
    """Sends a record to each partition, so that each broker that leads one has something to upload. They wait for a
    partition that is not open yet and whose bucket hangs."""
    command = [str(SILTSTONE), "produce", "t", "--create", "-K", ":", "-b", broker.bootstrap_servers]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    process.stdin.write("".join(f"{number}:x\n" for number in range(64)))
    process.stdin.close()
    return process
