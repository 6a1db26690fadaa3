"""AB15: what a client that behaves notices while somebody attacks listeners with TLS and logins."""

import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.kafka.quiet_client import QUIET
from support.processes.tried import RecordTried
from support.security.attacks import (
    ATTACKS,
    EVE,
    FULL_TOPIC,
    LARGE_TOPIC,
    PASSWORD,
    STRANGERS,
    TlsConnection,
    under_attack,
)

pytestmark = [pytest.mark.fuzz, pytest.mark.nightly, pytest.mark.xdist_group("fuzz")]

SECONDS = 5.0
GETTING_GOING_S = 2.0
SETTINGS = {
    "listener.SASL_SSL.sasl_mechanisms": "SCRAM-SHA-512,PLAIN",
    "broker.partitions_max": "1000",
    "network.max_connections_per_ip": "5000",
}
P99_MS_MAX = 5_000.0
RATIO_MAX = 100.0
"""Far above the aim of 3: the attack takes a core of the machine, and on a busy one both are late. What hangs is
seen."""

TRIES, LOGINS = 3, 10
UNCHANGED_RATIO_MAX = 1.5


def users_of(folder: Path, **passwords: str) -> None:
    for name, password in passwords.items():
        added = [SILTSTONE, "users", "add", name, "--password-file", "-", "--store", folder]
        subprocess.run(added, input=password.encode(), check=True, capture_output=True)


class Behaving:
    """A client that logs in, and produces one record after the other."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self.config: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "ada", "sasl.password": "pencil",
            "ssl.ca.location": str(folder / "tls" / "ca.pem"), **QUIET,
        }  # fmt: skip
        admin = AdminClient(self.config)
        topics = [
            NewTopic("good", 1, 1), NewTopic(LARGE_TOPIC, 1, 1),
            NewTopic(FULL_TOPIC, 1, 1, config={"siltstone.record.validation": "full"}),
        ]  # fmt: skip
        for made in admin.create_topics(topics).values():
            made.result(60)
        self._producer = Producer({**self.config, "linger.ms": 0})
        self._failures: list[object] = []
        for _ in range(100):
            self._producer.produce(LARGE_TOPIC, bytes(500_000))
        self._producer.flush(60)

    def p99_ms(self, seconds: float = SECONDS) -> float:
        took: list[float] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end or not took:
            begun = time.monotonic()
            self._producer.produce("good", b"x" * 200, on_delivery=self._delivered)
            assert not self._producer.flush(60), "a record is not acknowledged for a minute"
            took.append((time.monotonic() - begun) * 1_000)
        assert not self._failures, self._failures
        return sorted(took)[int(len(took) * 0.99)]

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failures.append(error)


@pytest.mark.timeout(900)
def test_ab15_sa07_what_a_client_notices_of_each_attack(tmp_path: Path, record_tried: RecordTried) -> None:
    folder, found = tmp_path / "store", list[tuple[str, float, float, float]]()
    options = ("--listener", "SASL_SSL://127.0.0.1:0", "--tls-self-signed")
    with BrokerProcess(folder, SETTINGS, options=options) as broker:
        users_of(folder, ada="pencil", **{EVE: PASSWORD})
        good = Behaving(broker, folder)
        good.p99_ms(1)
        for name in ATTACKS:
            quiet_ms = good.p99_ms()
            with under_attack(name, broker.address, seed=7):
                time.sleep(GETTING_GOING_S)
                attacked_ms = good.p99_ms()
                begun = time.monotonic()
                with TlsConnection(broker.address, timeout_s=60) as late:
                    assert late.log_in("ada", "pencil") == 0, f"ada cannot log in during {name}"
                login_ms = (time.monotonic() - begun) * 1_000
            found.append((name, quiet_ms, attacked_ms, login_ms))
        assert broker.is_alive and "Traceback" not in broker.log, broker.log[-5_000:]
        assert broker.stop() == 0, broker.log[-5_000:]
    print("\n" + table_of(found))
    record_tried("attacks", len(found))
    for name, quiet_ms, attacked_ms, _ in found:
        record_tried(f"percent of the quiet p99 under {name}", round(attacked_ms / quiet_ms * 100))
        assert attacked_ms < max(P99_MS_MAX, RATIO_MAX * quiet_ms), f"{name}: {attacked_ms:.0f} ms"


@pytest.mark.timeout(600)
def test_sa07_a_thousand_strangers_that_stay_are_not_noticed(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """They say nothing once they have TLS, and no disk is waited for, which would hide it. Each try compares with
    its own quiet seconds, and the best one counts, since the machine may be busy with something else."""
    settings = SETTINGS | {"network.authentication_ms_max": "10min", "engine.wal.sync": "never"}
    options = ("--listener", "SASL_SSL://127.0.0.1:0", "--tls-self-signed")
    ratios, logins_s = list[float](), list[float]()
    with BrokerProcess(tmp_path / "store", settings, options=options) as broker:
        users_of(tmp_path / "store", ada="pencil")
        good = Behaving(broker, tmp_path / "store")
        good.p99_ms(1)
        for _ in range(TRIES):
            quiet_ms = good.p99_ms()
            with ExitStack() as standing:
                for _ in range(STRANGERS):
                    standing.enter_context(TlsConnection(broker.address))
                time.sleep(0.5)  # the last handshakes
                ratios.append(good.p99_ms() / quiet_ms)
                for _ in range(LOGINS):
                    begun = time.monotonic()
                    with TlsConnection(broker.address) as late:
                        assert late.log_in("ada", "pencil") == 0
                    logins_s.append(time.monotonic() - begun)
    assert min(ratios) < UNCHANGED_RATIO_MAX, ratios
    assert max(logins_s) < 1, logins_s
    record_tried("logins among strangers", len(logins_s))


def table_of(found: list[tuple[str, float, float, float]]) -> str:
    """Returns the table of docs/security.md."""
    lines = [
        "| attack | p99 before it, ms | during it | ratio | a login during it, ms |",
        "|---|---|---|---|---|",
    ]
    for name, quiet_ms, attacked_ms, login_ms in found:
        figures = f"{quiet_ms:.1f} | {attacked_ms:.1f} | {attacked_ms / quiet_ms:.1f} | {login_ms:.0f}"
        lines.append(f"| {ATTACKS[name][0]} ({name}) | {figures} |")
    return "\n".join(lines)
