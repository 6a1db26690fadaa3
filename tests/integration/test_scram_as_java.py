"""SA10: each message of SCRAM, byte by byte as Kafka's Java classes write it for the same nonces.

Our server and our client each speak with Java's messages of the other side. ``FUZZ_SEED`` replays a night.
"""

from random import Random

import pytest

from oracles.java_scram import ScramMessages, running_java_scram
from siltstone.broker.security.sasl.scram import ScramExchange
from siltstone.foundation.scram import keys_of, salted_password
from siltstone.kafka_client.client_settings import ClientSettings
from siltstone.kafka_client.login import NONCE_BITS, log_in
from siltstone.kafka_protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.metadata.users import ScramCredential
from siltstone.model.access import LoginMechanism, ScramMechanism, SecurityProtocol
from siltstone.model.secret import Secret
from siltstone.runtime.randomness import seeded_randomness
from support.kafka.kafka_oracles import or_skip
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.kafka, pytest.mark.nightly(tried="logins of SCRAM beside Java")]

LOGINS = 200
CHARACTERS = "abcXYZ019 ,=+/%äßλ日😀"
OF_NONCES = "".join(map(chr, (*range(0x21, 0x2C), *range(0x2D, 0x7F))))
"""Printable characters but the comma (RFC 5802)."""


def text(rng: Random, most: int) -> str:
    return "".join(rng.choice(CHARACTERS) for _ in range(rng.randint(1, most)))


def client_messages(mechanism: LoginMechanism, user: str, password: str, seed: int, java: ScramMessages):
    """What our client sends to a server that answers as Java's does."""
    sent: list[bytes] = []
    answers = iter((java.server_first, java.server_final))

    def ask(request: Message, _: type[Message]) -> Message:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=[request.mechanism])
        sent.append(bytes(request.auth_bytes))
        return SaslAuthenticateResponse(auth_bytes=next(answers))

    protocol = SecurityProtocol.SASL_SSL
    settings = ClientSettings(
        protocol=protocol, mechanism=mechanism, username=user, password=Secret(password)
    )
    log_in(settings, "java:1", ask, seeded_randomness(seed))
    return sent


@pytest.mark.timeout(600)
def test_sa10_every_message_is_javas_for_equal_nonces(record_tried: RecordTried) -> None:
    rng = Random(seed_of_this_run("FUZZ_SEED"))
    with or_skip(running_java_scram) as java:
        for number in range(LOGINS):
            mechanism = rng.choice(list(ScramMechanism))
            user, password, salt = text(rng, 30), text(rng, 30), rng.randbytes(rng.randint(1, 40))
            rounds, seed = rng.randint(4_096, 5_000), rng.getrandbits(64)
            theirs = f"{seeded_randomness(seed).getrandbits(NONCE_BITS):x}"  # our client draws the same
            ours = "".join(rng.choice(OF_NONCES) for _ in range(rng.randint(1, 60)))
            said = java.login(mechanism.written, user, password, salt, rounds, theirs, ours)
            kept = keys_of(
                mechanism.algorithm, salted_password(mechanism.algorithm, password.encode(), salt, rounds)
            )
            assert kept == (said.stored_key, said.server_key)
            credential = ScramCredential(mechanism, salt, *kept, rounds)
            server = ScramExchange(mechanism, lambda _, __, found=credential: found, ours)
            case = number, mechanism, user, password
            assert server.first(said.client_first) == said.server_first, case
            assert server.final(said.client_final) == said.server_final, case
            assert server.user == user
            login = LoginMechanism(mechanism.written)
            assert client_messages(login, user, password, seed, said) == [
                said.client_first,
                said.client_final,
            ]
    record_tried("logins", LOGINS)
