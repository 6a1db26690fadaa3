"""``siltstone acls``: lists the ACLs of a store, adds and removes them, and says who may do something.

The commands work on the store's metadata, so they need no broker and no right. Brokers that run know a change after a
fifth of a second.
"""

from collections.abc import Sequence

import click
import msgspec

from siltstone.broker.security.acls.filters import found_by
from siltstone.broker.security.acls.matching import AclIndex, Caller, denies
from siltstone.cli.acls.options import (
    Resource,
    needed,
    operation_choice,
    operation_of,
    principal_of,
    resource_options,
)
from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, remarks, result, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell
from siltstone.metadata.acls import CreateAcls, DeleteAcls
from siltstone.metadata.decisions.acls import check_binding
from siltstone.metadata.image import ImageView
from siltstone.metadata.refusals import AclNotAllowed
from siltstone.model.acls import (
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    AclResourceType,
    AuthorizationMode,
    PatternType,
    Permission,
)
from siltstone.model.errors import InvalidRequest

principal_option = click.option("--principal", metavar="NAME", help="Those of this principal.")


class AclUnfit(InvalidRequest):
    """The command line describes an ACL that no store may have."""


class AclRow(msgspec.Struct, frozen=True):
    permission: str
    principal: str
    host: str
    operation: str
    resource: str
    name: str
    pattern: str


def acl_row(binding: AclBinding) -> AclRow:
    return AclRow(
        binding.permission.name.lower(),
        binding.principal,
        binding.host,
        binding.operation.name.lower(),
        binding.resource_type.name.lower(),
        binding.name,
        binding.pattern_type.name.lower(),
    )


@click.group(cls=InOrder, invoke_without_command=True)
@json_option
@store_options
@click.pass_context
def acls(context: click.Context, choice: StoreChoice, as_json: bool) -> None:
    """List the ACLs of a store; add or remove some, or ask who may do something.

    They count while authorization is on: see siltstone authorization.
    """
    if context.invoked_subcommand is None:
        list_acls(choice, AclFilter(), as_json)


@acls.command("list")
@principal_option
@resource_options
@json_option
@store_options
def list_(choice: StoreChoice, principal: str | None, resource: Resource | None, as_json: bool) -> None:
    """List the ACLs of a store: all, the ones of a principal, or the ones for a resource."""
    list_acls(choice, _filter(resource, principal, pattern_type=PatternType.MATCH), as_json)


def _filter(
    resource: Resource | None,
    principal: str | None,
    operation: str | None = None,
    *,
    pattern_type: PatternType,
) -> AclFilter:
    """``pattern_type``: how a whole name is compared."""
    prefixed = resource is not None and resource.pattern_type is PatternType.PREFIXED
    return AclFilter(
        resource_type=AclResourceType.ANY if resource is None else resource.resource_type,
        pattern_type=PatternType.PREFIXED if prefixed else pattern_type,
        name=None if resource is None else resource.name,
        principal=None if principal is None else principal_of(principal),
        operation=AclOperation.ANY if operation is None else operation_of(operation),
    )


def list_acls(choice: StoreChoice, asked: AclFilter, as_json: bool) -> None:
    with choice.open() as store:
        image = store.metadata.image
        found = found_by(asked, image.acls.values())
        mode = image.authorization.mode
    if as_json:
        print_json({"acls": [acl_row(each) for each in found]})
        return
    if found:
        results().print(_shown(found))
    else:
        results().print("There are no such ACLs; siltstone acls add makes one.")
    if mode is not AuthorizationMode.ON:
        remarks().print(f"Authorization of this store is {mode}, so every client may do everything.")


def _shown(bindings: Sequence[AclBinding]) -> object:
    shown = table("", "principal", "host", "operation", "resource")
    for each in bindings:
        row = acl_row(each)
        prefix = f"{row.name}…" if each.pattern_type is PatternType.PREFIXED else row.name
        shown.add_row(
            row.permission,
            cell(row.principal),
            cell(row.host),
            row.operation,
            cell(f"{row.resource} {prefix}"),
        )
    return shown


@acls.command()
@click.argument("principal", metavar="PRINCIPAL")
@click.argument("operations", metavar="OPERATION...", nargs=-1, required=True, type=operation_choice)
@resource_options
@click.option("--deny", is_flag=True, help="Deny the operations; that goes before what is allowed.")
@click.option("--host", metavar="ADDRESS", default=WILDCARD, help="From this address only.")
@store_options
def add(
    choice: StoreChoice,
    principal: str,
    operations: Sequence[str],
    resource: Resource | None,
    deny: bool,
    host: str,
) -> None:
    """Allow a principal one or several operations on a resource.

    PRINCIPAL is a name such as ada or User:CN=svc-1,O=Acme; User:* is everybody. read, write, delete and alter include
    describe; alter_configs includes describe_configs; all is every operation.
    """
    on = needed(resource)
    bindings = tuple(
        AclBinding(
            on.resource_type,
            on.pattern_type,
            on.name,
            principal_of(principal),
            host,
            operation_of(each),
            Permission.DENY if deny else Permission.ALLOW,
        )
        for each in dict.fromkeys(operations)
    )
    for binding in bindings:
        try:
            check_binding(binding)
        except AclNotAllowed as refusal:
            raise AclUnfit(str(refusal)) from refusal
    with choice.open() as store:
        new = [each for each in bindings if each.key not in store.metadata.image.acls]
        store.metadata.execute(CreateAcls(bindings))
    result(f"{_count(len(new))} added." if new else "Nothing was added: the store has these ACLs already.")


def _count(number: int) -> str:
    return "1 ACL was" if number == 1 else f"{number:,} ACLs were"


@acls.command()
@principal_option
@click.option("--operation", metavar="OPERATION", type=operation_choice, help="Those of this operation.")
@resource_options
@yes_option
@store_options
def remove(
    choice: StoreChoice,
    principal: str | None,
    operation: str | None,
    resource: Resource | None,
    is_answered: bool,
) -> None:
    """Remove the ACLs of a principal, of an operation, or of the resource of exactly this name.

    If several are given, an ACL is removed for which all of them are true.

    Clients that may no longer do something are refused from then on, also in the middle of their work.
    """
    if principal is None and resource is None:
        raise click.UsageError("Write --principal or a resource; all ACLs at once are not removed.")
    asked = _filter(resource, principal, operation, pattern_type=PatternType.LITERAL)
    if resource is None:
        asked = msgspec.structs.replace(asked, pattern_type=PatternType.ANY)
    with choice.open() as store:
        found = found_by(asked, store.metadata.image.acls.values())
        if not found:
            result("Nothing was removed: there are no such ACLs.")
            return
        remarks().print(_shown(found))
        confirm(f"Remove {_count(len(found)).rsplit(' ', 1)[0]}?", is_answered=is_answered)
        removed = store.metadata.execute(DeleteAcls(tuple(found)))
    result(f"{_count(len(removed))} removed.")


class RightRow(msgspec.Struct, frozen=True):
    """``because``: the ACL that allows it, or that the principal is a super user."""

    principal: str
    host: str
    because: str


@acls.command("who-may")
@click.argument("operation", metavar="OPERATION", type=operation_choice)
@resource_options
@json_option
@store_options
def who_may(choice: StoreChoice, operation: str, resource: Resource | None, as_json: bool) -> None:
    """List who may do an operation on a resource, and by which ACL.

    User:* is everybody but the principals that are denied.
    """
    asked, on = operation_of(operation), needed(resource)
    with choice.open() as store:
        rows = who_rows(store.metadata.image, asked, on)
        fitting = AclIndex(store.metadata.image.acls.values()).fitting(on.resource_type, on.name)
        denied = sorted(each for each in fitting if denies(each, asked))
    if as_json:
        print_json({"who_may": rows, "denied": [acl_row(each) for each in denied]})
        return
    for each in denied:
        remarks().print(str(each), markup=False, soft_wrap=True)
    _show_who(rows)


def _show_who(rows: Sequence[RightRow]) -> None:
    if not rows:
        results().print("Nobody may, while authorization is on.")
        return
    shown = table("principal", "host", "because")
    for row in rows:
        shown.add_row(cell(row.principal), cell(row.host), cell(row.because))
    results().print(shown)


def who_rows(image: ImageView, operation: AclOperation, resource: Resource) -> list[RightRow]:
    super_users = image.authorization.super_users
    rows = [RightRow(each, WILDCARD, "super user") for each in super_users]
    index = AclIndex(image.acls.values())
    fitting = list(index.fitting(resource.resource_type, resource.name))
    for principal in sorted({each.principal for each in fitting} - {*super_users}):
        for host in sorted({each.host for each in fitting if each.principal == principal}):
            verdict = index.verdict(Caller(principal, host), operation, resource.resource_type, resource.name)
            if verdict.is_allowed and verdict.binding is not None:
                rows.append(RightRow(principal, host, str(verdict.binding)))
    return rows
