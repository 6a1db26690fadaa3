"""Rule 7 for every command that names a node: under an epoch that is not the newest nothing is written."""

import pytest

from siltstone.metadata.commands import (
    CloseStream,
    CreateStream,
    DeleteStream,
    OpenStream,
    PrepareObjects,
    RegisterNode,
    TrimStream,
)
from support.metadata.metadata_world import HOUR_MS, MetadataWorld

# Node 0 has epoch 2. Stream 0 is open, stream 1 closed, both node 0's at epoch 0: nothing else forbids these.
COMMANDS = {
    "create": lambda epoch: CreateStream(0, epoch),
    "open": lambda epoch: OpenStream(0, epoch, 1, 1),
    "reopen": lambda epoch: OpenStream(0, epoch, 0, 0),
    "trim": lambda epoch: TrimStream(0, epoch, 0, 0, 10),
    "close": lambda epoch: CloseStream(0, epoch, 0, 0),
    "delete": lambda epoch: DeleteStream(0, epoch, 1, 0),
    "prepare": lambda epoch: PrepareObjects(1, HOUR_MS, node_id=0, node_epoch=epoch),
}


@pytest.fixture
def world() -> MetadataWorld:
    made = MetadataWorld()
    made.register(0)
    made.open_stream()
    made.do(CloseStream(0, 1, made.open_stream(), 0))
    made.do(made.upload((0, 0, 100)))
    made.register(0, "second")
    return made


@pytest.mark.parametrize("name", COMMANDS)
def test_rule_7_only_the_newest_node_epoch_writes(world, name) -> None:
    command = COMMANDS[name]
    assert world.outcome(command(1)) == ("NODE_EPOCH_EXPIRED", 0)
    assert world.outcome(command(3)) == ("NODE_EPOCH_NOT_EXIST", 0)
    assert world.outcome(command(2))[0] == "OK"


@pytest.mark.parametrize("name", COMMANDS)
def test_rule_7_a_node_that_is_failed_over_writes_nothing(world, name) -> None:
    world.do(RegisterNode(0, "replayer", "elsewhere", failover=True))
    assert world.outcome(COMMANDS[name](2)) == ("NODE_FENCED", 0)
