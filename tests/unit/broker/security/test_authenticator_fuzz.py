"""Random requests of a login, whole and spoilt, against a plain model: who has not sent the right token, at the right
place, is not logged in. ``tests/fuzz/test_logins.py`` sends such requests to a broker in a process of its own."""

import asyncio
import inspect
from random import Random

import pytest

from siltstone.broker.request import CloseConnection
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest
from siltstone.kafka_protocol.notation import Message
from siltstone.model.access import ANONYMOUS, Principal, SessionState
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.kafka.raw_kafka import request_bytes
from support.security.credentials import users_command
from unit.broker.security.test_authenticator import SECURE

BY_DAY, BY_NIGHT = 400, 10_000
RIGHT = b"\0ada\0pencil"
WRONG = (
    b"\0ada\0wrong", b"\0ada", b"ada\0ada\0pencil\0", b"bob\0ada\0pencil", b"\0\0pencil", b"", RIGHT * 20,
    b"n,,n=ada,r=abc", b"y,,n=ada,r=abc", b"p=tls-unique,,n=ada,r=abc", b"c=biws,r=abc,p=AAAA", b"\xff" * 300,
    b"n,,\x01auth=Bearer e30.e30.\x01\x01", b"\x01",
)  # fmt: skip
MECHANISMS = ("PLAIN", "PLAIN", "PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "SILTSTONE-NODE", "GSSAPI", "")


def drawn(rng: Random, *, is_exchange: bool) -> tuple[Message, int]:
    """In an exchange mostly a token, otherwise mostly what leads to one."""
    kind = rng.random()
    if kind < (0.7 if is_exchange else 0.1):
        return SaslAuthenticateRequest(auth_bytes=rng.choice((RIGHT, rng.choice(WRONG)))), rng.randint(0, 2)
    if kind < 0.8:
        return SaslHandshakeRequest(mechanism=rng.choice(MECHANISMS)), rng.choice((1, 1, 1, 1, 0))
    if kind < 0.95:
        return ApiVersionsRequest(client_software_name="f", client_software_version="1"), rng.choice(
            (0, 3, 4)
        )
    return MetadataRequest(topics=[]), 12


def spoilt(rng: Random, frame: bytes) -> bytes:
    """A byte is changed, or the frame is cut, or longer than it says."""
    changed = bytearray(frame)
    match rng.randrange(3):
        case 0:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        case 1:
            del changed[rng.randrange(len(changed)) :]
        case _:
            changed += rng.randbytes(rng.randint(1, 400))
    return bytes(changed)


async def is_open_after(world: BrokerWorld, connection: object, frame: bytes) -> bool:
    """Sends a frame, and lets the time of its answer pass."""
    try:
        answering = world.broker.handle(connection, memoryview(bytearray(frame)))
        if inspect.isawaitable(answering):
            task = asyncio.ensure_future(answering)
            while not task.done():
                await world.pass_ms(500)
            task.result()
    except CloseConnection:
        return False
    return True


async def log_in_by_chance(world: BrokerWorld, rng: Random) -> bool:
    """Returns whether it has logged in. Fails when it has without the right token, or has not with it."""
    connection = world.client(SECURE).connection
    session, expects_right, was_spoilt = connection.session, False, False
    for _ in range(rng.randint(1, 6)):
        request, version = drawn(rng, is_exchange=session.state is SessionState.EXCHANGE)
        frame = request_bytes(request, version)
        is_right = isinstance(request, SaslAuthenticateRequest) and request.auth_bytes == RIGHT
        if not is_right and rng.random() < 0.2:
            frame, was_spoilt = spoilt(rng, frame), True
        if not await is_open_after(world, connection, frame):
            assert session.state is not SessionState.AUTHENTICATED
            return False
        if session.state is SessionState.AUTHENTICATED:
            assert is_right and connection.principal == Principal("ada")
            assert expects_right or was_spoilt, "there was no SaslHandshake for PLAIN"
            return True
        assert connection.principal is ANONYMOUS
        assert not (is_right and expects_right), "it has sent what it has to send"
        if session.state is SessionState.CLOSING:
            return False
        is_handshake = isinstance(request, SaslHandshakeRequest) and version == 1
        expects_right = is_handshake and request.mechanism == "PLAIN" and not was_spoilt
    return False


def play(seed: int, sequences: int) -> int:
    """Returns how many of the sequences have logged in."""
    logged_in = 0

    async def scenario(world: BrokerWorld) -> None:
        nonlocal logged_in
        await world.parts.metadata.execute(users_command(ada="pencil"))
        for number in range(sequences):
            logged_in += await log_in_by_chance(world, Random(f"{seed}/{number}"))

    in_broker_world(scenario)
    return logged_in


def test_sa03_random_requests_log_in_only_by_the_right_token_at_its_place() -> None:
    assert play(7, BY_DAY) > 20


@pytest.mark.nightly(tried="sequences of requests of a login")
def test_sa03_very_many_random_requests_log_in_only_by_the_right_token() -> None:
    assert play(8, BY_NIGHT) > 500
