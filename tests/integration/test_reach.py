"""A change of users and rights is made on one node of a cluster, and holds on all of them. See ND13."""

import time
from collections.abc import Callable

import siltstone
from siltstone.kafka_client.client_settings import settings_of_mapping
from siltstone.kafka_client.connection import Connection, Security, open_connection, parse_bootstrap
from siltstone.kafka_client.failures import BrokerGone
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from siltstone.metadata.acls import CreateAcls, DeleteAcls, SetAuthorization
from siltstone.metadata.commands import Command
from siltstone.metadata.service import FOLLOW_INTERVAL_MS
from siltstone.metadata.users import AlterUsers
from siltstone.model.access import Principal, ScramMechanism
from siltstone.model.acls import AclOperation, AclResourceType, AuthorizationMode
from siltstone.runtime.clock import SystemClock
from siltstone.server.kafka_node import KafkaNode
from support.security.rights import allow

USERS = {"ada": "pencil", "root": "stamp"}
PROMISED_SECONDS = 1.0
HANG_SECONDS = 60.0
CANDIDATE = Principal("ada")


def done_on(broker: siltstone.Broker, number: int, command: Command) -> None:
    async def do(node: KafkaNode) -> None:
        await node.node.metadata.execute(command)

    broker._thread(number).ask(do)


def connected(broker: siltstone.Broker, user: str) -> list[Connection]:
    """A connection of this user to each node."""
    security = Security(settings_of_mapping(broker.client_config(user), "the test"))
    return [
        open_connection(address, SystemClock(), security)
        for address in parse_bootstrap(broker.bootstrap_servers)
    ]


def code_of(connection: Connection, topic: str) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return connection.call(request, MetadataResponse).topics[0].error_code


def seconds_until(condition: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < HANG_SECONDS
        time.sleep(0.01)
    return time.monotonic() - began


def is_closed(connection: Connection) -> bool:
    try:
        code_of(connection, "t")
    except BrokerGone:
        return True
    return False


def test_nd13_what_is_changed_on_one_node_holds_on_all_within_a_second() -> None:
    """Three readings of the log fit into the promised time. What is measured here has ten times as much, because the
    machine may be busy."""
    assert 3 * FOLLOW_INTERVAL_MS < 1_000 * PROMISED_SECONDS
    with siltstone.Broker(users=USERS, nodes=3) as broker:
        connections = connected(broker, "ada")
        grant = allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "t", principal=CANDIDATE)
        took = {}
        for number, (what, command, code) in enumerate((
            ("on", SetAuthorization(AuthorizationMode.ON, added=("User:root",)), 29),
            ("granted", CreateAcls((grant,)), 3),
            ("revoked", DeleteAcls((grant,)), 29),
        )):  # fmt: skip
            done_on(broker, number, command)
            took[what] = seconds_until(
                lambda code=code: all(code_of(each, "t") == code for each in connections)
            )
        done_on(broker, 1, AlterUsers(removals=tuple(("ada", each) for each in ScramMechanism)))
        took["removed"] = seconds_until(lambda: all(map(is_closed, connections)))
        assert max(took.values()) < 10 * PROMISED_SECONDS, took
