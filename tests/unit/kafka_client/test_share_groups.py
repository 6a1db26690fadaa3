"""``siltstone groups`` with a share group: members, start offsets and lag, and a reset."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.kafka_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from support.broker.in_process import InProcessBroker, broker_in_process
from support.groups.share_client import ACCEPT, SHARES, ShareClient, shared_topic


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


def test_a_share_group_without_members_is_reset(shared: InProcessBroker) -> None:
    words = ("groups", "reset", SHARES, "--topic", "t", "--to", "2", "--json")
    assert "stop them first" in shared.siltstone(*words).err
    beat(shared, -1)
    (row,) = shared.siltstone(*words).json["partitions"]
    assert (row["before"], row["after"]) == (4, 2)
    assert shared.siltstone("groups", "--json").json["groups"][0]["lag"] == 8
    assert shared.siltstone("groups", "delete", SHARES, "--yes").status == 0
    assert shared.siltstone("groups", "--json").json["groups"] == []
