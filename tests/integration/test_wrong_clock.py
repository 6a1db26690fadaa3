"""Rule 15: maintenance on a machine whose clock is days ahead deletes nothing, and says why."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.model.limits import DAY_MS
from siltstone.offline.kind_rows import KIND_NAMES
from siltstone.runtime.clock import SystemClock
from support.broker.broker_process import BrokerProcess
from support.metadata.postgres_server import PostgresServer
from support.processes.cli import Outcome, run

TOPIC = "orders"
RECORDS = 200


def produce(bootstrap_servers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number))
    assert producer.flush(60) == 0


def maintained(store: Path, *words: object) -> Outcome:
    return run("maintain", "run", "--runner", "in-process", *words, "--store", store)


def records_left(store: Path) -> int:
    return siltstone.scan(TOPIC, store=store, tail="committed").to_arrow().num_rows


def set_ahead(monkeypatch: pytest.MonkeyPatch, ahead_ms: int) -> None:
    real = SystemClock.now_ms
    monkeypatch.setattr(SystemClock, "now_ms", lambda clock: real(clock) + ahead_ms)


def test_rule_15_a_machine_whose_clock_is_days_ahead_empties_no_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    with siltstone.Broker(store) as broker:
        produce(broker.bootstrap_servers)
    set_ahead(monkeypatch, 8 * DAY_MS)
    for kind in KIND_NAMES:
        refused = maintained(store, "--kind", kind, "--force")
        assert refused.status == 1 and "after the newest time that this store has seen" in refused.words, kind
        assert "--trust-clock" in refused.words
    assert records_left(store) == RECORDS
    trusted = maintained(store, "--trust-clock")
    assert trusted.status == 0 and "200 offsets trimmed" in trusted.words, trusted
    assert records_left(store) == 0
    assert maintained(store).status == 0, "the store has seen this time now"


@pytest.mark.postgres
def test_rule_15_postgresql_has_the_time_and_refuses_a_machine_that_has_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_server: PostgresServer
) -> None:
    store = tmp_path / "store"
    url = postgres_server.tcp_url(postgres_server.new_schema())
    with BrokerProcess(store, {"metadata": url}) as broker:
        produce(broker.bootstrap_servers)
        assert broker.stop() == 0, broker.log
    (store / "siltstone.toml").write_text(f'metadata = "{url}"\n')
    set_ahead(monkeypatch, 8 * DAY_MS)
    refused = maintained(store)
    assert refused.status == 1 and "no maintenance is run: the clock of this machine is" in refused.words
    assert records_left(store) == RECORDS
