"""DescribeAcls: refused as by a broker of Kafka without an authorizer, since there are no ACLs and everybody may do
everything."""

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


async def handle_describe_acls(
    parts: BrokerParts, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No authorizer is configured: this broker has no ACLs, and every client may do everything",
    )
