"""Quotas and the clients of people: librdkafka, kafka-python, and Kafka's own kafka-configs."""

import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

import siltstone
from support.engine.small_store import small_store
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks
from support.processes.cli import run

pytestmark = [pytest.mark.xdist_group("quotas"), pytest.mark.clients]

MB = 1_000_000
RECORDS, RECORD_BYTES = 120, 100_000
"""12 MB: ten seconds of the rate are free at the beginning, and two are waited for."""


PAGE = ROOT / "docs" / "quotas.md"
RUN = (COMMANDS,) = blocks(PAGE, "sh")


def test_qu03_the_page_is_true(tmp_path: Path) -> None:
    small_store(tmp_path / "my-store")
    done = BareEnvironment(tmp_path / "bare").run(COMMANDS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "50,000,000" in done.stdout and "user ada, client-id loader" in done.stdout


@pytest.fixture(scope="module")
def broker() -> Iterator[siltstone.Broker]:
    with siltstone.Broker() as running:
        yield running


def called(broker: siltstone.Broker, *words: str) -> str:
    outcome = run("quotas", *words, "--store", str(broker.folder))
    assert outcome.status == 0, outcome.err
    return outcome.words


@pytest.mark.nightly(tried="clients with quotas")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_qu01_librdkafka_produces_and_kafka_python_reads_at_the_rate(broker: siltstone.Broker) -> None:
    called(broker, "set", f"producer_byte_rate={MB}", f"consumer_byte_rate={MB}", "--default", "user")
    from kafka import KafkaConsumer

    throttles: list[int] = []
    producer = confluent_kafka.Producer(
        {
            **broker.client_config(),
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
            "batch.num.messages": 5,
            "linger.ms": 1,
        }
    )
    time.sleep(0.3)  # the broker knows the quota a fifth of a second later
    begun = time.monotonic()
    for number in range(RECORDS):
        producer.produce("rated", b"%06d" % number + bytes(RECORD_BYTES - 6), partition=0)
    assert producer.flush(60) == 0
    assert time.monotonic() - begun >= 1
    producer.poll(0)
    assert any(throttles)
    begun, values = time.monotonic(), []
    consumer = KafkaConsumer(
        "rated", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest",
        consumer_timeout_ms=60_000, enable_auto_commit=False,
    )  # fmt: skip
    for record in consumer:
        values.append(record.value[:6])
        if len(values) == RECORDS:
            break
    consumer.close()
    assert values == [b"%06d" % number for number in range(RECORDS)]
    assert time.monotonic() - begun >= 1
    called(broker, "remove", "--default", "user", "--yes")


@pytest.mark.kafka
@pytest.mark.nightly(tried="runs of Kafka's tools")
def test_qu08_kafka_configs_sets_describes_and_removes(broker: siltstone.Broker) -> None:
    from oracles.java_artifacts import JavaArtifactsUnavailable
    from oracles.java_tools import KafkaTools

    try:
        tools = KafkaTools(broker.bootstrap_servers)
    except JavaArtifactsUnavailable:
        pytest.skip("Java's tools are not to be had")
    both = ("--entity-type", "users", "--entity-name", "ada", "--entity-type", "clients", "--entity-default")
    added = tools.output("kafka-configs", "--alter", "--add-config", "producer_byte_rate=1024", *both)
    assert "Completed updating" in added
    described = tools.output("kafka-configs", "--describe", *both)
    assert "user-principal 'ada', the default client-id are producer_byte_rate=1024" in described
    assert "user ada, client-id <default> producer_byte_rate 1,024" in called(broker)
    refused = tools.run(
        "kafka-configs", "--alter", "--add-config", "producer_byte_rate=-5", "--entity-type", "users",
        "--entity-name", "ada",
    )  # fmt: skip
    assert refused.status != 0 and "greater than 0" in refused.errors + refused.output
    tools.output("kafka-configs", "--alter", "--delete-config", "producer_byte_rate", *both)
    assert "There are no quotas" in called(broker)
