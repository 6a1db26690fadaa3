"""Decides the commands about authorization: which bindings are allowed, and when a store may switch it on.

What is checked here is what Kafka's AclControlManager and AclApis check of a new binding.
"""

from siltstone.metadata.acls import CreateAcls, DeleteAcls, SetAuthorization
from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import AclsCreated, AclsDeleted, AuthorizationSet
from siltstone.metadata.refusals import AclNotAllowed, NoSuperUser, TooManyAcls
from siltstone.model.acls import (
    CLUSTER_NAME,
    EVERYBODY,
    AclBinding,
    AclOperation,
    AclResourceType,
    Authorization,
    AuthorizationMode,
    PatternType,
    Permission,
)
from siltstone.model.serving_limits import (
    ACL_TEXT_BYTES_MAX,
    ACLS_CREATED_AT_ONCE_MAX,
    ACLS_DELETED_AT_ONCE_MAX,
    ACLS_MAX,
    SUPER_USERS_MAX,
)


def decide_create_acls(view: ImageView, command: CreateAcls, now_ms: int) -> Decision[None]:
    if len(command.bindings) > ACLS_CREATED_AT_ONCE_MAX:
        raise TooManyAcls(
            f"{len(command.bindings):,} ACLs in one command: add at most {ACLS_CREATED_AT_ONCE_MAX:,} at a time"
        )
    for binding in command.bindings:
        check_binding(binding)
    new = tuple(each for each in dict.fromkeys(command.bindings) if each.key not in view.acls)
    if len(view.acls) + len(new) > ACLS_MAX:
        raise TooManyAcls(
            f"the store would have more than {ACLS_MAX:,} ACLs: remove some, or use prefixes (--prefixed)"
        )
    return Decision((AclsCreated(new),) if new else (), None)


def decide_delete_acls(view: ImageView, command: DeleteAcls, now_ms: int) -> Decision[tuple[AclBinding, ...]]:
    if len(command.bindings) > ACLS_DELETED_AT_ONCE_MAX:
        raise TooManyAcls(
            f"{len(command.bindings):,} ACLs in one command: delete at most {ACLS_DELETED_AT_ONCE_MAX:,} at a time"
        )
    standing = tuple(each for each in dict.fromkeys(command.bindings) if each.key in view.acls)
    return Decision((AclsDeleted(standing),) if standing else (), standing)


def decide_set_authorization(
    view: ImageView, command: SetAuthorization, now_ms: int
) -> Decision[Authorization]:
    before = view.authorization
    for principal in command.added:
        check_principal(principal)
        if principal == EVERYBODY:
            raise AclNotAllowed(f"{EVERYBODY} cannot be a super user: name one user")
    mode = before.mode if command.mode is None else command.mode
    super_users = tuple(sorted({*before.super_users, *command.added} - set(command.removed)))
    if len(super_users) > SUPER_USERS_MAX:
        raise TooManyAcls(f"the store would have more than {SUPER_USERS_MAX} super users: use ACLs instead")
    if mode is AuthorizationMode.ON and not super_users:
        raise NoSuperUser(
            "authorization cannot be on without a super user, because nobody could change an ACL any more: name one "
            "(siltstone authorization on --super-user User:NAME), or switch it off first"
        )
    after = Authorization(mode, super_users)
    return Decision((AuthorizationSet(after.mode, after.super_users),) if after != before else (), after)


def check_binding(binding: AclBinding) -> None:
    """Raises AclNotAllowed."""
    if binding.resource_type in (AclResourceType.UNKNOWN, AclResourceType.ANY):
        raise AclNotAllowed("the ACL has no resource type: name a topic, a group, the cluster or another one")
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise AclNotAllowed("the pattern type of the ACL is neither LITERAL nor PREFIXED")
    if binding.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise AclNotAllowed("the ACL has no operation: name READ, WRITE, ALL or another one")
    if binding.permission not in (Permission.ALLOW, Permission.DENY):
        raise AclNotAllowed("the ACL neither allows nor denies: its permission has to be ALLOW or DENY")
    if not binding.name:
        raise AclNotAllowed("the name of the resource is empty: write * for every resource of the type")
    if binding.resource_type is AclResourceType.CLUSTER and binding.name != CLUSTER_NAME:
        raise AclNotAllowed(f"the only resource of type CLUSTER has the name {CLUSTER_NAME}")
    for text in (binding.name, binding.host):
        _check_text(text)
    check_principal(binding.principal)


def check_principal(principal: str) -> None:
    """Raises AclNotAllowed."""
    _check_text(principal)
    kind, colon, name = principal.partition(":")
    if not colon or not kind or not name:
        raise AclNotAllowed(
            f"{principal[:200]!r} is no principal: write its type, a colon and its name, such as User:ada"
        )


def _check_text(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise AclNotAllowed("a text of the ACL is no Unicode text: write it in UTF-8") from None
    if size > ACL_TEXT_BYTES_MAX or "\0" in text:
        raise AclNotAllowed(
            f"a text of the ACL has more than {ACL_TEXT_BYTES_MAX} bytes, or a character of number 0: shorten it"
        )
