import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from support.broker.broker_world import in_broker_world
from support.scenarios import scenario


@pytest.mark.parametrize("users", [None, []])
@scenario(in_broker_world)
async def test_no_user_has_credentials(world, users) -> None:
    answer = await world.client().ask(DescribeUserScramCredentialsRequest(users=users))
    assert (answer.error_code, answer.error_message, answer.results) == (0, None, [])


@scenario(in_broker_world)
async def test_users_that_are_named(world) -> None:
    users = [UserName(name=name) for name in ("me", "you", "you")]
    answer = await world.client().ask(DescribeUserScramCredentialsRequest(users=users))
    assert [(each.user, each.error_code) for each in answer.results] == [
        ("me", ErrorCode.RESOURCE_NOT_FOUND),
        ("you", ErrorCode.DUPLICATE_RESOURCE),
    ]
    assert not any(each.credential_infos for each in answer.results)
