"""The server's side of SCRAM (RFC 5802), without I/O: two messages of the client, two answers.

    client  n,,n=ada,r=NONCE                 server  r=NONCE+OURS,s=SALT,i=ROUNDS
    client  c=biws,r=NONCE+OURS,p=PROOF      server  v=SIGNATURE

A user that does not exist has a credential, too, which the caller makes up: both go the same way to their end, so no
answer and no time tells which names exist. Every refusal has a reason for our log; the client gets none.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable

from siltstone.broker.security.sasl.plain import TokenRefused
from siltstone.foundation.scram import is_proof, server_signature
from siltstone.metadata.users import ScramCredential
from siltstone.model.access import ScramMechanism
from siltstone.model.serving_limits import USER_NAME_BYTES_MAX

NONCE_BYTES_MAX = 1_024
_PRINTABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
"""The characters of a nonce: printable ASCII without the comma."""

_ESCAPE = re.compile("=2C|=3D|=")
_ESCAPED = {"=2C": ",", "=3D": "="}


class ScramExchange:
    """One login. ``credential_of`` returns the credential of a name, real or made up. ``nonce``: our half of the nonce,
    of 130 random bits or more."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str, ScramMechanism], ScramCredential],
        nonce: str,
    ) -> None:
        assert _PRINTABLE.fullmatch(nonce)
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._our_nonce = nonce
        self._nonce = self._header = self._said = ""
        self.credential: ScramCredential | None = None
        self.user = ""
        """The name that the client claims; "" before its first message."""

    def first(self, token: bytes) -> bytes:
        """Returns the challenge. Raises TokenRefused."""
        text = _text_of(token)
        header, authzid, bare = _split_header(text)
        attributes = bare.split(",")
        if attributes[0].startswith("m="):
            raise TokenRefused("it demands an extension that is not known")
        if len(attributes) < 2 or not attributes[0].startswith("n=") or not attributes[1].startswith("r="):
            raise TokenRefused("the first message has no name or no nonce")
        user, client_nonce = _name_of(attributes[0][2:]), attributes[1][2:]
        if not _PRINTABLE.fullmatch(client_nonce) or len(client_nonce) > NONCE_BYTES_MAX:
            raise TokenRefused("its nonce is empty, too long, or not printable")
        if any(each.startswith("tokenauth=") for each in attributes[2:]):
            raise TokenRefused("it wants to log in by a delegation token, which this broker does not have")
        if authzid and _name_of(authzid) != user:
            raise TokenRefused("it asks to act for another user")
        self.user, self._nonce, self._header = user, client_nonce + self._our_nonce, header
        self.credential = self._credential_of(user, self._mechanism)
        salt = base64.b64encode(self.credential.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={self.credential.rounds}"
        self._said = f"{bare},{challenge}"
        return challenge.encode()

    def final(self, token: bytes) -> bytes:
        """Returns the server's proof. Raises TokenRefused."""
        credential = self.credential
        assert credential is not None
        without_proof, separator, proof = _text_of(token).rpartition(",p=")
        attributes = without_proof.split(",")
        if not separator or len(attributes) < 2:
            raise TokenRefused("the last message has no proof")
        if attributes[0] != f"c={base64.b64encode(self._header.encode()).decode()}":
            raise TokenRefused("its channel binding is not that of its first message")
        if not hmac.compare_digest(attributes[1].encode(), f"r={self._nonce}".encode()):
            raise TokenRefused("its nonce is not the one of this login")
        said = f"{self._said},{without_proof}".encode()
        if not is_proof(self._mechanism.algorithm, credential.stored_key, said, _bytes_of(proof)):
            raise TokenRefused("the password is wrong, or there is no such user")
        signature = server_signature(self._mechanism.algorithm, credential.server_key, said)
        return b"v=" + base64.b64encode(signature)


def _text_of(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise TokenRefused("it is not UTF-8") from None


def _split_header(text: str) -> tuple[str, str, str]:
    """Returns the header (gs2-header) with its commas, the name in whose name the client wants to act, and the rest."""
    parts = text.split(",", 2)
    if len(parts) < 3 or parts[0] != "n":
        raise TokenRefused("it wants channel binding, or has no header")
    authzid = parts[1]
    if authzid and not authzid.startswith("a="):
        raise TokenRefused("its first header is malformed")
    return f"{parts[0]},{authzid},", authzid.removeprefix("a="), parts[2]


def _name_of(written: str) -> str:
    def unescaped(match: re.Match[str]) -> str:
        if (character := _ESCAPED.get(match[0])) is None:
            raise TokenRefused("a name in it has = that stands for nothing")
        return character

    name = _ESCAPE.sub(unescaped, written)
    if not name or len(name.encode()) > USER_NAME_BYTES_MAX:
        raise TokenRefused(f"the name in it is empty or has more than {USER_NAME_BYTES_MAX} bytes")
    return name


def _bytes_of(written: str) -> bytes:
    try:
        return base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        raise TokenRefused("its proof is not base64") from None
