"""Decides the commands about users: what their names and credentials may be, and which records change them.

A command is decided as a whole or, where a credential that is to be removed does not exist, without that user.
"""

from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import Record, ScramCredentialRemoved, ScramCredentialSet, SessionsEnded
from siltstone.metadata.refusals import (
    CredentialNotAllowed,
    TooManyUsers,
    UserExists,
    UserNameNotAllowed,
    UserNotExist,
)
from siltstone.metadata.users import AlterUsers, EndSessions, ScramCredential
from siltstone.model.access import RESERVED_USERS
from siltstone.model.serving_limits import (
    SCRAM_ROUNDS_MAX,
    SCRAM_ROUNDS_MIN,
    USER_NAME_BYTES_MAX,
    USERS_MAX,
)


def decide_alter_users(view: ImageView, command: AlterUsers, now_ms: int) -> Decision[tuple[str, ...]]:
    if command.must_exist is not None:
        for name, _ in (*command.removals, *command.credentials):
            check_existence(view, name, must_exist=command.must_exist)
    missing = {
        name
        for name, mechanism in command.removals
        if (user := view.users.get(name)) is None or user.credential(mechanism) is None
    }
    for name, credential in command.credentials:
        check_name(name)
        check_credential(name, credential)
    set_after = {(name, each.mechanism) for name, each in command.credentials}
    records: list[Record] = [
        ScramCredentialRemoved(name, mechanism)
        for name, mechanism in dict.fromkeys(command.removals)
        if name not in missing and (name, mechanism) not in set_after
    ]
    for name, credential in command.credentials:
        user = view.users.get(name)
        if name not in missing and (user is None or user.credential(credential.mechanism) != credential):
            records.append(_set(name, credential))
    new = {name for name, _ in command.credentials if name not in view.users}
    if len(view.users) + len(new) > USERS_MAX:
        raise TooManyUsers(f"the store would have more than {USERS_MAX} users: remove some first")
    # A user who changes from one mechanism to the other is at no moment without any, which would end its sessions.
    records.sort(key=lambda each: isinstance(each, ScramCredentialRemoved))
    return Decision(tuple(records), tuple(sorted(missing)))


def check_existence(view: ImageView, name: str, *, must_exist: bool) -> None:
    """Raises UserNotExist, UserExists."""
    if must_exist and name not in view.users:
        raise UserNotExist(f"there is no user {name}: siltstone users lists them")
    if not must_exist and name in view.users:
        raise UserExists(
            f"there is a user {name} already: change its password with siltstone users password {name}"
        )


def check_name(name: str) -> None:
    """Raises UserNameNotAllowed."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= USER_NAME_BYTES_MAX or not name.isprintable() or name != name.strip():
        raise UserNameNotAllowed(
            f"a name of a user has 1 to {USER_NAME_BYTES_MAX} bytes of UTF-8, and no control characters or blanks at "
            "its ends"
        )
    if name.startswith(RESERVED_USERS):
        raise UserNameNotAllowed(
            f"{name} cannot be the name of a user: names that begin with {RESERVED_USERS} are those of nodes"
        )


def check_credential(name: str, credential: ScramCredential) -> None:
    """Raises CredentialNotAllowed."""
    if not SCRAM_ROUNDS_MIN <= credential.rounds <= SCRAM_ROUNDS_MAX:
        raise CredentialNotAllowed(
            f"a credential of {name} has {credential.rounds} rounds (iterations): {SCRAM_ROUNDS_MIN} to "
            f"{SCRAM_ROUNDS_MAX} are allowed"
        )
    key_bytes = credential.mechanism.key_bytes
    if not credential.salt or {len(credential.stored_key), len(credential.server_key)} != {key_bytes}:
        raise CredentialNotAllowed(
            f"a credential of {name} has no salt, or keys of another length than {key_bytes} bytes: make it with the "
            f"hash function of {credential.mechanism.written}"
        )


def _set(name: str, credential: ScramCredential) -> ScramCredentialSet:
    return ScramCredentialSet(
        name, credential.mechanism, credential.salt, credential.stored_key, credential.server_key,
        credential.rounds,
    )  # fmt: skip


def decide_end_sessions(view: ImageView, command: EndSessions, now_ms: int) -> Decision[None]:
    return Decision((SessionsEnded(command.principal),), None)
