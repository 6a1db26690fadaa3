"""Defines the commands that change who may do what: the bindings of a store, its mode and its super users.

They are records of the metadata log, and no setting of a node, so all nodes know a change a moment later, and no wrong
file of one node is a hole. Decided in ``decisions.acls``; the nouns are in ``model.acls``.
"""

from siltstone.metadata.commands import Command
from siltstone.model.acls import AclBinding, Authorization, AuthorizationMode


class CreateAcls(Command[None], frozen=True):
    """→ None. Adds bindings; those that the store has already are no change. Refused with AclNotAllowed, TooManyAcls.
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
