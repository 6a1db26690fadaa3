"""AC08 and AC09 as librdkafka and Java meet them: what a client does that has a right, and not the one beside it."""

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

import confluent_kafka
import confluent_kafka.admin as theirs
import pytest

import siltstone
from oracles.java_clients import JavaClientFailed, JavaClients, Record, java_failures, running_java_clients
from siltstone.metadata.acls import SetAuthorization
from siltstone.model.acls import AuthorizationMode
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.cluster_clients import until
from support.broker.cluster_processes import ClusterProcesses
from support.kafka.kafka_oracles import or_skip
from support.kafka.quiet_client import QUIET
from support.kafka.raw_calls import metadata_request
from support.kafka.raw_kafka import RawConnection, address_of
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.clients, pytest.mark.xdist_group("tls"), pytest.mark.timeout(600)]

TOPIC, GROUP = theirs.ResourceType.TOPIC, theirs.ResourceType.GROUP
DESCRIBE, READ, WRITE = theirs.AclOperation.DESCRIBE, theirs.AclOperation.READ, theirs.AclOperation.WRITE
PREFIXED = theirs.ResourcePatternType.PREFIXED
TIMEOUT_S = 60
SUE = "sue"


class Rights:
    """The ACLs of sue, which root changes at the broker: they count when the broker has answered."""

    def __init__(self, broker: siltstone.Broker) -> None:
        with open_store(load_node_settings(broker.folder, environment={})) as store:
            store.metadata.execute(SetAuthorization(AuthorizationMode.ON, added=("User:root",)))
        self._admin = theirs.AdminClient({**broker.client_config("root"), **QUIET})
        until(self._is_on, "the broker to look at rights", TIMEOUT_S)

    def _is_on(self) -> bool:
        try:
            self._admin.delete_acls([OF_SUE])[OF_SUE].result(TIMEOUT_S)
        except confluent_kafka.KafkaException as failure:
            assert failure.args[0].name() == "SECURITY_DISABLED", failure
            return False
        return True

    def become(self, *bindings: theirs.AclBinding) -> None:
        for done in self._admin.delete_acls([OF_SUE]).values():
            done.result(TIMEOUT_S)
        for done in self._admin.create_acls(list(bindings)).values():
            done.result(TIMEOUT_S)


OF_SUE = theirs.AclBindingFilter(
    theirs.ResourceType.ANY, None, theirs.ResourcePatternType.ANY, f"User:{SUE}", None, theirs.AclOperation.ANY,
    theirs.AclPermissionType.ANY,
)  # fmt: skip


def acl(
    operation: theirs.AclOperation,
    kind: theirs.ResourceType,
    name: str,
    pattern: theirs.ResourcePatternType = theirs.ResourcePatternType.LITERAL,
    permission: theirs.AclPermissionType = theirs.AclPermissionType.ALLOW,
) -> theirs.AclBinding:
    return theirs.AclBinding(kind, name, pattern, f"User:{SUE}", "*", operation, permission)


class Clients(Protocol):
    """The clients of sue in one library. Each call returns the name of the error that its program sees, or ""."""

    def produce(self, topic: str) -> str: ...
    def read_in_group(self, topic: str, group: str) -> str: ...
    def commit(self, topic: str, group: str) -> str: ...


class OfLibrdkafka:
    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = {**config, **QUIET}

    def produce(self, topic: str) -> str:
        """What the delivery says; an idempotent producer that gets no id has a fatal error, which ``poll`` raises."""
        told: list[Any] = []
        producer = confluent_kafka.Producer({**self._config, "enable.idempotence": True})
        producer.produce(topic, b"v", partition=0, on_delivery=lambda error, _: told.append(error))
        try:
            until(lambda: producer.poll(0.1) or told, "a delivery or its failure", TIMEOUT_S)
        except confluent_kafka.KafkaException as failure:
            return str(failure.args[0].name())
        return "" if told[0] is None else str(told[0].name())

    def read_in_group(self, topic: str, group: str) -> str:
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT_S)
        consumer.close()
        assert message is not None
        return "" if message.error() is None else message.error().name()

    def commit(self, topic: str, group: str) -> str:
        consumer = self._consumer(group)
        try:
            consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 1)], asynchronous=False)
        except confluent_kafka.KafkaException as failure:
            return str(failure.args[0].name())
        finally:
            consumer.close()
        return ""

    def _consumer(self, group: str) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer({
            **self._config, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        })  # fmt: skip


NAMES_OF_JAVA = {
    "ClusterAuthorizationException": "CLUSTER_AUTHORIZATION_FAILED",
    "TopicAuthorizationException": "TOPIC_AUTHORIZATION_FAILED",
    "GroupAuthorizationException": "GROUP_AUTHORIZATION_FAILED",
}


class OfJava:
    """Its exceptions are named as librdkafka names the codes."""

    def __init__(self, clients: JavaClients, config: Mapping[str, Any]) -> None:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        username, password = config["sasl.username"], config["sasl.password"]
        self._clients = clients
        self._config = {
            "security.protocol": config["security.protocol"], "sasl.mechanism": config["sasl.mechanism"],
            "sasl.jaas.config": f'{module} required username="{username}" password="{password}";',
        }  # fmt: skip

    def produce(self, topic: str) -> str:
        def sent() -> None:
            with self._clients.producer({**self._config, "enable.idempotence": "true"}) as producer:
                self._clients.send(producer, topic, [Record(b"v", partition=0)])

        return self._failure_of(sent)

    def read_in_group(self, topic: str, group: str) -> str:
        def read() -> None:
            with self._clients.consumer({**self._config, "group.id": group}) as consumer, java_failures():
                consumer.subscribe([topic])
                assert self._clients.poll(consumer, 1, TIMEOUT_S)

        return self._failure_of(read)

    def commit(self, topic: str, group: str) -> str:
        def committed() -> None:
            with self._clients.consumer({**self._config, "group.id": group}) as consumer, java_failures():
                offset = self._clients.machine.classes.org.apache.kafka.clients.consumer.OffsetAndMetadata(1)
                partition = self._clients.topic_partition(topic, 0)
                offsets = self._clients.machine.classes.java.util.HashMap()
                offsets.put(partition, offset)
                consumer.commitSync(offsets)

        return self._failure_of(committed)

    def _failure_of(self, work: Any) -> str:
        try:
            work()
        except JavaClientFailed as failure:
            kind = failure.kind
            if kind == "KafkaException":  # its thread has met the refusal before the program asked
                raised: Any = failure.__cause__
                kind = raised.java_exception.getCause().getClass().getSimpleName()
            return NAMES_OF_JAVA.get(kind, str(failure))
        return ""


@pytest.fixture(scope="module")
def broker() -> Iterator[siltstone.Broker]:
    with siltstone.Broker(users={"root": "pencil", SUE: "crayon"}) as running:
        for topic in ("t", "x", "xy"):
            running.create_topic(topic)
        yield running


@pytest.fixture(scope="module")
def java(broker: siltstone.Broker) -> Iterator[JavaClients]:
    with or_skip(partial(running_java_clients, broker.bootstrap_servers)) as clients:
        yield clients


@pytest.fixture(scope="module")
def rights(broker: siltstone.Broker) -> Rights:
    return Rights(broker)


@pytest.fixture(
    params=[
        "librdkafka",
        pytest.param("java", marks=[pytest.mark.kafka, pytest.mark.nightly(tried="rights met by Java")]),
    ]
)
def clients(request: pytest.FixtureRequest, broker: siltstone.Broker) -> Clients:
    config = broker.client_config(SUE)
    if request.param == "librdkafka":
        return OfLibrdkafka(config)
    return OfJava(request.getfixturevalue("java"), config)


def test_ac08_an_idempotent_producer_needs_write_on_some_topic(rights: Rights, clients: Clients) -> None:
    """Its id is given to a client that may write anywhere; a prefix that is denied as it is allowed is nowhere."""
    rights.become(acl(WRITE, TOPIC, "t"))
    assert clients.produce("t") == ""
    assert clients.produce("x") == "TOPIC_AUTHORIZATION_FAILED"
    allowed, seen = acl(WRITE, TOPIC, "x", PREFIXED), acl(DESCRIBE, TOPIC, "x", PREFIXED)
    rights.become(seen, allowed, acl(WRITE, TOPIC, "x", PREFIXED, theirs.AclPermissionType.DENY))
    assert clients.produce("xy") == "CLUSTER_AUTHORIZATION_FAILED"
    rights.become(allowed)
    assert clients.produce("xy") == ""


def test_ac09_a_member_of_a_group_without_a_right_to_its_topic(rights: Rights, clients: Clients) -> None:
    """It joins, or it would not come to its first fetch; fetch and commit are refused for the topic."""
    group = f"g-{type(clients).__name__}"
    rights.become(acl(READ, GROUP, group), acl(DESCRIBE, TOPIC, "t"), acl(WRITE, TOPIC, "t"))
    assert clients.produce("t") == ""
    assert clients.read_in_group("t", group) == "TOPIC_AUTHORIZATION_FAILED"
    assert clients.commit("t", group) == "TOPIC_AUTHORIZATION_FAILED"
    rights.become(acl(READ, TOPIC, "t"))
    assert clients.read_in_group("t", group) == "GROUP_AUTHORIZATION_FAILED"
    rights.become(acl(READ, TOPIC, "t"), acl(READ, GROUP, group))
    assert clients.read_in_group("t", group) == ""
    assert clients.commit("t", group) == ""


ASKS = 1_000
NODES = 3


@pytest.mark.nightly(tried="questions of topics")
def test_ac23_a_hidden_and_a_missing_topic_take_the_same_time_on_every_node(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """In turns, so that a busy machine slows both; of each topic the quicker half counts."""
    with ClusterProcesses(tmp_path / "store", NODES) as cluster:
        admin = theirs.AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
        admin.create_topics([theirs.NewTopic("hid", 3, 1)])["hid"].result(TIMEOUT_S)
        cluster.store.metadata.execute(SetAuthorization(AuthorizationMode.ON, added=("User:root",)))
        for node in range(NODES):
            with RawConnection(address_of(cluster.address(node))) as connection:
                until(lambda: answer_for(connection, "hid") == answer_for(connection, "mis"), "rights are on")
                took: dict[str, list[float]] = {"hid": [], "mis": []}
                for _ in range(ASKS):
                    for name, times in took.items():
                        begun = time.perf_counter()
                        answer_for(connection, name)
                        times.append(time.perf_counter() - begun)
                assert answer_for(connection, "hid") == answer_for(connection, "mis")
            hidden, missing = (fmean(sorted(times)[: ASKS // 2]) for times in took.values())
            assert abs(hidden - missing) < 0.05 * max(hidden, missing), (node, hidden, missing)
    record_tried("questions of topics", 2 * NODES * ASKS)


def answer_for(connection: RawConnection, topic: str) -> bytes:
    """Returns the bytes after the correlation id, without the name."""
    connection.send(metadata_request(topic), 12)
    frame = connection.receive_frame()
    connection.asked.clear()
    return frame[4:].replace(topic.encode(), b"")
