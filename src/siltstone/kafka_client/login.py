"""Logs a connection in, by SCRAM or PLAIN, before its first request of another kind.

    SaslHandshake    which mechanism
    SaslAuthenticate the messages of the mechanism, one or two

A login that is refused is not tried again: a wrong password stays wrong. The server has to prove itself, too: a
signature that does not fit, and a count of rounds that would keep this process busy for minutes, end the connection.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Generator

from siltstone.foundation.scram import client_proof, keys_of, salted_password, server_signature
from siltstone.kafka_client.client_settings import ClientSettings
from siltstone.kafka_client.failures import BrokerNotProved, LoginRefused, MechanismNotOffered
from siltstone.kafka_client.tokens import TOKENS
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.model.access import LoginMechanism, ScramMechanism
from siltstone.model.serving_limits import SCRAM_ROUNDS_MIN
from siltstone.runtime.randomness import Random

ROUNDS_MAX = 1_000_000
"""A second of a core. A server that asks for more is not worth an answer."""

NONCE_BITS = 160

Steps = Generator[bytes, bytes, None]
Ask = Callable[[Message, type[Message]], Message]


def log_in(settings: ClientSettings, where: str, ask: Ask, rng: Random) -> int:
    """Logs in by the settings' mechanism; returns for how many ms, 0: for as long as the connection. ``ask`` sends a
    request and returns its response; ``where`` is for errors. Raises LoginRefused, MechanismNotOffered,
    BrokerNotProved, and what ``ask`` does."""
    offer = ask(SaslHandshakeRequest(mechanism=str(settings.mechanism)), SaslHandshakeResponse)
    assert isinstance(offer, SaslHandshakeResponse)
    _check_offer(offer, settings, where)
    scram = settings.mechanism.scram
    if scram is not None:
        steps = _scram(settings, scram, where, rng)
    else:
        steps = _bearer(settings) if settings.mechanism is LoginMechanism.OAUTHBEARER else _plain(settings)
    token, lifetime_ms = next(steps), 0
    try:
        while True:
            answer = ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
            assert isinstance(answer, SaslAuthenticateResponse)
            if answer.error_code:
                if settings.mechanism is LoginMechanism.OAUTHBEARER:
                    raise LoginRefused(
                        f"the broker at {where} refuses the token: its issuer, audience, name or time is not what that "
                        "listener takes; the log of the broker says which"
                    )
                raise LoginRefused(
                    f"the broker at {where} refuses the login of {settings.username} by {settings.mechanism} "
                    f"({ErrorCode.SASL_AUTHENTICATION_FAILED.name}): correct sasl.username, sasl.password or "
                    "sasl.mechanism"
                )
            lifetime_ms = answer.session_lifetime_ms
            token = steps.send(bytes(answer.auth_bytes))
    except StopIteration:
        return lifetime_ms


def _check_offer(offer: SaslHandshakeResponse, settings: ClientSettings, where: str) -> None:
    """Raises MechanismNotOffered."""
    if offer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise MechanismNotOffered(
            f"the listener at {where} has no login: set security.protocol to "
            f"{'SSL' if settings.protocol.is_encrypted else 'PLAINTEXT'}, or connect to another listener"
        )
    if offer.error_code:
        offered = ", ".join(offer.mechanisms) or "none"
        raise MechanismNotOffered(
            f"the broker at {where} takes no login by {settings.mechanism}: set sasl.mechanism to one of {offered}"
        )


def _plain(settings: ClientSettings) -> "Steps":
    yield b"\0".join((b"", settings.username.encode(), settings.password.revealed().encode()))


def _bearer(settings: ClientSettings) -> "Steps":
    """A broker that refuses the token says so in a challenge, and wants one byte before it refuses the login."""
    token = TOKENS.token(settings)
    challenge = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if challenge:
        yield b"\x01"


def _scram(settings: ClientSettings, mechanism: ScramMechanism, where: str, rng: Random) -> "Steps":
    """Yields the messages of the client; receives those of the server. Raises BrokerNotProved."""
    nonce = f"{rng.getrandbits(NONCE_BITS):x}"
    bare = f"n={_escaped(settings.username)},r={nonce}"
    challenge = _text(where, (yield f"n,,{bare}".encode()))
    joint_nonce, salt, rounds = _challenged(where, challenge, nonce)
    salted = salted_password(mechanism.algorithm, settings.password.revealed().encode(), salt, rounds)
    without_proof = f"c={base64.b64encode(b'n,,').decode()},r={joint_nonce}"
    said = f"{bare},{challenge},{without_proof}".encode()
    proof = base64.b64encode(client_proof(mechanism.algorithm, salted, said)).decode()
    verdict = _text(where, (yield f"{without_proof},p={proof}".encode()))
    server_key = keys_of(mechanism.algorithm, salted).server_key
    signature = base64.b64encode(server_signature(mechanism.algorithm, server_key, said)).decode()
    if not hmac.compare_digest(verdict.partition(",")[0], f"v={signature}"):
        raise _not_proved(where, "it does not know the password itself")


def _challenged(where: str, challenge: str, nonce: str) -> tuple[str, bytes, int]:
    """Returns the nonce of both sides, the salt and the rounds. Raises BrokerNotProved."""
    attributes = challenge.split(",")
    if [each[:2] for each in attributes[:3]] != ["r=", "s=", "i="]:
        raise _not_proved(where, "its challenge is malformed")
    joint_nonce, salt, rounds = (each[2:] for each in attributes[:3])
    if not joint_nonce.startswith(nonce) or joint_nonce == nonce:
        raise _not_proved(where, "its nonce does not begin with ours")
    if not rounds.isascii() or not rounds.isdigit() or not SCRAM_ROUNDS_MIN <= int(rounds) <= ROUNDS_MAX:
        raise _not_proved(where, f"it wants a password hashed {rounds[:20]} times")
    try:
        return joint_nonce, base64.b64decode(salt, validate=True), int(rounds)
    except (binascii.Error, ValueError):
        raise _not_proved(where, "its salt is not base64") from None


def _text(where: str, received: bytes) -> str:
    """Raises BrokerNotProved."""
    try:
        return received.decode()
    except UnicodeDecodeError:
        raise _not_proved(where, "its message is not UTF-8") from None


def _not_proved(where: str, reason: str) -> BrokerNotProved:
    return BrokerNotProved(
        f"the broker at {where} does not prove that it is the one that was meant ({reason}): check its "
        "address, and that nothing stands between"
    )


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")
