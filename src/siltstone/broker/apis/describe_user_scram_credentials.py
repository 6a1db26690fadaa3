"""DescribeUserScramCredentials: which users log in by SCRAM, with mechanisms and rounds, without passwords."""

from collections import Counter

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from siltstone.metadata.users import ScramUser
from siltstone.runtime.turns import in_turns


async def handle_describe_user_scram_credentials(
    parts: BrokerParts, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """A request without names asks for all users that have credentials."""
    users = parts.metadata.image.users
    named = Counter(each.name for each in request.users or []) or Counter(sorted(users))
    results = await in_turns(lambda row: _result(row[0], row[1], users.get(row[0])), named.items())
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _result(name: str, count: int, user: ScramUser | None) -> DescribeUserScramCredentialsResult:
    """Answers for one user. A user that is named twice, or does not exist, has an error of its own, and the others are
    described all the same."""
    if count > 1:
        code, words = ErrorCode.DUPLICATE_RESOURCE, f"the request names user {name} {count} times"
    elif user is None:
        code, words = ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {name} with a credential for SCRAM"
    else:
        infos = [
            CredentialInfo(mechanism=each.mechanism, iterations=each.rounds) for each in user.credentials
        ]
        return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=words)
