"""``siltstone.Broker(nodes=3)``: a cluster in this process, one node of which is killed and started again."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.values import SettingRefused
from siltstone.server.broker_thread import BrokerNotRunning
from siltstone.server.embedded import Broker
from siltstone.server.network.addresses import InvalidListener
from support.processes.new_threads import new_threads
from support.processes.ports import free_ports

SECONDS_MAX = 60


def produced(broker: Broker, topic: str, first: int, count: int, partitions: int) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    )
    for number in range(first, first + count):
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(SECONDS_MAX) == 0
    producer.close()


def numbers(broker: Broker, topic: str) -> list[int]:
    return sorted(int(record.value or b"") for record in broker.records(topic))


def test_three_nodes_share_a_store_and_lead_its_partitions_also_after_a_restart_of_all() -> None:
    with Broker(nodes=3) as broker:
        assert list(broker.addresses) == [0, 1, 2]
        assert broker.bootstrap_servers == ",".join(broker.addresses.values())
        assert broker.bootstrap_servers in repr(broker)
        produced(broker, broker.create_topic("t", partitions=3), 0, 30, 3)
        assert [broker.statistics(node).partitions.open for node in broker.addresses] == [1, 1, 1]
        assert broker.statistics().engine.state == "RUNNING"
        broker.flush()
        assert all(broker.statistics(node).engine.upload.bytes_uploaded for node in broker.addresses)
        assert numbers(broker, "t") == list(range(30))
        broker.restart()
        produced(broker, "t", 30, 30, 3)
        assert [broker.statistics(node).partitions.open for node in broker.addresses] == [1, 1, 1]
        assert numbers(broker, "t") == list(range(60))
    assert not new_threads("siltstone")


def test_a_node_that_is_killed_and_restarted_has_its_port_and_what_it_acknowledged(tmp_path: Path) -> None:
    with Broker(tmp_path, nodes=2) as broker:
        produced(broker, broker.create_topic("t", partitions=2), 0, 20, 2)
        before = broker.addresses
        broker.kill(1)
        assert broker.addresses == {0: before[0]}
        with pytest.raises(BrokerNotRunning, match="node 1 is not running"):
            broker.kill(1)
        with pytest.raises(BrokerNotRunning, match="node 1 is not running"):
            broker.statistics(1)
        broker.restart(1)
        assert broker.addresses == before
        produced(broker, "t", 20, 20, 2)
        assert numbers(broker, "t") == list(range(40))
        broker.kill()
        with pytest.raises(BrokerNotRunning):
            broker.bootstrap_servers  # noqa: B018
        broker.restart()
        assert broker.addresses == before
        assert numbers(broker, "t") == list(range(40))


def test_nodes_that_end_together_hand_their_partitions_to_others_of_the_store_if_any_run(
    tmp_path: Path,
) -> None:
    with Broker(tmp_path, settings={"engine.node_id": "5"}) as stays:
        with Broker(tmp_path, nodes=2) as leaving:
            produced(leaving, leaving.create_topic("t", partitions=3), 0, 30, 3)
        assert stays.statistics().partitions.open == 1, "what it is given is opened when it is asked for"
        produced(stays, "t", 30, 30, 3)
        assert stays.statistics().partitions.open == 3
        assert numbers(stays, "t") == list(range(60))


def test_its_numbers_and_ports_begin_with_those_that_are_given() -> None:
    ports = free_ports(2)
    with Broker(nodes=2, port=ports[0], settings={"engine.node_id": "5"}) as broker:
        assert broker.addresses == {5: f"127.0.0.1:{ports[0]}", 6: f"127.0.0.1:{ports[1]}"}
        with pytest.raises(InvalidRequest, match="this broker has no node 0: its nodes are 5, 6"):
            broker.restart(0)


def test_what_cannot_be_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="nodes=0"):
        Broker(nodes=0)
    with pytest.raises(SettingRefused, match=r"engine\.node_id"):
        Broker(nodes=2, settings={"engine.node_id": "first"}).start()
    broker = Broker(tmp_path, nodes=2, port=65_535)
    with pytest.raises(InvalidListener, match="65535 is the last"):
        broker.start()
    assert repr(broker) == "<siltstone.Broker not running>"
    assert not new_threads("siltstone")


def test_when_one_cannot_start_the_others_are_stopped(tmp_path: Path) -> None:
    with Broker(tmp_path, settings={"engine.node_id": "1"}):
        broker = Broker(tmp_path, nodes=2)
        with pytest.raises(Exception, match="wal/node-1 is in use"):
            broker.start()
        assert repr(broker) == "<siltstone.Broker not running>"
    with Broker(tmp_path, nodes=2) as again:
        assert list(again.addresses) == [0, 1]
