"""Makes the credentials of a password, each with a salt of its own. Nothing else of the password is kept."""

from collections.abc import Iterable

from siltstone.foundation.scram import keys_of, salted_password
from siltstone.metadata.users import ScramCredential
from siltstone.model.access import ScramMechanism
from siltstone.model.secret import Secret
from siltstone.runtime.randomness import Random

SALT_BITS = 160
"""As many bytes as the salts of users that do not exist, so that neither stands out: ``broker.security.made_up``."""


def credentials_of(
    password: Secret, mechanisms: Iterable[ScramMechanism], rounds: int, rng: Random
) -> tuple[ScramCredential, ...]:
    """Returns a credential for each mechanism. Takes some milliseconds for each."""
    return tuple(_credential(password, mechanism, rounds, rng) for mechanism in mechanisms)


def _credential(password: Secret, mechanism: ScramMechanism, rounds: int, rng: Random) -> ScramCredential:
    salt = rng.getrandbits(SALT_BITS).to_bytes(SALT_BITS // 8, "big")
    salted = salted_password(mechanism.algorithm, password.revealed().encode(), salt, rounds)
    keys = keys_of(mechanism.algorithm, salted)
    return ScramCredential(mechanism, salt, keys.stored_key, keys.server_key, rounds)
