"""The credentials of users that do not exist, made of the store's own secret, so that logins do not tell who exists.

The salt of a name is the same each time, on every node and after every start, as that of a user is; nobody without the
secret can tell that it is none. No proof fits the keys.
"""

import hmac
from collections.abc import Mapping

from siltstone.metadata.users import ScramCredential, ScramUser
from siltstone.model.access import ScramMechanism
from siltstone.model.serving_limits import SCRAM_ROUNDS

SALT_SECRET_KEY = "security/salt-secret"  # noqa: S105  the name of a key
"""The key of the metadata under which the secret is. It is never changed: other salts would tell who does not exist."""

SALT_SECRET_BITS = 256
SALT_BYTES = 20
_ROUNDS_LOOKED_AT = 16


class MadeUpCredentials:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, name: str, mechanism: ScramMechanism, users: Mapping[str, ScramUser]) -> ScramCredential:
        """Returns the credential of a name without one. Its count of rounds is one that real users have."""
        return ScramCredential(
            mechanism,
            self._made("salt", name, mechanism)[:SALT_BYTES],
            self._made("stored", name, mechanism),
            self._made("server", name, mechanism),
            self._rounds(name, mechanism, users),
        )

    def _made(self, label: str, name: str, mechanism: ScramMechanism) -> bytes:
        said = f"{label}\0{mechanism.written}\0{name}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, said, mechanism.algorithm)

    def _rounds(self, name: str, mechanism: ScramMechanism, users: Mapping[str, ScramUser]) -> int:
        """One of the counts of a few users, which the name chooses; so none stands out."""
        counts = [
            credential.rounds
            for _, user in zip(range(_ROUNDS_LOOKED_AT), users.values(), strict=False)
            for credential in user.credentials
            if credential.mechanism is mechanism
        ]
        if not counts:
            return SCRAM_ROUNDS
        chosen = int.from_bytes(self._made("rounds", name, mechanism)[:4], "big")
        return sorted(counts)[chosen % len(counts)]
