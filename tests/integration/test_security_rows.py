"""Rows of the tables TL and SA that want whole brokers: what the tests of each client and of each part leave open."""

import re
import signal
import time
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from siltstone.kafka_client.client_settings import settings_of_mapping
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import Security, parse_bootstrap
from siltstone.kafka_client.failures import BrokerOfAnotherName
from siltstone.kafka_client.offsets import LATEST, offsets_at
from siltstone.kafka_client.topics import all_topics
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from support.broker.broker_process import BrokerProcess
from support.broker.rolling_cluster import NODES, PARTITIONS, PLAIN, SECURE, RollingCluster
from support.broker.served_node import ServedNode
from support.kafka.quiet_client import QUIET
from support.metrics.scraping import http_get, scrape
from support.tls.authority import Authority

pytestmark = pytest.mark.xdist_group("tls")


def trusting(authority: Authority) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.location": str(authority.file)}


def produced(config: dict[str, Any]) -> None:
    producer = confluent_kafka.Producer({**config, **QUIET})
    producer.produce("t", b"x", partition=0)
    assert producer.flush(60) == 0


def test_tl01_a_client_without_a_certificate_is_anonymous(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")

    async def principals(node: Any) -> set[tuple[str, str]]:
        return {(each.listener, each.principal) for each in node.listeners.clients()}

    settings = authority.issue("broker").settings()
    with ServedNode(tmp_path / "store", settings, ("SSL://127.0.0.1:0",)) as node:
        ((host, port), *_) = node.addresses
        consumer = confluent_kafka.Consumer({
            "bootstrap.servers": f"{host}:{port}", **trusting(authority), **QUIET, "group.id": "g",
            "auto.offset.reset": "earliest",
        })  # fmt: skip
        produced({"bootstrap.servers": f"{host}:{port}", **trusting(authority)})
        consumer.subscribe(["t"])
        give_up = time.monotonic() + 60
        while (record := consumer.poll(1)) is None or record.error() is not None:
            assert time.monotonic() < give_up
        assert record.value() == b"x"
        assert node.on_loop(principals) == {("SSL", "User:ANONYMOUS")}
        consumer.close()


def test_tl06_a_node_whose_new_files_do_not_fit_stays_ready_and_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    pair = authority.issue("broker")
    settings = {**pair.settings(), "listener.SSL.protocol": "SSL", "admin.listeners": "127.0.0.1:0"}
    options = ("--listener", "SSL://127.0.0.1:0")
    with BrokerProcess(tmp_path / "store", settings, options=options) as broker:
        give_up = time.monotonic() + 60
        while (admin := re.search(r"http://([^:/]+):(\d+) \(/metrics", broker.log)) is None:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        address = admin[1], int(admin[2])
        authority.issue("another").key.replace(pair.key)
        broker.signal(signal.SIGHUP)
        counted = ("siltstone_tls_reload_failures_total", ())
        while scrape(address).get(counted) != 1:
            assert time.monotonic() < give_up, broker.log
            time.sleep(0.02)
        assert http_get(address, "/readyz")[0] == 200
        produced({"bootstrap.servers": broker.bootstrap_servers, **trusting(authority)})


@pytest.mark.nightly(tried="leaders asked")
def test_tl18_of_three_leaders_the_one_without_its_host_fails_alone(tmp_path: Path) -> None:
    cluster = RollingCluster(tmp_path)
    authority = Authority(tmp_path / "authority")
    try:
        for node_id in NODES[:-1]:
            cluster.start(node_id, PLAIN, SECURE)
        cluster.settings |= authority.issue("bad", hosts=("broker-2.example", "10.9.9.9")).settings(SECURE)
        cluster.start(NODES[-1], PLAIN, SECURE)
        cluster.until(lambda image: sum(node.is_live for node in image.nodes.values()) == len(NODES))
        admin = AdminClient(cluster.config(PLAIN))
        admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(60)
        security = Security(settings_of_mapping(trusting(authority), "the test"))
        bootstrap = parse_bootstrap(cluster.servers(SECURE).rpartition(",")[0])
        with Cluster(bootstrap, SystemClock(), system_randomness(), security) as client:
            assert [each.name for each in all_topics(client)] == ["t"]
            wanted = [TopicPartition("t", number) for number in range(PARTITIONS)]
            led = client.patiently(lambda: client.by_leader(wanted))
            assert set(led) == set(NODES), "each node leads some"
            for node_id, theirs in led.items():
                if node_id != NODES[-1]:
                    assert len(offsets_at(client, theirs, LATEST)) == len(theirs)
                    continue
                port = cluster.ports[node_id][SECURE]
                says = rf"127\.0\.0\.1:{port} is for broker-2\.example, 10\.9\.9\.9 and not for 127\.0\.0\.1"
                with pytest.raises(BrokerOfAnotherName, match=says):
                    offsets_at(client, theirs, LATEST)
    finally:
        cluster.close()
