"""CreateAcls, DescribeAcls and DeleteAcls: the bindings of the store. While the store has no authorization they are
refused, as by a broker of Kafka without an authorizer; ``siltstone acls`` works all the same.

Each creation and each filter is answered for itself: one that is wrong does not affect the others.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any, TypeVar

from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.security.acls.filters import found_by, why_unfit
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from siltstone.kafka_protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from siltstone.kafka_protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from siltstone.metadata.acls import CreateAcls, DeleteAcls
from siltstone.metadata.decisions.acls import check_binding
from siltstone.metadata.refusals import AclNotAllowed, TooManyAcls
from siltstone.model.acls import AclBinding, AclFilter, AclOperation, AclResourceType, PatternType, Permission
from siltstone.model.errors import SiltstoneError
from siltstone.model.serving_limits import ACLS_CREATED_AT_ONCE_MAX, ACLS_DELETED_AT_ONCE_MAX

E = TypeVar("E", AclOperation, PatternType, Permission, AclResourceType)

DISABLED: Mapping[str, Any] = {
    "error_code": ErrorCode.SECURITY_DISABLED,
    "error_message": "No authorizer is configured: every client may do everything (siltstone authorization)",
}


def _known(kind: type[E], number: int) -> E:
    """Returns UNKNOWN for a number that is none of Kafka's."""
    return kind(number) if number in kind.__members__.values() else kind(0)


def _refusal(failure: SiltstoneError) -> dict[str, Any]:
    return {"error_code": error_code(failure), "error_message": error_message(failure)}


async def handle_create_acls(
    parts: BrokerParts, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    if context.rights.is_open:
        return CreateAclsResponse(results=[AclCreationResult(**DISABLED) for _ in request.creations])
    bindings: list[AclBinding] = []
    refusals: list[SiltstoneError | None] = []
    for creation in request.creations:
        binding = _binding_of(creation)
        try:
            check_binding(binding)
        except AclNotAllowed as refusal:
            refusals.append(refusal)
        else:
            refusals.append(None)
            bindings.append(binding)
    failure: SiltstoneError | None = None
    if len(bindings) > ACLS_CREATED_AT_ONCE_MAX:
        failure = TooManyAcls(f"add at most {ACLS_CREATED_AT_ONCE_MAX:,} ACLs at a time")
    elif bindings:
        try:
            await parts.metadata.execute(CreateAcls(tuple(bindings)))
        except SiltstoneError as refusal:
            failure = refusal
    answered = [own or failure for own in refusals]
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_message=None) if each is None else AclCreationResult(**_refusal(each))
            for each in answered
        ]
    )


def _binding_of(creation: AclCreation) -> AclBinding:
    return AclBinding(
        _known(AclResourceType, creation.resource_type),
        _known(PatternType, creation.resource_pattern_type),
        creation.resource_name,
        creation.principal,
        creation.host,
        _known(AclOperation, creation.operation),
        _known(Permission, creation.permission_type),
    )


async def handle_describe_acls(
    parts: BrokerParts, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    if context.rights.is_open:
        return DescribeAclsResponse(**DISABLED)
    asked = _filter_of(request)
    if why := why_unfit(asked):
        return DescribeAclsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=why)
    found = found_by(asked, parts.metadata.image.acls.values())
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=kind,
                pattern_type=pattern,
                resource_name=name,
                acls=[
                    AclDescription(
                        principal=each.principal,
                        host=each.host,
                        operation=each.operation,
                        permission_type=each.permission,
                    )
                    for each in bindings
                ],
            )
            for (kind, pattern, name), bindings in groupby(
                found, lambda each: (each.resource_type, each.pattern_type, each.name)
            )
        ],
    )


def _filter_of(asked: Any) -> AclFilter:
    return AclFilter(
        _known(AclResourceType, asked.resource_type_filter),
        _known(PatternType, asked.pattern_type_filter),
        asked.resource_name_filter,
        asked.principal_filter,
        asked.host_filter,
        _known(AclOperation, asked.operation),
        _known(Permission, asked.permission_type),
    )


async def handle_delete_acls(
    parts: BrokerParts, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """A binding that several filters find is in the row of each, as in Kafka."""
    if context.rights.is_open:
        return DeleteAclsResponse(
            filter_results=[DeleteAclsFilterResult(**DISABLED) for _ in request.filters]
        )
    rows = [await _deleted(parts, _filter_of(each)) for each in request.filters]
    return DeleteAclsResponse(filter_results=rows)


async def _deleted(parts: BrokerParts, asked: AclFilter) -> DeleteAclsFilterResult:
    if why := why_unfit(asked):
        return DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=why)
    found = found_by(asked, parts.metadata.image.acls.values())
    if len(found) > ACLS_DELETED_AT_ONCE_MAX:
        return DeleteAclsFilterResult(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"the filter finds more than {ACLS_DELETED_AT_ONCE_MAX:,} ACLs: delete fewer at a time",
        )
    try:
        deleted = await parts.metadata.execute(DeleteAcls(tuple(found))) if found else ()
    except SiltstoneError as failure:
        return DeleteAclsFilterResult(**_refusal(failure))
    return DeleteAclsFilterResult(error_message=None, matching_acls=[_row(each) for each in deleted])


def _row(binding: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=binding.resource_type,
        resource_name=binding.name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )
