"""RO01: a cluster of three processes goes from plaintext to TLS to a login and rights, while a client produces.

After each step the client is as it was or has moved on; at the end every record is there once, and no delivery has
failed. ``tests/spark/test_rolling_change_on_spark.py`` has a stream of Spark beside it.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

import siltstone
from oracles.java_clients import JavaClientFailed, JavaClients, Record, running_java_clients
from support.broker.rolling_cluster import (
    HANG_SECONDS,
    LOGIN,
    PARTITIONS,
    PLAIN,
    RollingCluster,
    SteadyProducer,
    begin_secured,
    change_all,
    change_back,
    key_of,
)
from support.kafka.kafka_oracles import or_skip

GROUPS = ("security.", "ssl.", "sasl.")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RollingCluster]:
    rolling = RollingCluster(tmp_path)
    try:
        rolling.begin()
        yield rolling
    finally:
        rolling.close()


@pytest.fixture
def secured_cluster(tmp_path: Path) -> Iterator[RollingCluster]:
    rolling = RollingCluster(tmp_path)
    try:
        begin_secured(rolling)
        yield rolling
    finally:
        rolling.close()


@pytest.mark.clients
@pytest.mark.nightly(tried="rolling changes")
@pytest.mark.xdist_group("cluster")
def test_ro01_plaintext_to_tls_to_a_login_with_rights_without_a_record_lost_or_doubled(
    cluster: RollingCluster,
) -> None:
    change_all(cluster, SteadyProducer(cluster.config(PLAIN)), cluster.config)


@pytest.mark.clients
@pytest.mark.nightly(tried="rolling changes back")
@pytest.mark.xdist_group("cluster")
def test_ro01_and_back_without_a_record_lost_or_doubled(secured_cluster: RollingCluster) -> None:
    change_back(secured_cluster, SteadyProducer(secured_cluster.config(LOGIN)))


class RollingView:
    """A KeyedView that lives through the steps, and is opened again, as a program does that is restarted, with the
    settings of another listener."""

    def __init__(self, cluster: RollingCluster, listener: str) -> None:
        self._cluster = cluster
        self._view = self._opened(listener)

    def _opened(self, listener: str) -> siltstone.KeyedView:
        settings = {
            name: value for name, value in self._cluster.config(listener).items() if name.startswith(GROUPS)
        }
        view = siltstone.KeyedView(self._cluster.servers(listener), "t", client_config=settings)
        view.__enter__()
        return view

    def moved(self, listener: str) -> None:
        self._view.catch_up(HANG_SECONDS)
        self.close()
        self._view = self._opened(listener)

    def is_exact(self, count: int) -> None:
        self._view.catch_up(HANG_SECONDS)
        newest = {key_of(number): b"%d" % number for number in range(count)}
        assert dict(self._view) == newest

    def close(self) -> None:
        self._view.__exit__(None, None, None)


@pytest.mark.clients
@pytest.mark.nightly(tried="rolling changes under a view")
@pytest.mark.xdist_group("cluster")
def test_ro01_a_view_by_key_goes_along_and_misses_nothing(cluster: RollingCluster) -> None:
    producer = SteadyProducer(cluster.config(PLAIN))
    producer.has_produced(100)
    view = RollingView(cluster, PLAIN)
    try:
        change_all(cluster, producer, cluster.config, view.moved)
        view.is_exact(producer.next_number)
    finally:
        view.close()


@pytest.mark.clients
@pytest.mark.nightly(tried="rolling changes back under a view")
@pytest.mark.xdist_group("cluster")
def test_ro01_a_view_by_key_goes_back_and_misses_nothing(secured_cluster: RollingCluster) -> None:
    producer = SteadyProducer(secured_cluster.config(LOGIN))
    producer.has_produced(100)
    view = RollingView(secured_cluster, LOGIN)
    try:
        change_back(secured_cluster, producer, view.moved)
        view.is_exact(producer.next_number)
    finally:
        view.close()


class SteadyJavaProducer(SteadyProducer):
    """The same with Kafka's Java client, a few records at a time."""

    def __init__(self, clients: JavaClients, config: Mapping[str, str]) -> None:
        self._clients = clients
        super().__init__(config)

    def _run(self, config: dict[str, str]) -> None:
        settings = {
            "linger.ms": 5,
            "delivery.timeout.ms": HANG_SECONDS * 1_000,
            "max.block.ms": HANG_SECONDS * 1_000,
        }
        try:
            with self._clients.producer({**settings, **config}) as producer:
                while not self._ends.is_set():
                    numbers = range(self.next_number, self.next_number + 12)
                    records = [Record(str(each).encode(), partition=each % PARTITIONS) for each in numbers]
                    self._clients.send(producer, "t", records)
                    self.next_number = numbers.stop
        except JavaClientFailed as failure:
            self.failures.append(str(failure))


def java_config(cluster: RollingCluster, listener: str) -> dict[str, str]:
    config = {"bootstrap.servers": cluster.servers(listener)}
    if listener != PLAIN:
        config |= {
            "security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": cluster.authority,
        }  # fmt: skip
    if listener == LOGIN:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        config |= {
            "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="ada" password="pencil";',
        }  # fmt: skip
    return config


@pytest.mark.kafka
@pytest.mark.nightly(tried="rolling changes")
@pytest.mark.xdist_group("cluster")
def test_ro01_the_same_with_the_java_client(cluster: RollingCluster) -> None:
    with or_skip(partial(running_java_clients, cluster.servers(PLAIN))) as clients:
        producer = SteadyJavaProducer(clients, java_config(cluster, PLAIN))
        change_all(cluster, producer, partial(java_config, cluster))
