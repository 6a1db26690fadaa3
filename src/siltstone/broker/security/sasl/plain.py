"""The server's side of PLAIN (RFC 4616): one message with the password, which is compared with the user's SCRAM key.

    authzid NUL user NUL password

No password is kept as text anywhere, here neither: what comes out is a claim with a ``Secret``, and a check that takes
milliseconds, which the caller makes in a thread. Read also: ``scram``.
"""

import hmac

import msgspec

from siltstone.foundation.scram import keys_of, salted_password
from siltstone.metadata.users import ScramCredential
from siltstone.model.errors import InvalidRequest
from siltstone.model.secret import Secret
from siltstone.model.serving_limits import USER_NAME_BYTES_MAX

PASSWORD_BYTES_MAX = 4_096


class TokenRefused(InvalidRequest):
    """The bytes of a login are refused; the text is for our log, and says nothing that is secret."""


class PasswordClaim(msgspec.Struct, frozen=True):
    """A client says that this is the password of the user."""

    user: str
    password: Secret


def password_claim(token: bytes) -> PasswordClaim:
    """Raises TokenRefused."""
    parts = token.split(b"\0")
    if len(parts) != 3:
        raise TokenRefused("a message of PLAIN has three parts")
    try:
        authzid, user, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise TokenRefused("it is not UTF-8") from None
    if not user or not password:
        raise TokenRefused("the name or the password is empty")
    if len(parts[1]) > USER_NAME_BYTES_MAX or len(parts[2]) > PASSWORD_BYTES_MAX:
        raise TokenRefused("the name or the password is too long")
    if authzid not in ("", user):
        raise TokenRefused("it asks to act for another user")
    return PasswordClaim(user, Secret(password))


def is_password(password: Secret, credential: ScramCredential) -> bool:
    """Takes milliseconds: as many rounds as a client of SCRAM makes."""
    algorithm = credential.mechanism.algorithm
    salted = salted_password(algorithm, password.revealed().encode(), credential.salt, credential.rounds)
    return hmac.compare_digest(keys_of(algorithm, salted).stored_key, credential.stored_key)
