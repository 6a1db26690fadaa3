"""Rights with real clients: owners of certificates, kafka-acls, and Apache Kafka with the same ACLs as an oracle."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin as theirs
import pytest
from cryptography.x509.oid import NameOID

import siltstone
from oracles.apache_kafka import prepare_apache_kafka, started
from oracles.broker_process import HOST, free_ports
from oracles.java_tools import KafkaTools
from siltstone.broker.security.acls.required import REQUIRED, Requirement
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.notation import Message
from siltstone.metadata.acls import CreateAcls, DeleteAcls, SetAuthorization
from siltstone.model.access import ANONYMOUS, Principal
from siltstone.model.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclResourceType,
    AuthorizationMode,
)
from siltstone.offline.opening.store import open_store
from siltstone.server.kafka_node import KafkaNode
from siltstone.server.settings.node import load_node_settings
from support.broker.cluster_clients import until
from support.broker.every_request import PRODUCE_SINCE, plain_request
from support.broker.served_node import ServedNode
from support.kafka.kafka_oracles import or_skip
from support.kafka.raw_calls import RawTopic, metadata_request
from support.kafka.raw_kafka import Address, ConnectionClosed, RawConnection, address_of
from support.processes.cli import run
from support.processes.tried import RecordTried
from support.security.rights import allow, refusals_in
from support.tls.authority import Authority

ON = SetAuthorization(AuthorizationMode.ON, added=("User:root",))
DENIED = {29, 30, 31, 53}
OF_NODES_SINCE = 4
"""From this version on AddPartitionsToTxn is for brokers. Ours takes it from nodes of its store alone, by their proof;
Kafka from each client with CLUSTER_ACTION, and one without a transaction it never answers."""


# -- clients that are named by their certificates -----------------------------------------------------------


@pytest.mark.xdist_group("tls")
def test_ac01_a_client_is_known_by_its_certificate(tmp_path: Path) -> None:
    """One may produce; another is told so by the error that its library hands to the program."""
    authority = Authority(tmp_path)
    settings = {
        "listener.SSL.tls_client_auth": "required",
        "listener.SSL.tls_client_ca_file": str(authority.file),
        **authority.issue("broker").settings(),
    }
    with ServedNode(tmp_path / "store", settings, ("SSL://127.0.0.1:0",)) as node:
        configs = []
        for name in ("svc", "other"):
            pair = authority.issue(name, ((NameOID.COMMON_NAME, name),))
            configs.append({
                "bootstrap.servers": ":".join(map(str, node.addresses[0])),
                "security.protocol": "SSL",
                "ssl.ca.location": str(authority.file),
                "ssl.certificate.location": str(pair.certificate),
                "ssl.key.location": str(pair.key),
                "log_level": 0,
            })  # fmt: skip
        admin = theirs.AdminClient(configs[0])
        admin.create_topics([theirs.NewTopic("flights", 1, 1)])["flights"].result(60)
        node.on_loop(_switch_on)
        assert _produced(configs[0]) is None
        failure = _produced(configs[1])
        assert failure is not None
        assert failure.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED


async def _switch_on(node: KafkaNode) -> None:
    metadata = node.broker.parts.metadata
    writes = allow(AclOperation.WRITE, AclResourceType.TOPIC, "flights", principal=Principal("CN=svc"))
    await metadata.execute(CreateAcls((writes,)))
    await metadata.execute(ON)


def _produced(config: dict[str, Any]) -> confluent_kafka.KafkaError | None:
    failures: list[Any] = []
    producer = confluent_kafka.Producer(config)
    producer.produce("flights", b"v", on_delivery=lambda failure, _: failures.append(failure))
    assert producer.flush(60) == 0
    (failure,) = failures
    return failure


# -- clients that are named by their logins -----------------------------------------------------------------


@pytest.mark.xdist_group("tls")
def test_ac01_a_user_is_known_by_its_login_and_our_commands_say_what_is_missing(tmp_path: Path) -> None:
    with siltstone.Broker(users={"ada": "pencil", "bob": "crayon"}) as broker:
        admin = theirs.AdminClient(broker.client_config("ada"))
        admin.create_topics([theirs.NewTopic("flights", 1, 1)])["flights"].result(60)
        writes = allow(AclOperation.WRITE, AclResourceType.TOPIC, "flights", principal=Principal("ada"))
        _change(broker, CreateAcls((writes,)), ON)
        until(lambda: _produced(broker.client_config("bob")) is not None, "bob may not produce")
        assert _produced(broker.client_config("ada")) is None
        client_file = tmp_path / "bob.properties"
        client_file.write_text("".join(f"{k}={v}\n" for k, v in broker.client_config("bob").items()))
        client_file.chmod(0o600)
        where = ("--client-config", client_file, "-b", broker.bootstrap_servers)
        for words in (
            ("tail", "flights", "-e"),
            ("topics", "create", "other"),
            ("consume", "flights", "-g", "g", "-e"),
        ):
            told = run(*words, *where)
            assert told.status
            assert "siltstone acls add, where the store is, allows it" in told.err


def test_nd10_a_node_with_a_floor_says_what_to_switch_on(tmp_path: Path) -> None:
    told = run("serve", "--store", tmp_path, "--listener", "127.0.0.1:0", "--set", "broker.authorization=on")
    assert told.status == 2
    assert "siltstone authorization on --super-user User:NAME" in told.err


# -- Kafka's tool -------------------------------------------------------------------------------------------


@contextmanager
def _tools() -> Iterator[tuple[siltstone.Broker, KafkaTools]]:
    with siltstone.Broker() as broker:
        yield broker, KafkaTools(broker.bootstrap_servers)


def _change(broker: siltstone.Broker, *commands: Any) -> None:
    with open_store(load_node_settings(broker.folder, environment={})) as store:
        store.metadata.execute_all(list(commands))


@pytest.mark.kafka
@pytest.mark.nightly
@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(600)
def test_ac17_kafka_acls_adds_lists_and_removes(record_tried: RecordTried) -> None:
    with or_skip(_tools) as (broker, tools):
        refused = tools.run("kafka-acls", "--list")
        assert "SecurityDisabledException" in refused.output + refused.errors
        _change(broker, SetAuthorization(AuthorizationMode.ON, added=(str(ANONYMOUS),)))
        prefixed = ("--resource-pattern-type", "prefixed")
        ada = ("--allow-principal", "User:ada")
        tools.output("kafka-acls", "--add", *ada, "--producer", "--topic", "fl", *prefixed)
        tools.output("kafka-acls", "--add", *ada, "--consumer", "--topic", "flights", "--group", "g")
        tools.output("kafka-acls", "--add", "--deny-principal", "User:bob", "--operation", "All", "--cluster")
        listed = tools.output(
            "kafka-acls", "--list", "--topic", "flights", "--resource-pattern-type", "match"
        )
        assert "patternType=PREFIXED" in listed
        assert "principal=User:ada, host=*, operation=READ, permissionType=ALLOW" in listed
        removed = ("--topic", "fl", *prefixed, "--force")
        tools.output("kafka-acls", "--remove", *removed)
        with open_store(load_node_settings(broker.folder, environment={})) as store:
            left = sorted(map(str, store.metadata.image.acls.values()))
        assert left == [
            "ALLOW User:ada from *: DESCRIBE on TOPIC flights",
            "ALLOW User:ada from *: READ on GROUP g",
            "ALLOW User:ada from *: READ on TOPIC flights",
            "DENY User:bob from *: ALL on CLUSTER kafka-cluster",
        ]
    record_tried("calls of kafka-acls", 6)


# -- Apache Kafka with the same ACLs ------------------------------------------------------------------------

PASSWORD = "p"
ADMIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "root",
         "sasl.password": PASSWORD}  # fmt: skip
_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="root" password="{PASSWORD}" user_root="{PASSWORD}";'
)


class Oracle:
    """Apache Kafka with an authorizer: its clients are User:ANONYMOUS, and ``admin`` is the super user."""

    def __init__(self, client_port: int, admin_port: int) -> None:
        self.address: Address = (HOST, client_port)
        self.config = {**ADMIN, "bootstrap.servers": f"{HOST}:{admin_port}", "log_level": 0}
        self.admin = theirs.AdminClient(self.config)

    def topic(self, name: str) -> RawTopic:
        self.admin.create_topics([theirs.NewTopic(name, 1, 1)])[name].result(60)
        deadline = time.monotonic() + 60
        while name not in self.admin.list_topics(timeout=60).topics:  # the broker learns it a moment later
            assert time.monotonic() < deadline
        found = self.admin.describe_topics(confluent_kafka.TopicCollection([name]))[name].result(60)
        high, low = found.topic_id.get_most_significant_bits(), found.topic_id.get_least_significant_bits()
        return RawTopic(name, b"".join((each & (2**64 - 1)).to_bytes(8, "big") for each in (high, low)))

    def has(self, bindings: Iterable[AclBinding]) -> None:
        """Makes these ACLs all that the client has. Returns when the broker knows it."""
        wanted = {_as_theirs(each) for each in bindings}
        for future in self.admin.delete_acls([_OF_CLIENT]).values():
            future.result(60)
        for future in self.admin.create_acls(list(wanted)).values() if wanted else ():
            future.result(60)
        deadline = time.monotonic() + 60
        while {*self.admin.describe_acls(_OF_CLIENT).result(60)} != wanted:
            assert time.monotonic() < deadline
        time.sleep(0.05)  # the authorizer takes the image after the cache that describes it


_OF_CLIENT = theirs.AclBindingFilter(
    theirs.ResourceType.ANY, None, theirs.ResourcePatternType.ANY, str(ANONYMOUS), None,
    theirs.AclOperation.ANY, theirs.AclPermissionType.ANY,
)  # fmt: skip


def _as_theirs(binding: AclBinding) -> theirs.AclBinding:
    kind = {AclResourceType.CLUSTER: "BROKER"}.get(binding.resource_type, binding.resource_type.name)
    return theirs.AclBinding(
        theirs.ResourceType[kind], binding.name, theirs.ResourcePatternType[binding.pattern_type.name],
        binding.principal, binding.host, theirs.AclOperation[binding.operation.name],
        theirs.AclPermissionType[binding.permission.name],
    )  # fmt: skip


@contextmanager
def _oracle(folder: Path) -> Iterator[Oracle]:
    folder.mkdir()
    client_port, admin_port, controller_port = free_ports(3)
    listeners = {"CLIENT": client_port, "ADMIN": admin_port, "CONTROLLER": controller_port}
    settings = {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
        "advertised.listeners": f"CLIENT://{HOST}:{client_port},ADMIN://{HOST}:{admin_port}",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,ADMIN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "ADMIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.admin.plain.sasl.jaas.config": _JAAS,
        "listener.name.controller.plain.sasl.jaas.config": _JAAS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    prepared = prepare_apache_kafka(folder, settings)
    with started(type(prepared)(prepared.command, client_port, prepared.log)):
        yield Oracle(client_port, admin_port)


def _commit(config: dict[str, Any]) -> None:
    """From then on the group has a coordinator and an offset."""
    consumer = confluent_kafka.Consumer({**config, "group.id": "g"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 1)], asynchronous=False)
    consumer.close()


def _denials(address: Address, topic: RawTopic) -> dict[tuple[str, int], set[tuple[str, int]]]:
    """Returns the codes of refusals in the answer to each request, with the fields where they stand."""
    found: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for request, version in _requests(topic):
        with RawConnection(address) as connection:
            try:
                answer = connection.ask(request, version)
            except (TimeoutError, ConnectionClosed) as failure:
                raise AssertionError(f"{address} does not answer {request} in version {version}") from failure
        name = f"{type(request).__name__} {getattr(request, 'key_type', '')}{_named(request)}"
        found[name, version] = {each for each in refusals_in(answer) if each[1] in DENIED}
    return found


def _named(request: Message) -> str:
    return "of all" if isinstance(request, MetadataRequest) and request.topics is None else ""


def _requests(topic: RawTopic) -> Iterator[tuple[Message, int]]:
    for key, (lowest, newest) in ANNOUNCED.items():
        oldest = PRODUCE_SINCE if key is ApiKey.PRODUCE else lowest
        for version in sorted({oldest, newest}):
            is_of_nodes = key is ApiKey.ADD_PARTITIONS_TO_TXN and version >= OF_NODES_SINCE
            if key is not ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS and not is_of_nodes:
                yield plain_request(key, version, topic, "g"), version
    # Kafka 4.3.1 never answers a client that may not ask for all users: users=null.
    yield DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")]), 0
    yield FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 6
    yield MetadataRequest(topics=None), 12
    for name in (topic.name, "missing"):
        yield metadata_request(name, creates=False), 9


def _binding(requirement: Requirement) -> AclBinding:
    name = CLUSTER_NAME if requirement.resource_type is AclResourceType.CLUSTER else "*"
    return allow(requirement.operation, requirement.resource_type, name, principal=ANONYMOUS)


@pytest.mark.kafka
@pytest.mark.nightly
@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(900)
def test_ac01_the_same_request_has_the_same_refusals_as_in_apache_kafka(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """For no right, for each single right of the table, and for all of them: every API, oldest and newest version."""
    singles = sorted({_binding(each) for rows in REQUIRED.values() for each in rows})
    tried = 0
    with or_skip(lambda: _oracle(tmp_path / "kafka")) as oracle, siltstone.Broker() as broker:
        broker.create_topic("t")
        with RawConnection(address_of(broker.bootstrap_servers)) as connection:
            (found,) = connection.ask(metadata_request("t"), 12).topics
        ours, theirs_ = RawTopic("t", found.topic_id), oracle.topic("t")
        _commit(oracle.config)
        _commit({"bootstrap.servers": broker.bootstrap_servers})
        _change(broker, ON)
        for bindings in ((), *((each,) for each in singles), tuple(singles)):
            _change(broker, CreateAcls(bindings))
            oracle.has(bindings)
            here = _denials(address_of(broker.bootstrap_servers), ours)
            there = _denials(oracle.address, theirs_)
            different = {name: (here[name], there[name]) for name in here if here[name] != there[name]}
            assert not different, bindings
            tried += len(here)
            _change(broker, DeleteAcls(bindings))
    record_tried("requests, each to both", tried)
