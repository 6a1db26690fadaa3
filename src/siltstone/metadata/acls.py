"""Defines the commands that change who may do what: the bindings of a store, its mode and its super users.

They are records of the metadata log, and no setting of a node, so all nodes know a change a moment later, and no wrong
file of one node is a hole. Decided in ``decisions.acls``; the nouns are in ``model.acls``.

Their records are applied here, too. A binding that is created twice, or deleted while it is absent, contradicts the
image: one that is lost unseen would be a permission, or a denial, that nobody knows of (CVE-2024-27309).
"""

from collections.abc import Callable, Mapping
from typing import Any

from siltstone.metadata.commands import Command
from siltstone.metadata.image import ImageDraft
from siltstone.metadata.records import AclsCreated, AclsDeleted, AuthorizationSet, Record
from siltstone.model.acls import AclBinding, Authorization, AuthorizationMode


class CreateAcls(Command[None], frozen=True):
    """→ None. Adds bindings; one that the store has already is no change. Refused with AclNotAllowed, TooManyAcls.
    Idempotent."""

    bindings: tuple[AclBinding, ...]


class DeleteAcls(Command[tuple[AclBinding, ...]], frozen=True):
    """→ the bindings that were deleted. Bindings that the store does not have are skipped. Refused with TooManyAcls."""

    bindings: tuple[AclBinding, ...]


class SetAuthorization(Command[Authorization], frozen=True):
    """→ Authorization, after the command. Sets the mode, None keeps it, and changes the super users. Refused with
    NoSuperUser when the mode is ON without any, and with AclNotAllowed for what is no principal. Idempotent."""

    mode: AuthorizationMode | None = None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


# -- applying ------------------------------------------------------------------------------------------------


def _acls_created(draft: ImageDraft, record: AclsCreated) -> None:
    for binding in record.bindings:
        assert binding.key not in draft.acls, f"the ACL exists already: {binding}"
        draft.acls[binding.key] = binding


def _acls_deleted(draft: ImageDraft, record: AclsDeleted) -> None:
    for binding in record.bindings:
        del draft.acls[binding.key]


def _authorization_set(draft: ImageDraft, record: AuthorizationSet) -> None:
    draft.authorization = Authorization(record.mode, record.super_users)


ACL_APPLIERS: Mapping[type[Record], Callable[[ImageDraft, Any], None]] = {
    AclsCreated: _acls_created,
    AclsDeleted: _acls_deleted,
    AuthorizationSet: _authorization_set,
}
