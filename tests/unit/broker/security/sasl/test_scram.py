"""The server's side against the clients of kafka-python and aiokafka, and against messages that are wrong."""

import base64
from contextlib import suppress

import pytest
from aiokafka.conn import ScramAuthenticator
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.security.sasl.plain import TokenRefused
from siltstone.broker.security.sasl.scram import NONCE_BYTES_MAX, ScramExchange
from siltstone.foundation.scram import client_proof, salted_password
from siltstone.model.access import ScramMechanism
from support.security.credentials import SALT, credential

NONCE = "our-nonce"
SHA_256, SHA_512 = ScramMechanism


def exchange(mechanism: ScramMechanism = SHA_512, password: str = "pencil", rounds: int = 8) -> ScramExchange:
    return ScramExchange(mechanism, lambda _, each: credential(password, each, rounds), NONCE)


def final_of(
    challenge: bytes, first: str, *, password: str = "pencil", header: str = "n,,", **change
) -> bytes:
    """The last message of a client that does its part, but for ``change``."""
    nonce = challenge.decode().split(",")[0][2:]
    binding = change.get("binding", base64.b64encode(header.encode()).decode())
    without = f"c={binding},r={change.get('nonce', nonce)}"
    said = f"{first},{challenge.decode()},{without}".encode()
    proof = client_proof("sha512", salted_password("sha512", password.encode(), SALT, 8), said)
    return f"{without},p={change.get('proof', base64.b64encode(proof).decode())}".encode()


@pytest.mark.parametrize("mechanism", ScramMechanism)
@given(user=st.text("abc,=äß ", min_size=1, max_size=20), password=st.text(min_size=1, max_size=20))
def test_sa10_aiokafka_and_this_server_prove_themselves_to_each_other(mechanism, user, password) -> None:
    client = ScramAuthenticator(
        loop=None, sasl_plain_password=password, sasl_plain_username=user, sasl_mechanism=mechanism.written
    )
    server = exchange(mechanism, password)
    client.process_server_first_message(server.first(client.first_message().encode()).decode())
    client.process_server_final_message(server.final(client.final_message().encode()).decode())
    assert server.user == user


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own
@pytest.mark.parametrize("mechanism", ScramMechanism)
@given(password=st.text(min_size=1, max_size=20))
def test_sa10_kafka_python_and_this_server_prove_themselves_to_each_other(mechanism, password) -> None:
    from kafka.net.sasl.scram import ScramClient

    client = ScramClient("ada", password, mechanism.written)
    server = exchange(mechanism, password)
    client.process_server_first_message(server.first(client.first_message()))
    client.process_server_final_message(server.final(client.final_message()))
    assert server.user == "ada"


OF_JAVA = {
    SHA_256: (
        b"m6VSC2WQwvfW4AayNjYgiYKAGAFrW7lVVNtj9nydcT0=",
        b"BRXRW10HCAMc+BLB/HZxVYtvE9YgNTE/0REU2WIkhJk=",
    ),
    SHA_512: (
        b"zN8t4fwVHnRcFjAISv9Xz0XAisu3otzELS06eEf/ssQ0E9AezPQvOWq9Kh5sxCVoANGbRFb3WgeX2pi+HDhJUg==",
        b"b0IgF914TYzM3EVlInTiGxAiI0alY3t9dAcQO5yi+DKvZpWNWNeFzl7UBRd0hD+lt5uKuzR9tsqwdiZl+tf96g==",
    ),
}
"""What Kafka 4.3.1's ScramFormatter and ScramMessages write for the login below: the proofs of both sides."""


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_sa10_the_messages_of_a_login_are_those_of_java(mechanism: ScramMechanism) -> None:
    client, ours = b"fyko+d2lbbFgONRv9qkxdawL", "3rfcNHYJY1ZVvWVs7j"
    proof, signature = OF_JAVA[mechanism]
    server = ScramExchange(mechanism, lambda _, each: credential("pencil, é", each), ours)
    challenge = server.first(b"n,,n=a=2Cd=3D\xc3\xa4,r=" + client)
    assert challenge == b"r=" + client + ours.encode() + b",s=MDEyMzQ1Njc4OWFiY2RlZjAxMjM=,i=4096"
    assert server.final(b"c=biws,r=" + client + ours.encode() + b",p=" + proof) == b"v=" + signature
    assert server.user == "a,d=ä"


def test_a_login_by_hand() -> None:
    server = exchange()
    challenge = server.first(b"n,,n=ada,r=theirs")
    assert challenge.decode() == f"r=theirs{NONCE},s={base64.b64encode(SALT).decode()},i=8"
    assert server.final(final_of(challenge, "n=ada,r=theirs")).startswith(b"v=")
    assert server.user == "ada"


@pytest.mark.parametrize("header", ["n,a=ada,", "n,,"])
def test_the_name_in_whose_name_a_client_acts_may_be_its_own(header: str) -> None:
    server = exchange()
    challenge = server.first(f"{header}n=ada,r=theirs".encode())
    assert server.final(final_of(challenge, "n=ada,r=theirs", header=header))


@pytest.mark.parametrize(
    "first",
    [
        b"", b"n", b"n,,", b"n,,n=ada", b"n,,r=x", b"y,,n=ada,r=x", b"p=tls-unique,,n=ada,r=x", b"n,a=eve,n=ada,r=x",
        b"n,x,n=ada,r=x", b"n,,n=,r=x", b"n,,n=ada,r=", b"n,,n=a=2Xb,r=x", b"n,,n=a=b,r=x", b"n,,n=\xff,r=x",
        b"n,,n=ada,r=x,tokenauth=true", b"n,,m=ext,n=ada,r=x", b"n,,n=" + b"x" * 256 + b",r=x", b"n,,n=ada,r=a b",
        b"n,,n=ada,r=" + b"x" * (NONCE_BYTES_MAX + 1), "n,,n=ada,r=ä".encode(),
    ],
)  # fmt: skip
def test_sa09_first_messages_that_are_refused(first: bytes) -> None:
    with pytest.raises(TokenRefused):
        exchange().first(first)


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": f"other{NONCE}"}, {"nonce": "theirs"}, {"nonce": ""}, {"binding": "biwq"}, {"binding": ""},
        {"binding": "eSws"}, {"proof": ""}, {"proof": "!!!!"}, {"proof": "AAAA"}, {"password": "wrong"},
    ],
)  # fmt: skip
def test_sa09_last_messages_that_are_refused(change: dict) -> None:
    server = exchange()
    challenge = server.first(b"n,,n=ada,r=theirs")
    with pytest.raises(TokenRefused) as refused:
        server.final(final_of(challenge, "n=ada,r=theirs", **change))
    assert "pencil" not in str(refused.value)


@pytest.mark.parametrize("last", [b"", b"p=AAAA", b"c=biws,p=AAAA", b"\xff,p=AAAA", b"c=biws,r=x"])
def test_sa09_last_messages_that_are_malformed(last: bytes) -> None:
    server = exchange()
    server.first(b"n,,n=ada,r=theirs")
    with pytest.raises(TokenRefused):
        server.final(last)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_a_refusal(token: bytes) -> None:
    server = exchange()
    for step in (exchange().first, server.final):
        if step == server.final:
            server.first(b"n,,n=ada,r=theirs")
        with suppress(TokenRefused):
            assert isinstance(step(token), bytes)
