"""A real Prometheus with the shipped alert rules, made shorter, and what its alerts say.

Each ``for:`` becomes WAITED_SECONDS, and a wait inside an expression is made shorter by SHORTER. So a time that is
measured here, plus ``longer_by``, is the time that the shipped rules take with the same scrapes.
"""

import json
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import msgspec

from siltstone.offline.settings import Intervals
from support.metrics.prometheus_package import program
from support.processes.ports import free_port

RULES = Path(__file__).parents[3] / "dashboards" / "alerts.yml"
WAITED_SECONDS = 2
INTERVAL_SECONDS = 5
"""The interval of sweep and retention in the service of the test."""

SHORTER: Mapping[str, tuple[str, str, int]] = {
    "SiltstoneTargetGone": ("[1h:1m]", "[1m:1s]", 0),
    "SiltstoneNoMaintenance": ("> 3600", "> 15", 3600 - 15),
    "SiltstoneUncommittedForLong": ("> 600", "> 15", 600 - 15),
    "SiltstoneMaintenanceHangs": ("6 * 3600", "6", 6 * 3600 - 6),
}
"""The part of an expression that is replaced, by what, and the seconds in between."""

OF_INTERVALS = ("SiltstoneMaintenanceIsLate", "SiltstoneMaintenanceHangs")
"""Alerts that wait for three intervals of a kind."""

_UNITS = {"s": 1, "m": 60, "h": 3600}


class Alert(msgspec.Struct, frozen=True, order=True):
    """``instance`` and ``kind`` are empty in an alert without that label."""

    name: str
    instance: str = ""
    kind: str = ""


class Active(msgspec.Struct, frozen=True):
    """An alert whose condition holds since ``since``, in seconds since 1970; it fires once that was long enough."""

    alert: Alert
    since: float
    fires: bool


def rules() -> dict[str, str]:
    """Returns the text of each rule by its name."""
    _, *parts = re.split(r"(?m)^ {6}- alert: ", RULES.read_text())
    return {name: rest for name, _, rest in (part.partition("\n") for part in parts)}


def shortened_rules() -> str:
    text = RULES.read_text()
    for name, (old, new, _) in SHORTER.items():
        rule = rules()[name]
        assert rule.count(old) == 1, name
        text = text.replace(rule, rule.replace(old, new))
    return re.sub(r"for: \w+", f"for: {WAITED_SECONDS}s", text)


def longer_by(alert: Alert) -> int:
    """Returns by how many seconds the shipped rule fires later than the condition of the shortened one holds."""
    rule = rules()[alert.name]
    waits = re.search(r"for: (\d+)([smh])", rule)
    seconds = int(waits[1]) * _UNITS[waits[2]] if waits else 0
    if alert.name in SHORTER:
        seconds += SHORTER[alert.name][2]
    if alert.name in OF_INTERVALS:
        seconds += 3 * (Intervals().of(alert.kind) // 1000 - INTERVAL_SECONDS)
    return seconds


class Prometheus:
    """A Prometheus that scrapes and evaluates every second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, targets: Sequence[str]) -> None:
        (self._folder / "alerts.yml").write_text(shortened_rules())
        self._write(targets)
        command = [
            program("prometheus"), f"--config.file={self._folder}/prometheus.yml",
            f"--storage.tsdb.path={self._folder}/data", f"--web.listen-address=127.0.0.1:{self._port}",
        ]  # fmt: skip
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def scrape(self, targets: Sequence[str]) -> None:
        """Scrapes these targets from now on, and knows no other."""
        assert self._process is not None
        self._write(targets)
        self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def active(self) -> list[Active]:
        alerts = self._asked("alerts").get("alerts", [])
        return [
            Active(
                Alert(labels["alertname"], labels.get("instance", ""), labels.get("kind", "")),
                datetime.fromisoformat(each["activeAt"]).timestamp(),
                each["state"] == "firing",
            )
            for each in alerts
            for labels in [each["labels"]]
        ]

    def firing(self) -> set[Alert]:
        return {each.alert for each in self.active() if each.fires}

    def is_up(self, count: int) -> bool:
        found = self._asked("query?query=sum(up)").get("result")
        return bool(found) and int(found[0]["value"][1]) == count

    def is_used_to(self, count: int) -> bool:
        """Whether it has had so many targets in most of the last minute, which the shortened rules look at."""
        seconds = f"count_over_time((count(up) == {count})[1m:1s])"
        found = self._asked(f"query?query={quote(seconds)}").get("result")
        return bool(found) and int(found[0]["value"][1]) > 40

    def _write(self, targets: Sequence[str]) -> None:
        (self._folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{self._folder}/alerts.yml]\n"
            f"scrape_configs: [{{job_name: siltstone, static_configs: [{{targets: {json.dumps([*targets])}}}]}}]\n"
        )

    def _asked(self, what: str) -> dict:
        """Returns nothing before it listens."""
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/api/v1/{what}", timeout=10) as answer:
                return json.load(answer)["data"]
        except URLError:
            return {}


@contextmanager
def running_prometheus(folder: Path, targets: Sequence[str]) -> Iterator[Prometheus]:
    folder.mkdir()
    prometheus = Prometheus(folder)
    try:
        prometheus.start(targets)
        yield prometheus
    finally:
        prometheus.kill()
