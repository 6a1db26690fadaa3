import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_acls import DescribeAclsRequest
from support.broker.broker_world import in_broker_world


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_there_are_no_acls_to_describe(version):
    async def scenario(world):
        request = DescribeAclsRequest(resource_type_filter=2, operation=1, permission_type=1)
        answer = await world.client().ask(request, version)
        assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, [])
        assert answer.error_message.startswith("No authorizer is configured")

    in_broker_world(scenario)
