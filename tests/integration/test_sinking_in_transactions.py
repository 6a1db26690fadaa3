"""Batches of a sink, each in one transaction of a real broker, without Spark: all of a batch is seen at once, and once,
wherever the driver dies and whatever becomes of its group."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import siltstone
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import parse_bootstrap
from siltstone.kafka_client.groups import committed_offsets, delete_groups
from siltstone.kafka_client.producing.transaction import ProducerTransaction
from siltstone.kafka_client.transactions import find_transaction
from siltstone.metadata.refusals import SinkChanged, SinkOfAnotherQuery, SinkTakenOver
from siltstone.metadata.sinks import SinkState
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.scanning.source import open_source
from siltstone.sinking.batch import abandon
from siltstone.sinking.failures import BrokerNotFound, SinkBatchStuck, SinkRefused, SinkTransactionTooLong
from support.kafka.partition_writers import Writers
from support.kafka.quiet_client import QUIET
from support.maintenance.sinks import Killed, Sink, consumed, create, rows_of, values


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("sinking") / "store") as running:
        yield running


@pytest.fixture
def cluster(broker: siltstone.Broker) -> Iterator[Cluster]:
    address = parse_bootstrap(broker.bootstrap_servers)
    with Cluster(address, SystemClock(), system_randomness()) as opened:
        yield opened


def numbers(*ranges: range) -> list[bytes]:
    return sorted(b"value-%06d" % number for those in ranges for number in those)


def test_sw27_a_batch_is_seen_in_all_partitions_at_once_or_not_at_all(
    broker: siltstone.Broker, cluster: Cluster
) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "atomic", 3)
    sink = Sink(broker.folder, topic, "atomic", mode="transaction")
    sink.write(0, rows_of(0, 30))
    assert committed_offsets(cluster, ["spark-atomic"])["spark-atomic"].popitem()[1] == 0

    def look(step: str) -> None:
        if step in ("relaying", "sent"):
            assert values(address, topic, 3) == numbers(range(30))
            assert siltstone.scan(topic, store=broker.folder).to_arrow().num_rows == 30
        if step == "relayed":
            assert values(address, topic, 3) == numbers(range(130))

    sink.commit(1, sink.stage(1, rows_of(30, 50), rows_of(80, 50)), on_step=look)
    assert sink.state() is SinkState.DONE and sink.staged() == []
    sink.write(1, rows_of(500, 5))
    sink.write(2, rows_of(0, 0))
    sink.write(3, rows_of(130, 5))
    assert values(address, topic, 3) == numbers(range(135))


@pytest.mark.parametrize("step", ["relaying", "sent", "relayed"])
def test_sw28_a_sink_whose_group_is_gone_looks_for_the_marker(
    broker: siltstone.Broker, cluster: Cluster, step: str
) -> None:
    topic = create(broker.bootstrap_servers, f"forgotten-{step}", 2)
    sink = Sink(broker.folder, topic, f"forgotten-{step}", mode="transaction")
    sink.write(0, rows_of(0, 10))
    with pytest.raises(Killed):
        sink.write(1, rows_of(10, 10), killed_at=step)
    others = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": step, **QUIET})
    others.init_transactions(60)
    others.begin_transaction()
    for partition in range(2):
        others.produce(topic, b"theirs", partition=partition)
    others.commit_transaction(60)
    if step == "sent":  # pending offsets keep a group; the time-out or the next driver ends that
        sink.mode = None
        with pytest.raises(Killed):
            sink.write(1, rows_of(20, 10), killed_at="intent")
    assert not delete_groups(cluster, [f"spark-forgotten-{step}"])
    sink.write(1, rows_of(90, 10))
    assert values(broker.bootstrap_servers, topic, 2) == sorted([b"theirs"] * 2 + numbers(range(20)))


def test_sw28_it_is_stuck_where_records_were_taken_away(broker: siltstone.Broker, cluster: Cluster) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "taken")
    sink = Sink(broker.folder, topic, "taken", mode="transaction")
    with pytest.raises(Killed):
        sink.write(0, rows_of(0, 10), killed_at="relayed")
    assert not delete_groups(cluster, ["spark-taken"])
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    for future in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        future.result(60)
    with pytest.raises(
        SinkBatchStuck, match=r"taken-0: group spark-taken has lost its offset, and retention"
    ):
        sink.write(0, rows_of(0, 10))
    with open_source(broker.folder) as source:
        assert abandon(source, "taken") is not None
    sink.write(1, rows_of(10, 10))
    assert values(address, topic) == numbers(range(5, 20))


def test_sw29_the_driver_that_begins_last_writes_the_batch(broker: siltstone.Broker) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "two", 2)
    sink = Sink(broker.folder, topic, "two", mode="transaction")
    first, second = sink.stage(0, rows_of(0, 50)), sink.stage(0, rows_of(100, 50))

    def other_goes_first(reached: str) -> None:
        if reached == step:
            sink.commit(batch, second)

    batch, step = 0, "relaying"
    with pytest.raises(SinkTakenOver, match="finishes batch 0; stop this one"):
        sink.commit(batch, first, on_step=other_goes_first)
    assert sink.state() is SinkState.DONE
    batch, step = 1, "sent"
    sink.commit(
        batch, first, on_step=other_goes_first
    )  # its own end is refused, and the group says that it is done
    assert values(address, topic, 2) == sorted(2 * numbers(range(50)))


def test_sw29_a_commit_whose_answer_was_lost_is_found_by_its_group(
    broker: siltstone.Broker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first EndTxn was done, its answer was lost, and its repetition is refused, because another driver has
    begun."""
    topic = create(broker.bootstrap_servers, "lost")
    sink = Sink(broker.folder, topic, "lost", mode="transaction")
    end = ProducerTransaction.commit

    def commits_and_is_fenced(transaction: ProducerTransaction) -> None:
        end(transaction)
        ProducerTransaction(cluster, "spark-lost", 60_000)
        end(transaction)

    monkeypatch.setattr(ProducerTransaction, "commit", commits_and_is_fenced)
    sink.write(0, rows_of(0, 10))
    assert sink.state() is SinkState.DONE and values(broker.bootstrap_servers, topic) == numbers(range(10))


def test_sw30_a_transaction_that_was_open_too_long_is_aborted_and_says_so(
    broker: siltstone.Broker, cluster: Cluster
) -> None:
    topic = create(broker.bootstrap_servers, "slow")
    sink = Sink(broker.folder, topic, "slow", mode="transaction")

    def waits(step: str) -> None:
        while step == "sent" and find_transaction(cluster, "spark-slow").state != "CompleteAbort":
            SystemClock().block_ms(20)

    with pytest.raises(SinkTransactionTooLong, match=r"open for longer than 1 s.*transactionTimeout"):
        sink.commit(0, sink.stage(0, rows_of(0, 10)), on_step=waits, transaction_timeout_ms=1_000)
    assert sink.state() is SinkState.INTENT
    with pytest.raises(SinkRefused, match=r"transactionTimeout.*broker.transaction_max_timeout_ms"):
        sink.commit(0, [], transaction_timeout_ms=3_600_000)
    sink.commit(0, [])
    assert values(broker.bootstrap_servers, topic) == numbers(range(10))


def test_sw31_modes_may_change_between_batches_and_not_within_one(broker: siltstone.Broker) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "modes", 2)
    sink = Sink(broker.folder, topic, "modes")
    for batch, mode in enumerate(
        ("relay", "transaction", "relay", "relay", "transaction", "transaction", None)
    ):
        sink.mode = mode
        sink.write(batch, rows_of(10 * batch, 10))
        standing = sink.standing()
        assert standing is not None and standing.mode == (mode or "relay")
    sink.mode = "transaction"
    with pytest.raises(Killed):
        sink.write(7, rows_of(70, 10), killed_at="sent")
    for mode in ("relay", "objects"):
        sink.mode = mode
        with pytest.raises(SinkChanged, match="has mode transaction"):
            sink.write(7, rows_of(70, 10))
    other = Sink(broker.folder, topic, "modes", mode="transaction")
    other.query = "another"
    with pytest.raises(SinkOfAnotherQuery):
        other.write(7, rows_of(70, 10))
    sink.mode = None
    sink.write(7, rows_of(500, 10))
    assert values(address, topic, 2) == numbers(range(80))


def test_sw27_without_a_broker_nothing_is_written(tmp_path: Path) -> None:
    with siltstone.Broker(tmp_path / "store") as running:
        topic = create(running.bootstrap_servers, "t")
    sink = Sink(tmp_path / "store", topic, mode="transaction")
    with pytest.raises(BrokerNotFound, match="start siltstone serve"):
        sink.write(0, rows_of(0, 10))
    assert sink.standing() is None


def test_sw27_a_batch_without_a_name_leaves_no_group(broker: siltstone.Broker, cluster: Cluster) -> None:
    topic = create(broker.bootstrap_servers, "nameless")
    sink = Sink(broker.folder, topic, "batch-0000", mode="transaction")
    sink.query = ""
    sink.commit(0, sink.stage(0, rows_of(0, 5)), is_nameless=True)
    assert len(consumed(broker.bootstrap_servers, topic)) == 5 and sink.standing() is None
    assert committed_offsets(cluster, ["spark-batch-0000"]) == {"spark-batch-0000": {}}


def test_tp54_rows_that_are_loaded_behind_an_open_transaction_are_read_when_a_broker_has_ended_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = siltstone.Broker(tmp_path / "store")
    sink = Sink(store.folder, "behind", mode="objects")
    with store:
        create(store.bootstrap_servers, "behind", 2)
        writers = Writers(store)
        writers.write("behind", count=2)
        writers.write("behind", "open", 3)
    sink.write(0, rows_of(0, 100))
    (said,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert said == (
        "sink out has loaded rows into behind-0 behind a transaction that is open from offset 2 on: readers of"
        " committed records get them when a broker has ended it; start siltstone serve, which aborts it after"
        " its time-out"
    )
    plain = [b"plain-0", b"plain-1"]
    committed = set(scanned(store.folder, "behind"))
    assert set(plain) < committed < {*plain, *numbers(range(100))}, (
        "those of the other partition, which has none"
    )
    assert len(scanned(store.folder, "behind", isolation="uncommitted")) == 105
    with store:
        Writers(store).fence("open")
        assert values(store.bootstrap_servers, "behind", 2) == sorted([*plain, *numbers(range(100))])
    caplog.clear()
    sink.write(1, rows_of(100, 10))
    assert "transaction" not in caplog.text
    assert scanned(store.folder, "behind") == sorted([*plain, *numbers(range(110))])


def scanned(store: Path, topic: str, **how: str) -> list[bytes]:
    rows = siltstone.scan(topic, store=store, columns=["value"], **how).to_arrow()
    return sorted(rows.column("value").to_pylist())
