"""The shipped alert rules, asked by Prometheus' own promtool what fires, and when.

promtool is Debian's (package prometheus). Where it is not on the path and cannot be had, the tests are skipped."""

import re
import subprocess
import time
import urllib.request
from pathlib import Path
from textwrap import dedent, indent

import pytest

from support.broker.broker_process import BrokerProcess
from support.metrics.prometheus_package import program
from support.processes.ports import free_ports
from support.tls.authority import Authority

ROOT = Path(__file__).parents[2]
RULES = ROOT / "dashboards" / "alerts.yml"
BROKER, OTHER, MAINTENANCE = "broker-0:9644", "broker-1:9644", "maintenance:9645"


def series(name: str, values: str, **labels: str) -> str:
    shown = ",".join(f'{label}="{value}"' for label, value in {"job": "siltstone", **labels}.items())
    return f"- series: '{name}{{{shown}}}'\n  values: '{values}'"


def kind_of(kind: str, *, interval: str, last: str, running: str = "0x600") -> list[str]:
    labels = {"kind": kind, "instance": MAINTENANCE}
    return [
        series("siltstone_maintenance_running", running, **labels),
        series("siltstone_maintenance_interval_seconds", f"{interval}x600", **labels),
        series("siltstone_maintenance_last_success_seconds", last, **labels),
        series("siltstone_start_time_seconds", "0x600", instance=MAINTENANCE),
    ]


FIRES = {
    "a dead process": (
        "SiltstoneDown",
        "3m",
        {"instance": BROKER, "job": "siltstone", "severity": "critical"},
        [series("up", "1 0x600", instance=BROKER), series("up", "1x600", instance=OTHER)],
    ),
    "a target that Prometheus lost": (
        "SiltstoneTargetGone",
        "70m",
        {"severity": "warning"},
        [series("up", "1x600", instance=BROKER), series("up", "1x60 stale", instance=OTHER)],
    ),
    "a Prometheus without any target": (
        "SiltstoneTargetGone",
        "70m",
        {"job": "siltstone", "severity": "warning"},
        [series("up", "1x60 stale", instance=BROKER)],
    ),
    "a metadata database that does not answer": (
        "SiltstoneMetadataSilent",
        "3m",
        {"instance": BROKER, "job": "siltstone", "severity": "critical"},
        [series("siltstone_metadata_read_age_seconds", "0 15+60x600", instance=BROKER)],
    ),
    "a bucket that hangs": (
        "SiltstoneBucketSilent",
        "3m",
        {"instance": BROKER, "job": "siltstone", "bucket": "0", "severity": "critical"},
        [series("siltstone_store_silent", "0 1x600", instance=BROKER, bucket="0")],
    ),
    "maintenance that nobody started, or that died": (
        "SiltstoneNoMaintenance",
        "70m",
        {"kind": "sweep", "severity": "warning"},
        [
            series("siltstone_last_maintenance_age_seconds", "0+60x600", instance=BROKER, kind="sweep"),
            series("siltstone_last_maintenance_age_seconds", "0+60x600", instance=OTHER, kind="sweep"),
        ],
    ),
    "a certificate with less than 14 days left": (
        "SiltstoneCertificateExpires",
        "20m",
        {"instance": BROKER, "job": "siltstone", "listener": "SSL", "severity": "warning"},
        [
            series(
                "siltstone_tls_certificate_expiry_seconds", "1209000x600", instance=BROKER, listener="SSL"
            ),
            series("siltstone_tls_certificate_expiry_seconds", "1296000x600", instance=OTHER, listener="SSL"),
        ],
    ),
    "new certificate files that cannot be used": (
        "SiltstoneCertificateNotTaken",
        "20m",
        {"instance": BROKER, "job": "siltstone", "severity": "warning"},
        [series("siltstone_tls_reload_failures_total", "0x10 1x600", instance=BROKER)],
    ),
    "a node that stays fenced": (
        "SiltstoneNodeFenced",
        "8m",
        {"state": "fenced", "severity": "warning"},
        [series("siltstone_nodes", "0 1x600", instance=BROKER, state="fenced")],
    ),
    "a kind that has never succeeded, beside a broker that restarts every quarter of an hour": (
        "SiltstoneMaintenanceIsLate",
        "6h",
        {"instance": MAINTENANCE, "job": "siltstone", "kind": "retention", "severity": "warning"},
        [
            *kind_of("retention", interval="300+0", last="0x600"),
            series(
                "siltstone_start_time_seconds", " ".join(f"{n * 900}x14" for n in range(40)), instance=BROKER
            ),
        ],
    ),
    "a kind that hangs in a run": (
        "SiltstoneMaintenanceHangs",
        "8h",
        {"instance": MAINTENANCE, "job": "siltstone", "kind": "retention", "severity": "warning"},
        kind_of("retention", interval="300+0", last="60x600", running="1x600"),
    ),
}

FIRES["a group with members that reads only some partitions"] = (
    "SiltstoneGroupSkipsPartitions",
    "62m",
    {"instance": BROKER, "job": "siltstone", "group": "g", "topic": "t", "severity": "warning"},
    [
        series("siltstone_group_partitions_without_commit", "3x600", instance=BROKER, group="g", topic="t"),
        series("siltstone_group_members", "2x600", instance=BROKER, group="g"),
    ],
)

FIRES["a transaction that does not end"] = (
    "SiltstoneTransactionHangs",
    "36m",
    {"instance": BROKER, "job": "siltstone", "severity": "warning"},
    [series("siltstone_transaction_open_seconds", "0+60x600", instance=BROKER)],
)

UP = series("up", "1x600", instance=BROKER)

SILENT = {
    "a deployment that runs twice while it is replaced": [
        *(series("up", "1x600", instance=instance) for instance in (BROKER, OTHER)),
        series("up", "1x22 stale", instance=MAINTENANCE),
        series("up", "_x18 1x582", instance="maintenance-2:9645"),
    ],
    "a group without members that has committed one partition": [
        series("siltstone_group_partitions_without_commit", "3x600", instance=BROKER, group="g", topic="t"),
        series("siltstone_group_members", "0x600", instance=BROKER, group="g"),
    ],
    "transactions as long as a producer may make them": [
        series("siltstone_transaction_open_seconds", "900x600", instance=BROKER)
    ],
    "all is well": [
        series("siltstone_store_silent", "0x600", instance=BROKER, bucket="0"),
        series("siltstone_metadata_read_age_seconds", "0.1x600", instance=BROKER),
        series("siltstone_last_maintenance_age_seconds", "600x600", instance=BROKER, kind="sweep"),
        series("siltstone_nodes", "3x600", instance=BROKER, state="live"),
        series("siltstone_nodes", "0x600", instance=BROKER, state="fenced"),
        series("siltstone_nodes", "1x600", instance=BROKER, state="failed over"),
        *kind_of("retention", interval="300+0", last="0+60x600"),
    ],
    "a kind that is not due yet, in a service that has just started": kind_of(
        "major-gc", interval="86400+0", last="0x600"
    ),
}


@pytest.fixture(scope="module")
def promtool() -> str:
    return program("promtool")


def assert_alerts(promtool: str, folder: Path, alerts: str, given: list[str]) -> None:
    text = dedent(
        f"""\
        rule_files: ["{RULES}"]
        evaluation_interval: 1m
        tests:
          - interval: 1m
            input_series:
        """
    )
    text += (
        indent("\n".join(given), " " * 6) + "\n" + " " * 4 + "alert_rule_test:\n" + indent(alerts, " " * 6)
    )
    (folder / "test.yml").write_text(text)
    done = subprocess.run(
        [promtool, "test", "rules", folder / "test.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr + text


@pytest.mark.parametrize("what", FIRES)
def test_what_fires(promtool: str, tmp_path: Path, what: str) -> None:
    assert_fires(promtool, tmp_path, *FIRES[what])


def assert_fires(
    promtool: str, folder: Path, name: str, at: str, labels: dict[str, str], given: list[str]
) -> None:
    """Asks promtool whether the alert fires at that time, with these labels and the text of the rules."""
    shown = "{" + ", ".join(f'{label}: "{value}"' for label, value in labels.items()) + "}"
    # The text of an alert is compared, too; it is taken from the rules with the labels put in.
    rule = RULES.read_text().split(f"- alert: {name}\n")[1]
    summary = rule.split('summary: "')[1].split('"\n')[0]
    for label, value in labels.items():
        summary = summary.replace("{{ $labels." + label + " }}", value)
    alerts = (
        f"- eval_time: {at}\n  alertname: {name}\n  exp_alerts:\n"
        f'    - exp_labels: {shown}\n      exp_annotations: {{summary: "{summary}"}}\n'
    )
    assert_alerts(promtool, folder, alerts, given)


def test_ob11_a_certificate_of_ten_days_is_in_the_metrics_to_the_minute_and_its_alert_fires(
    promtool: str, tmp_path: Path
) -> None:
    pair = Authority(tmp_path / "authority").issue("broker", days=10)
    (admin,) = free_ports(1)
    settings = pair.settings() | {"admin.listeners": f"127.0.0.1:{admin}"}
    with BrokerProcess(tmp_path / "store", settings, options=("--listener", "SSL://127.0.0.1:0")):
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=60) as answer:
            found = re.search(
                r'^siltstone_tls_certificate_expiry_seconds\{listener="SSL"\} (\S+)$',
                answer.read().decode(),
                re.MULTILINE,
            )
        now = time.time()
    assert found is not None
    assert float(found[1]) - now == pytest.approx(10 * 86_400, abs=60)
    of_ssl = {"instance": BROKER, "listener": "SSL"}
    left = series("siltstone_tls_certificate_expiry_seconds", f"{float(found[1]) - now:.0f}x600", **of_ssl)
    name, at, labels, _ = FIRES["a certificate with less than 14 days left"]
    assert_fires(promtool, tmp_path, name, at, labels, [left])


@pytest.mark.parametrize("what", SILENT)
def test_what_fires_nothing(promtool: str, tmp_path: Path, what: str) -> None:
    names = [line.split(": ")[1] for line in RULES.read_text().splitlines() if "- alert: " in line]
    alerts = "".join(
        f"- eval_time: {at}\n  alertname: {name}\n  exp_alerts: []\n"
        for name in names
        for at in ("30m", "2h")
    )
    assert_alerts(promtool, tmp_path, alerts, [*{UP, *SILENT[what]}])


def test_promtool_finds_the_rules_sound(promtool: str) -> None:
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr


def test_the_expressions_of_the_page_say_whether_a_lag_grows_and_when_it_is_gone(
    promtool: str, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    (block,) = re.findall(r"```\n(deriv\(.*?)```", page, re.DOTALL)
    slope, gone = block.splitlines()
    text = f"""
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'siltstone_group_lag_records{{group="late", topic="t"}}', values: '100+60x30'}}
      - {{series: 'siltstone_group_lag_records{{group="early", topic="t"}}', values: '3000-60x30'}}
    promql_expr_test:
      - expr: '{slope}'
        eval_time: 20m
        exp_samples:
          - {{labels: '{{group="late", topic="t"}}', value: 1}}
          - {{labels: '{{group="early", topic="t"}}', value: -1}}
      - expr: '{gone}'
        eval_time: 20m
        exp_samples:
          - {{labels: '{{group="early", topic="t"}}', value: 1800}}
"""
    (tmp_path / "test.yml").write_text(text)
    done = subprocess.run(
        [promtool, "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
