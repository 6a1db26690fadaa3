"""The example of RFC 7677, and wrong proofs. The clients of others are compared in tests/unit/broker/security."""

import base64

from siltstone.foundation.scram import (
    client_proof,
    is_proof,
    keys_of,
    salted_password,
    server_signature,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SAID = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_rfc_7677() -> None:
    salted = salted_password("sha256", b"pencil", SALT, 4096)
    keys = keys_of("sha256", salted)
    proof = client_proof("sha256", salted, SAID)
    assert base64.b64encode(proof).decode() == PROOF
    assert is_proof("sha256", keys.stored_key, SAID, proof)
    assert base64.b64encode(server_signature("sha256", keys.server_key, SAID)).decode() == SIGNATURE


def test_sa09_no_other_proof_passes() -> None:
    salted = salted_password("sha512", b"pencil", SALT, 4096)
    keys = keys_of("sha512", salted)
    proof = client_proof("sha512", salted, SAID)
    assert is_proof("sha512", keys.stored_key, SAID, proof)
    flipped = bytes([proof[0] ^ 1]) + proof[1:]
    for wrong in (flipped, b"", proof[:-1], proof + b"\0", bytes(64)):
        assert not is_proof("sha512", keys.stored_key, SAID, wrong)
    assert not is_proof("sha512", keys.stored_key, SAID + b" ", proof)


def test_keys_are_not_shown() -> None:
    assert repr(keys_of("sha256", b"x")) == "ScramKeys(<secret>)"
