"""Users for tests: credentials made of passwords, with few rounds or with as many as a store takes."""

from siltstone.foundation.scram import keys_of, salted_password
from siltstone.metadata.users import AlterUsers, ScramCredential
from siltstone.model.access import ScramMechanism

SALT = b"0123456789abcdef0123"


def credential(password: str, mechanism: ScramMechanism, rounds: int = 4096) -> ScramCredential:
    salted = salted_password(mechanism.algorithm, password.encode(), SALT, rounds)
    keys = keys_of(mechanism.algorithm, salted)
    return ScramCredential(mechanism, SALT, keys.stored_key, keys.server_key, rounds)


def users_command(**passwords: str) -> AlterUsers:
    """Both mechanisms for each user: name → password."""
    return AlterUsers(
        credentials=tuple(
            (name, credential(password, mechanism))
            for name, password in passwords.items()
            for mechanism in ScramMechanism
        )
    )
