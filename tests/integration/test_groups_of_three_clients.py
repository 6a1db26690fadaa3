"""Members of Java, librdkafka and franz-go in one group of KIP-848. One after the other leaves and another comes, while
a producer writes (NG24)."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from oracles.go_programs import GoUnavailable, franz_go_member
from oracles.java_clients import running_java_clients
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import parse_bootstrap
from siltstone.kafka_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from support.broker.broker_process import BrokerProcess, checked_store
from support.broker.cluster_clients import until
from support.groups.group_load import GROUP, PARTITIONS, SECONDS, TOPIC, Load
from support.groups.reading_members import (
    QUIET,
    GoReadingMember,
    JavaReadingMember,
    Member,
    ReadingMember,
    owned_twice,
)
from support.kafka.kafka_oracles import or_skip
from support.processes.tried import RecordTried

OF_CONSUMER_PROTOCOL = 1
ROUNDS = 2
pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.timeout(600)]


def member_types(servers: str) -> dict[str, int]:
    """By client id, as the coordinator describes them."""
    with Cluster(parse_bootstrap(servers), SystemClock(), system_randomness()) as cluster:
        (node,) = cluster.patiently(lambda: list(cluster.coordinators_of([GROUP])))
        request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
        (group,) = cluster.broker(node).call(request, ConsumerGroupDescribeResponse).groups
        return {each.client_id: each.member_type for each in group.members}


@pytest.mark.nightly(tried="members of three clients")
def test_ng24_members_of_three_clients_share_a_group_under_load(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """No partition has two owners, no committed offset goes back, and each record is read once: each client commits
    what it has read before it gives a partition up."""
    try:
        franz_go_member()
    except GoUnavailable as reason:
        pytest.skip(str(reason))
    with BrokerProcess(tmp_path / "store") as broker, ExitStack() as stack:
        servers = broker.bootstrap_servers
        java = stack.enter_context(or_skip(lambda: running_java_clients(servers)))
        clients: dict[str, Callable[[str], Member]] = {
            "java": lambda name: JavaReadingMember(java, TOPIC, GROUP, name),
            "librdkafka": lambda name: ReadingMember(servers, TOPIC, GROUP, name),
            "franz-go": lambda name: GoReadingMember(servers, TOPIC, GROUP, name),
        }
        admin = AdminClient({"bootstrap.servers": servers, **QUIET})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(SECONDS)
        alive: dict[str, Member] = {}
        everybody: list[Member] = []
        stack.callback(lambda: [each.end() for each in alive.values()])

        def comes(client: str) -> None:
            alive[client] = clients[client](f"{client}-{len(everybody)}")
            everybody.append(alive[client])
            until(
                lambda: all(each.owned for each in alive.values()),
                f"partitions of all with {client}",
                SECONDS,
            )

        load = Load(servers)
        with load.running():
            for client in clients:
                comes(client)
            types = member_types(servers)
            assert types == {each.name: OF_CONSUMER_PROTOCOL for each in everybody}
            for client in [*clients] * ROUNDS:
                time.sleep(2)
                alive.pop(client).end()
                until(
                    lambda: sum(len(each.owned) for each in alive.values()) == PARTITIONS,
                    "all for two",
                    SECONDS,
                )
                comes(client)
        counts: Counter[tuple[int, int]] = Counter()

        def read() -> Counter[tuple[int, int]]:
            counts.clear()
            counts.update(record for member in everybody for record in member.records)
            return counts

        until(lambda: load.everything <= read().keys(), "all records", SECONDS)
        while alive:
            alive.popitem()[1].end()
        load.look()
        assert owned_twice(everybody) == []
        assert load.went_back == []
        assert {record: count for record, count in read().items() if count > 1} == {}
        assert load.offsets == Counter(partition for partition, _ in load.everything)
        assert load.kinds == ["CONSUMER"]
        assert "Traceback" not in broker.log
        record_tried("members of three clients", len(everybody))
        record_tried("records", load.produced)
    checked_store(tmp_path / "store")
