"""What the tests of a coordinator share."""

import asyncio
from typing import Any

from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.group_client import (
    commit_request,
)
from support.groups.groups_world import GroupsWorld

SMALL = GroupSettings(group_initial_rebalance_delay_ms=0, checkpoint_records_min=10, checkpoint_live_factor=2)


def code_of(task: "asyncio.Task[Any]") -> ErrorCode:
    return ErrorCode(task.result().topics[0].partitions[0].error_code)


async def commit(world: GroupsWorld, offset: int, **changes: Any) -> "asyncio.Task[Any]":
    return await world.begin(commit_request(offset, **changes), 8)


def statistics(world: GroupsWorld) -> Any:
    (coordinator,) = world.groups.statistics.coordinators
    return coordinator
