"""``siltstone transactions`` beside the producers of confluent-kafka: lists, shows and aborts their transactions."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.cli.main import cli
from siltstone.kafka_client import transactions as client
from support.kafka.quiet_client import QUIET

pytestmark = pytest.mark.xdist_group("transactions-command")  # the tests share a broker


@pytest.fixture(scope="module")
def broker() -> Iterator[siltstone.Broker]:
    with siltstone.Broker() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, **QUIET})
        for future in admin.create_topics([NewTopic(each, 2) for each in ("t", "u")]).values():
            future.result(60)
        yield running


def run(broker: siltstone.Broker, *words: str) -> Result:
    return CliRunner().invoke(cli, ["transactions", *words, "--bootstrap", broker.bootstrap_servers])


def opened(broker: siltstone.Broker, transactional_id: str, topic: str = "t", partition: int = 1) -> Producer:
    """Returns a producer with an open transaction of one record, which the broker has."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id, **QUIET}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"of " + transactional_id.encode(), partition=partition)
    assert producer.flush(60) == 0
    return producer


def committed_values(broker: siltstone.Broker, topic: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers, "group.id": "reading", "enable.partition.eof": True,
            "auto.offset.reset": "earliest", "enable.auto.commit": False, **QUIET,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    found: list[bytes] = []
    ends: set[int] = set()
    while len(ends) < 2:
        message = consumer.poll(60)
        assert message is not None, "the reader waits for a transaction that nobody ends"
        if message.error() is None:
            found.append(message.value())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ends.add(message.partition())
    consumer.close()
    return found


def test_an_open_transaction_is_listed_shown_and_aborted(broker: siltstone.Broker) -> None:
    producer = opened(broker, "billing")
    listed = run(broker, "list")
    assert "billing" in listed.stdout and "Ongoing" in listed.stdout
    shown = run(broker, "describe", "billing")
    assert [line.split()[:2] for line in shown.stdout.splitlines()][:2] == [
        ["transactional", "id"], ["state", "Ongoing"],
    ]  # fmt: skip
    assert "t-1" in shown.stdout and "ago" in shown.stdout
    refused = run(broker, "abort", "billing")
    assert refused.exit_code and "--yes" in refused.stderr
    aborted = run(broker, "abort", "billing", "--yes")
    assert (aborted.exit_code, aborted.stdout) == (0, "Aborted, and the producer is fenced.\n"), aborted
    assert committed_values(broker, "t") == []
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(60)
    assert fenced.value.args[0].fatal(), "its producer is fenced"
    assert run(broker, "abort", "billing", "--yes").stdout == "Nothing to abort: the state is Empty.\n"


def test_ids_that_are_not_there(broker: siltstone.Broker) -> None:
    opened(broker, "orders", "u").commit_transaction(60)
    wrong = run(broker, "describe", "order")
    assert wrong.exit_code and "did you mean orders?" in wrong.stderr
    for words in (("orders", "--topic", "t"), (), ("--topic", "t", "--partition", "0")):
        unclear = run(broker, "abort", *words)
        assert unclear.exit_code and "name a transactional ID, or --topic" in unclear.stderr


def test_an_open_transaction_with_a_coordinator_does_not_hang(broker: siltstone.Broker) -> None:
    producer = opened(broker, "slow")
    found = run(broker, "find-hanging", "--older-than", "0s")
    assert found.exit_code == 0 and found.stdout.startswith("No transaction hangs in "), found
    missing = run(broker, "abort", "--topic", "t", "--partition", "1", "--start-offset", "0", "--yes")
    assert "abort it by its transactional id" in missing.stderr
    assert "write a time" in run(broker, "find-hanging", "--older-than", "soon").stderr
    producer.abort_transaction(60)


def test_one_that_no_coordinator_knows_hangs_until_it_is_aborted(
    broker: siltstone.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our coordinators lose none, so this one is hidden."""
    opened(broker, "lost", "u", 0)
    monkeypatch.setattr(client, "all_transactions", lambda _: [])
    found = run(broker, "find-hanging", "u", "--older-than", "0s")
    assert found.exit_code == 1 and found.stdout.splitlines()[-1].split()[:3] == ["u", "0", "0"], found.stdout
    assert "--topic u --partition 0 --start-offset 0" in found.stderr
    young = run(broker, "find-hanging", "u", "--older-than", "1h")
    assert young.exit_code == 0
    aborted = run(
        broker, "abort", "--topic", "u", "--partition", "0", "--start-offset", "0", "--yes", "--json"
    )
    assert '"aborted": true' in aborted.stdout
    assert run(broker, "find-hanging", "u", "--older-than", "0s").exit_code == 0
    assert b"of lost" not in committed_values(broker, "u")
