"""The arithmetic of SCRAM (RFC 5802): what a password, a salt and a count of rounds become, and how both prove it.

    salted password = PBKDF2(password, salt, rounds)
    stored key      = H(client key),   client key = HMAC(salted password, "Client Key")
    server key      = HMAC(salted password, "Server Key")
    proof           = client key XOR HMAC(stored key, what was said)

A server keeps the stored key and the server key, with which nobody can log in. ``algorithm`` is a name that hashlib
knows, such as sha512.
"""

import hashlib
import hmac
from typing import NamedTuple


class ScramKeys(NamedTuple):
    """What a server keeps of a password."""

    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Shows no key."""
        return "ScramKeys(<secret>)"


def salted_password(algorithm: str, password: bytes, salt: bytes, rounds: int) -> bytes:
    """Takes milliseconds, and lets other threads run meanwhile."""
    return hashlib.pbkdf2_hmac(algorithm, password, salt, rounds)


def keys_of(algorithm: str, salted: bytes) -> ScramKeys:
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    return ScramKeys(
        hashlib.new(algorithm, client_key).digest(), hmac.digest(salted, b"Server Key", algorithm)
    )


def client_proof(algorithm: str, salted: bytes, said: bytes) -> bytes:
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    return _xor(client_key, _client_signature(algorithm, keys_of(algorithm, salted).stored_key, said))


def is_proof(algorithm: str, stored_key: bytes, said: bytes, proof: bytes) -> bool:
    """Returns whether ``proof`` is that of a client that knows the password."""
    signature = _client_signature(algorithm, stored_key, said)
    if len(proof) != len(signature):
        return False
    client_key = _xor(proof, signature)
    return hmac.compare_digest(hashlib.new(algorithm, client_key).digest(), stored_key)


def server_signature(algorithm: str, server_key: bytes, said: bytes) -> bytes:
    return hmac.digest(server_key, said, algorithm)


def _client_signature(algorithm: str, stored_key: bytes, said: bytes) -> bytes:
    return hmac.digest(stored_key, said, algorithm)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))
