"""Requests that change several credentials of one user, and what Apache Kafka 4.3.1 answers for that user."""

from msgspec.structs import replace

from siltstone.foundation.scram import salted_password
from siltstone.kafka_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

SALTED = salted_password("sha256", b"pencil", b"salt", 4096)


def upsertion(name: str = "ada", **change: object) -> ScramCredentialUpsertion:
    made = ScramCredentialUpsertion(
        name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=SALTED
    )
    return replace(made, **change)


def deletion(name: str, mechanism: int) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def asked(
    deletions: list[ScramCredentialDeletion] | None = None,
    upsertions: list[ScramCredentialUpsertion] | None = None,
) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(deletions=deletions or [], upsertions=upsertions or [])


Row = tuple[list[ScramCredentialDeletion], list[ScramCredentialUpsertion], int]
SEVERAL_OF_ONE_USER: list[Row] = [
    ([], [upsertion("b"), upsertion("b")], 92),
    ([], [upsertion("b"), upsertion("b", mechanism=2)], 92),
    ([deletion("ada", 1)], [upsertion(mechanism=2)], 92),
    ([deletion("ada", 1)], [upsertion()], 92),
    ([deletion("ada", 1), deletion("ada", 2)], [], 92),
    ([deletion("ada", 2), deletion("ada", 1)], [], 91),
    ([deletion("nobody", 1), deletion("nobody", 2)], [], 91),
    ([], [upsertion("b", mechanism=3), upsertion("b")], 33),
    ([], [upsertion("b", iterations=1), upsertion("b", mechanism=2)], 93),
]
"""``ada`` has a credential of mechanism 1."""
