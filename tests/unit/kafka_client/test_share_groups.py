"""``siltstone groups`` with a share group: members, start offsets and lag, and a reset."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.kafka_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from support.broker.in_process import InProcessBroker, broker_in_process
from support.groups.share_client import ACCEPT, REJECT, RELEASE, SHARES, ShareClient, shared_topic


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[InProcessBroker]:
    with broker_in_process(tmp_path / "store") as started:
        yield started


def beat(broker: InProcessBroker, epoch: int) -> None:
    request = ShareGroupHeartbeatRequest(
        group_id=SHARES, member_id="worker-1", member_epoch=epoch, subscribed_topic_names=["t"]
    )
    assert broker.wait(broker.world.client().ask(request)).error_code == 0


@pytest.fixture
def shared(broker: InProcessBroker) -> InProcessBroker:
    """The group has accepted 4 of 10 records."""
    topic = broker.wait(shared_topic(broker.world, records=10))
    beat(broker, 0)
    member = ShareClient(broker.world, topic)
    broker.wait(member.fetch())
    assert broker.wait(member.acknowledge((0, 3, [ACCEPT]))) == 0
    return broker


def test_a_share_group_is_listed_and_described(shared: InProcessBroker) -> None:
    (row,) = shared.siltstone("groups", "--json").json["groups"]
    assert (row["group"], row["state"], row["members"], row["lag"]) == (SHARES, "Stable", 1, 6)
    told = shared.siltstone("groups", "describe", SHARES, "--json").json
    assert (told["protocol"], told["assignor"], told["members"][0]["member"]) == (
        "share",
        "simple",
        "worker-1",
    )
    (partition,) = told["partitions"]
    assert (partition["committed_offset"], partition["lag"]) == (4, 6)
    shown = shared.siltstone("groups", "describe", SHARES).out
    assert "share (KIP-932)" in shown and "worker-1" in shown and "t-0" in shown


def test_what_a_share_group_has_in_flight_is_described(broker: InProcessBroker) -> None:
    topic = broker.wait(shared_topic(broker.world, records=10))
    beat(broker, 0)
    one, two = ShareClient(broker.world, topic, "one"), ShareClient(broker.world, topic, "two")
    assert broker.wait(one.fetch(share_acquire_mode=1, max_records=9)) == [(0, 8, 1)]
    assert broker.wait(one.acknowledge((0, 0, [ACCEPT]), (3, 4, [ACCEPT]), (5, 7, [REJECT]))) == 0
    (partition,) = broker.siltstone("groups", "describe", SHARES, "--json").json["partitions"]
    assert (partition["committed_offset"], partition["lag"]) == (1, 4)
    assert broker.siltstone("groups", "--json").json["groups"][0]["lag"] == 4
    assert partition["in_flight"] == {
        "acquired": 3, "available": 0, "acknowledged": 2, "archived": 3, "deliveries_max": 1,
    }  # fmt: skip
    assert broker.wait(one.acknowledge((1, 2, [RELEASE]))) == 0
    assert broker.wait(two.fetch(share_acquire_mode=1, max_records=1)) == [(1, 1, 2)]
    (partition,) = broker.siltstone("groups", "describe", SHARES, "--json").json["partitions"]
    assert partition["in_flight"] == {
        "acquired": 2, "available": 1, "acknowledged": 2, "archived": 3, "deliveries_max": 2,
    }  # fmt: skip
    shown = broker.siltstone("groups", "describe", SHARES).out.splitlines()
    assert [
        "topic",
        "partition",
        "start",
        "end",
        "lag",
        "acquired",
        "again",
        "accepted",
        "archived",
        "deliveries",
    ] in [line.split() for line in shown]
    assert ["t", "0", "1", "10", "4", "2", "1", "2", "3", "2"] in [line.split() for line in shown]


def test_a_partition_that_a_share_group_has_not_used_has_nothing_in_flight(broker: InProcessBroker) -> None:
    broker.wait(shared_topic(broker.world, records=1))
    beat(broker, 0)
    (partition,) = broker.siltstone("groups", "describe", SHARES, "--json").json["partitions"]
    assert "in_flight" not in partition
    shown = broker.siltstone("groups", "describe", SHARES).out.splitlines()
    assert ["t", "0", "-", "1", *"------"] in [line.split() for line in shown]


def test_a_share_group_without_members_is_reset(shared: InProcessBroker) -> None:
    words = ("groups", "reset", SHARES, "--topic", "t", "--to", "2", "--json")
    assert "stop them first" in shared.siltstone(*words).err
    beat(shared, -1)
    (row,) = shared.siltstone(*words).json["partitions"]
    assert (row["before"], row["after"]) == (4, 2)
    assert shared.siltstone("groups", "--json").json["groups"][0]["lag"] == 8
    assert shared.siltstone("groups", "delete", SHARES, "--yes").status == 0
    assert shared.siltstone("groups", "--json").json["groups"] == []
