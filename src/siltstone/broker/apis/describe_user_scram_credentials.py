"""DescribeUserScramCredentials: no user has any, because clients are not authenticated. kafka-configs asks for them
together with the quotas of users."""

from collections import Counter

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from siltstone.runtime.turns import in_turns


async def handle_describe_user_scram_credentials(
    parts: BrokerParts, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """A request without names asks for all users that have credentials."""
    named = Counter(each.name for each in request.users or [])
    results = await in_turns(lambda row: _result(*row), named.items())
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _result(name: str, count: int) -> DescribeUserScramCredentialsResult:
    code = ErrorCode.DUPLICATE_RESOURCE if count > 1 else ErrorCode.RESOURCE_NOT_FOUND
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=None)
