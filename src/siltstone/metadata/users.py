"""Defines the users of a store, with the credentials of their passwords, and the commands that change them.

A credential holds what SCRAM keeps of a password: nobody can log in with it. It is still never shown, because a weak
password can be guessed from it. A user is the set of its credentials, so one without credentials does not exist, as in
Kafka.
"""

import msgspec

from siltstone.metadata.commands import Command
from siltstone.model.access import ScramMechanism


class ScramCredential(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is kept of one password for one mechanism."""

    mechanism: ScramMechanism
    salt: bytes
    stored_key: bytes
    server_key: bytes
    rounds: int

    def __repr__(self) -> str:
        """Shows no key and no salt."""
        return f"ScramCredential({self.mechanism.written}, rounds={self.rounds})"


class ScramUser(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """``credentials`` are sorted by mechanism, one for each."""

    name: str
    credentials: tuple[ScramCredential, ...]

    def credential(self, mechanism: ScramMechanism) -> ScramCredential | None:
        return next((each for each in self.credentials if each.mechanism is mechanism), None)


class AlterUsers(Command[tuple[str, ...]], frozen=True):
    """→ the names of users in ``removals`` who lack the credential, sorted; nothing of theirs is changed. Removes
    credentials, then sets others. A user whose last credential is removed is gone, and its sessions end.

    ``must_exist`` True: every user named has to exist, False: none may exist; refused with UserNotExist or UserExists.
    """

    removals: tuple[tuple[str, ScramMechanism], ...] = ()
    credentials: tuple[tuple[str, ScramCredential], ...] = ()
    must_exist: bool | None = None

    def __repr__(self) -> str:
        """Shows no credential."""
        named = sorted({name for name, _ in (*self.removals, *self.credentials)})
        return f"AlterUsers({', '.join(named)})"


class EndSessions(Command[None], frozen=True):
    """→ None. Ends all sessions of a principal, such as ``User:ada``, that began before, on every node. It may log in
    again."""

    principal: str
