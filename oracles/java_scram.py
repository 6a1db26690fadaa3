"""The messages of SCRAM as Kafka's Java classes write them, for nonces that the caller chooses."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from oracles.java_artifacts import APACHE_KAFKA, fetch_jars
from oracles.java_machine import JavaMachine, running_java_machine

GS2_HEADER = b"n,,"


class ScramMessages(msgspec.Struct, frozen=True):
    """The four messages of one login, and what a server keeps of the password."""

    client_first: bytes
    server_first: bytes
    client_final: bytes
    server_final: bytes
    stored_key: bytes
    server_key: bytes


class JavaScram:
    """``mechanism`` is a name such as SCRAM-SHA-512."""

    def __init__(self, machine: JavaMachine) -> None:
        self._internals = machine.classes.org.apache.kafka.common.security.scram.internals
        self._no_extensions = machine.classes.java.util.HashMap()

    def login(
        self,
        mechanism: str,
        user: str,
        password: str,
        salt: bytes,
        rounds: int,
        client_nonce: str,
        server_nonce: str,
    ) -> ScramMessages:
        formatter: Any = self._internals.ScramFormatter(
            self._internals.ScramMechanism.forMechanismName(mechanism)
        )
        messages = self._internals.ScramMessages
        salted = formatter.saltedPassword(password, salt, rounds)
        stored_key = formatter.storedKey(formatter.clientKey(salted))
        server_key = formatter.serverKey(salted)
        first = messages.ClientFirstMessage(formatter.saslName(user), client_nonce, self._no_extensions)
        challenge = messages.ServerFirstMessage(client_nonce, server_nonce, salt, rounds)
        final = messages.ClientFinalMessage(GS2_HEADER, client_nonce + server_nonce)
        final.proof(formatter.clientProof(salted, first, challenge, final))
        signature = formatter.serverSignature(server_key, first, challenge, final)
        verdict = messages.ServerFinalMessage(None, signature)
        return ScramMessages(
            *(bytes(each.toBytes()) for each in (first, challenge, final, verdict)),
            bytes(stored_key),
            bytes(server_key),
        )


@contextmanager
def running_java_scram() -> Iterator[JavaScram]:
    """Raises JavaArtifactsUnavailable."""
    with running_java_machine(fetch_jars(APACHE_KAFKA)) as machine:
        yield JavaScram(machine)
