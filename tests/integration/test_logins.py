"""Brokers with a login, and the clients of people: confluent-kafka, aiokafka, kafka-python, Java's tools, ours."""

import asyncio
import logging
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.helpers import create_ssl_context
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

import siltstone
from siltstone.kafka_client.client_settings import settings_of_mapping
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import Security, parse_bootstrap
from siltstone.kafka_client.failures import BrokerGone, LoginRefused, MechanismNotOffered
from siltstone.kafka_client.topics import all_topics
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataResponse
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.processes.cli import assert_one_line, run

pytestmark = [pytest.mark.xdist_group("logins"), pytest.mark.clients]

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
WRONG = "not-for-the-log"
USERS = {"ada": "pencil", "b,o=b": "br ush=,ä"}


@pytest.fixture(scope="module")
def broker() -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tls=True, users=USERS) as running:
        yield running


def produced(config: dict[str, Any], topic: str, count: int = 100) -> None:
    producer = confluent_kafka.Producer(config)
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def values_of(broker: siltstone.Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


NUMBERS = [b"%d" % number for number in range(100)]


def cluster_of(address: str, config: dict[str, str]) -> Cluster:
    security = Security(settings_of_mapping(config, "the test"))
    return Cluster(parse_bootstrap(address), SystemClock(), system_randomness(), security)


# -- each client


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sa01_confluent_kafka(broker: siltstone.Broker, mechanism: str, user: str) -> None:
    config = {**broker.client_config(user), "sasl.mechanism": mechanism}
    topic = f"confluent-{mechanism}-{len(user)}"
    produced(config, topic)
    consumer = confluent_kafka.Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline, values = time.monotonic() + 60, []
    while len(values) < 100 and time.monotonic() < deadline:
        if (record := consumer.poll(1)) is not None and record.error() is None:
            values.append(record.value())
    consumer.close()
    assert values == NUMBERS


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sa01_kafka_python(broker: siltstone.Broker, mechanism: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    options = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": broker.client_config()["ssl.ca.location"],
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ada",
        "sasl_plain_password": "pencil",
    }
    topic = f"kafka-python-{mechanism}"
    with KafkaProducer(**options) as producer:
        for value in NUMBERS:
            producer.send(topic, value, partition=0)
        producer.flush()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000, **options)
    assert [next(consumer).value for _ in NUMBERS] == NUMBERS
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sa01_aiokafka(broker: siltstone.Broker, mechanism: str) -> None:
    options = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_context": create_ssl_context(cafile=broker.client_config()["ssl.ca.location"]),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ada",
        "sasl_plain_password": "pencil",
    }
    topic = f"aiokafka-{mechanism}"

    async def scenario() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(**options) as producer:
            for value in NUMBERS:
                await producer.send(topic, value, partition=0)
        consumer = aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", **options)
        async with consumer:
            return [(await asyncio.wait_for(anext(consumer), 60)).value for _ in NUMBERS]

    assert asyncio.run(scenario()) == NUMBERS


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sa23_our_own_client(broker: siltstone.Broker, mechanism: str, user: str) -> None:
    config = {**broker.client_config(user), "sasl.mechanism": mechanism}
    topic = broker.create_topic(f"ours-{mechanism}-{len(user)}", config={"cleanup.policy": "compact"})
    producer = confluent_kafka.Producer(config)
    producer.produce(topic, b"v", b"k")
    assert producer.flush(60) == 0
    with siltstone.KeyedView(broker.bootstrap_servers, topic, client_config=config) as view:
        assert dict(view) == {b"k": b"v"}


def test_sa01_without_tls_there_is_scram() -> None:
    with siltstone.Broker(users={"ada": "pencil"}) as broker:
        assert broker.client_config()["security.protocol"] == "SASL_PLAINTEXT"
        produced(broker.client_config("ada"), "t")
        assert values_of(broker, "t") == NUMBERS
        plain = {**broker.client_config(), "sasl.mechanism": "PLAIN"}
        admin = AdminClient({**plain, "log_level": 0})
        with pytest.raises(confluent_kafka.KafkaException):
            admin.list_topics(timeout=2)
        broker.restart()
        assert values_of(broker, "t") == NUMBERS, "users outlive a restart"


def test_sa14_sessions_that_expire_lose_nothing() -> None:
    """librdkafka logs in again on its connections; ours opens others; a client that does neither is closed."""
    settings = {"listener.SASL_PLAINTEXT.reauthentication_ms_max": "2000"}
    with siltstone.Broker(users={"ada": "pencil"}, settings=settings) as broker:
        broker.create_topic("t", partitions=1)
        producer = confluent_kafka.Producer(broker.client_config())
        with cluster_of(broker.bootstrap_servers, broker.client_config()) as cluster:
            deadline, sent = time.monotonic() + 5, 0
            while time.monotonic() < deadline:
                producer.produce("t", b"%d" % sent, partition=0)
                producer.poll(0.05)
                sent += 1
                assert [each.name for each in all_topics(cluster)] == ["t"]
            assert producer.flush(60) == 0
            again = broker.statistics().logins
            assert again.succeeded["SCRAM-SHA-512"] >= 4 and again.expired == 0
            held = cluster.entrance()
            time.sleep(2.1)
            with pytest.raises(BrokerGone):
                held.call(MetadataRequest(topics=[]), MetadataResponse)
            assert broker.statistics().logins.expired == 1
        assert values_of(broker, "t") == [b"%d" % number for number in range(sent)]


# -- what does not log in


def test_sa23_our_client_says_what_is_wrong_and_tries_once(broker: siltstone.Broker) -> None:
    address, config = broker.bootstrap_servers, broker.client_config()
    before = broker.statistics().logins
    with (
        cluster_of(f"{address},{address}", {**config, "sasl.password": WRONG}) as cluster,
        pytest.raises(LoginRefused, match="refuses the login of ada by SCRAM-SHA-512") as refused,
    ):
        all_topics(cluster)
    assert WRONG not in str(refused.value)
    after = broker.statistics().logins
    assert sum(after.failed.values()) - sum(before.failed.values()) == 1
    without = {"security.protocol": "SSL", "ssl.ca.location": config["ssl.ca.location"]}
    with (
        cluster_of(address, without) as cluster,
        pytest.raises(BrokerGone, match=r"if its listener has a login, set security\.protocol=SASL_SSL"),
    ):
        all_topics(cluster)
    with siltstone.Broker(tls=True) as open_to_all:
        ca = open_to_all.client_config()["ssl.ca.location"]
        with (
            cluster_of(open_to_all.bootstrap_servers, {**config, "ssl.ca.location": ca}) as cluster,
            pytest.raises(MechanismNotOffered, match=r"has no login: set security\.protocol to SSL"),
        ):
            all_topics(cluster)


def test_sa23_a_command_with_a_wrong_password_ends_with_2(broker: siltstone.Broker, tmp_path: Path) -> None:
    config = broker.client_config() | {"sasl.password": WRONG}
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    file.chmod(0o600)
    words = ("topics", "-b", broker.bootstrap_servers, "--client-config", file)
    assert_one_line(run(*words), 2, "refuses the login of ada", "sasl.password")
    assert WRONG not in run(*words).err
    file.write_text(file.read_text().replace(WRONG, "pencil"))
    assert run(*words).status == 0


def test_sa20_librdkafka_with_a_wrong_password_comes_back_seldom(caplog: pytest.LogCaptureFixture) -> None:
    with siltstone.Broker(users={"ada": "pencil", "bob": "brush"}) as broker:
        errors: list[str] = []
        config = broker.client_config() | {"sasl.password": WRONG, "log_level": 0}
        client = AdminClient({**config, "error_cb": lambda error: errors.append(str(error))})
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            client.poll(0.1)
        tried = broker.statistics().logins.failed["SCRAM-SHA-512"]
        assert 1 <= tried <= 7, f"{tried} tries in 4 s, where Kafka's delay allows 40"
        assert any("the login failed" in each for each in errors), errors
        lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
        assert 1 <= sum("a login from" in each for each in lines) <= 2, lines
        began = time.monotonic()
        assert AdminClient(broker.client_config("bob")).list_topics(timeout=60).brokers
        assert time.monotonic() - began < 30


# -- users


def test_sa11_confluent_sets_and_describes_credentials(broker: siltstone.Broker) -> None:
    admin = AdminClient(broker.client_config())
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("eve", info, b"apple")])["eve"].result(
        60
    )
    described = admin.describe_user_scram_credentials(["eve"])["eve"].result(60)
    (found,) = described.scram_credential_infos
    assert (found.mechanism, found.iterations) == (ScramMechanism.SCRAM_SHA_256, 4096)
    eve = broker.client_config() | {
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "eve",
        "sasl.password": "apple",
    }
    assert AdminClient(eve).list_topics(timeout=60).brokers
    removal = UserScramCredentialDeletion("eve", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([removal])["eve"].result(60)
    with pytest.raises(confluent_kafka.KafkaException, match="eve"):
        admin.describe_user_scram_credentials(["eve"])["eve"].result(60)


def test_sa28_a_user_is_changed_and_removed_beside_a_running_broker(tmp_path: Path) -> None:
    """Through ``siltstone users`` on the store: a new password counts at once, and a removed user is out."""
    with siltstone.Broker(tmp_path / "store", users={"ada": "pencil", "bob": "brush"}) as broker:
        store = ("--store", broker.folder)
        with cluster_of(broker.bootstrap_servers, broker.client_config("bob")) as cluster:
            assert all_topics(cluster) == []
            assert run("users", "password", "bob", "--password-file", "-", *store, stdin=b"new").status == 0
            assert all_topics(cluster) == [], "a session goes on with the old password"
            assert _refused(broker, "bob", "brush")
            with cluster_of(
                broker.bootstrap_servers, broker.client_config("bob") | {"sasl.password": "new"}
            ) as new:
                assert all_topics(new) == []
            assert run("users", "remove", "bob", "--yes", *store).status == 0
            deadline = time.monotonic() + 60
            with pytest.raises(BrokerGone):
                while time.monotonic() < deadline:
                    all_topics(cluster)
                    time.sleep(0.02)
        assert _refused(broker, "bob", "new")
        with cluster_of(broker.bootstrap_servers, broker.client_config("ada")) as cluster:
            assert all_topics(cluster) == []


def _refused(broker: siltstone.Broker, user: str, password: str) -> bool:
    """Whether the login is refused, at the latest when the broker knows of a change."""
    deadline = time.monotonic() + 60
    config = broker.client_config() | {"sasl.username": user, "sasl.password": password}
    while time.monotonic() < deadline:
        try:
            with cluster_of(broker.bootstrap_servers, config) as cluster:
                all_topics(cluster)
        except LoginRefused:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.kafka
@pytest.mark.nightly(tried="runs of Kafka's tools")
def test_sa12_javas_tools_make_a_user_and_log_in(tmp_path: Path) -> None:
    """``kafka-configs`` is the first client: it logs in as a user that was made on the stopped store (SA22)."""
    from oracles.java_artifacts import JavaArtifactsUnavailable
    from oracles.java_tools import KafkaTools

    folder = tmp_path / "store"
    listeners = ("--listener", "SASL_SSL://127.0.0.1:0", "--tls-self-signed")
    with BrokerProcess(folder, options=listeners) as broker:
        deadline = time.monotonic() + 60
        while "nobody can log in yet: siltstone users add NAME" not in broker.log:
            assert time.monotonic() < deadline, broker.log
            time.sleep(0.02)
    environment = {**os.environ, "SILTSTONE_STORE": str(folder)}
    added = subprocess.run(
        [str(SILTSTONE), "users", "add", "admin", "--password-file", "-"],
        input=b"grail-1975", capture_output=True, check=False, env=environment,
    )  # fmt: skip
    assert added.returncode == 0, added.stderr
    with BrokerProcess(folder, options=listeners) as broker:
        try:
            tools = KafkaTools(broker.bootstrap_servers)
        except JavaArtifactsUnavailable:
            pytest.skip("Java's tools are not to be had")

        def file_of(user: str, password: str, mechanism: str) -> str:
            module = f"org.apache.kafka.common.security.scram.ScramLoginModule required username={user}"
            path = tmp_path / f"{user}.properties"
            path.write_text(
                f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\n"
                f"ssl.truststore.location={folder / 'tls' / 'ca.pem'}\nsasl.mechanism={mechanism}\n"
                f'sasl.jaas.config={module} password="{password}";\n'
            )
            return str(path)

        admin = file_of("admin", "grail-1975", "SCRAM-SHA-512")
        changed = "SCRAM-SHA-256=[iterations=4096,password=alice-secret]"
        users = ("--entity-type", "users", "--entity-name", "alice", "--command-config", admin)
        assert "Completed updating" in tools.output(
            "kafka-configs", "--alter", "--add-config", changed, *users
        )
        described = tools.output("kafka-configs", "--describe", *users)
        assert "SCRAM-SHA-256=iterations=4096" in described and "alice-secret" not in described
        alice = file_of("alice", "alice-secret", "SCRAM-SHA-256")
        assert tools.run("kafka-topics", "--list", "--command-config", alice).status == 0
        assert "alice-secret" not in broker.log and "grail-1975" not in broker.log
