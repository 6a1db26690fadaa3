"""Two nodes prove to each other who they are: what proves, and everything that does not."""

import hmac

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.security.sasl.node import (
    CLAIM_BYTES_MAX,
    VERSION,
    AnswererNotProved,
    NodeCall,
    NodeClaim,
    NodeExchange,
)
from siltstone.broker.security.sasl.plain import TokenRefused
from siltstone.metadata.entities import NodeLife
from siltstone.model.secret import Secret

CALLER, OWN = NodeLife(1, 7, "a life"), NodeLife(2, 9, "its life")
SECRET, OTHER = Secret("ab" * 32), Secret("cd" * 32)
NONCE, CHALLENGE, CHANNEL = b"n" * 32, b"c" * 32, b"hash of a certificate"


def call(
    secret: Secret = SECRET, channel: bytes = CHANNEL, caller: NodeLife = CALLER, to: NodeLife = OWN
) -> NodeCall:
    return NodeCall(caller, secret, to.node_id, to.node_epoch, NONCE, channel)


def exchange(
    secret: Secret | None = SECRET, channel: bytes = CHANNEL, challenge: bytes = CHALLENGE
) -> NodeExchange:
    return NodeExchange(OWN, lambda _: secret, challenge, channel)


def test_nd01_both_ends_are_proved() -> None:
    calling, answering = call(), exchange()
    assert answering.claimed(calling.claim) == CALLER
    calling.check(answering.final(calling.proof(answering.challenge)))


def test_nd01_the_bytes_are_those_that_are_written_down() -> None:
    """Nodes of two versions log in to each other, so the layout does not change without a new version."""
    claim = msgspec.msgpack.encode((1, 1, 7, "a life", 2, 9, NONCE))
    assert (VERSION, call().claim) == (1, claim)
    said = msgspec.msgpack.encode(("siltstone node, caller", claim, CHALLENGE, CHANNEL))
    assert call().proof(CHALLENGE) == hmac.digest(bytes.fromhex("ab" * 32), said, "sha256")


def test_nd05_the_secret_of_an_earlier_life_proves_nothing() -> None:
    for known in (OTHER, None):
        calling, answering = call(), exchange(known)
        answering.claimed(calling.claim)
        with pytest.raises(TokenRefused):
            answering.final(calling.proof(CHALLENGE))


def test_nd06_what_was_said_on_another_connection_proves_nothing() -> None:
    """A relay has a certificate of its own; a copy meets another challenge; an answer is no call."""
    calling, answering = call(channel=b"the relay's"), exchange()
    answering.claimed(calling.claim)
    with pytest.raises(TokenRefused, match="the proof is wrong"):
        answering.final(calling.proof(CHALLENGE))
    heard = call()
    proof = heard.proof(CHALLENGE)
    again = exchange(challenge=b"d" * 32)
    again.claimed(heard.claim)
    with pytest.raises(TokenRefused, match="the proof is wrong"):
        again.final(proof)
    with pytest.raises(AnswererNotProved):
        heard.check(proof)
    with pytest.raises(TokenRefused, match="claims to be this node itself"):
        exchange().claimed(call(caller=OWN).claim)


def test_nd06_an_answerer_that_does_not_know_the_secret_is_found_out() -> None:
    calling = call()
    answering = exchange(OTHER)
    answering.claimed(calling.claim)
    calling.proof(CHALLENGE)
    for token in (b"", b"x" * 32):
        with pytest.raises(AnswererNotProved, match="its proof is wrong"):
            calling.check(token)
    with pytest.raises(AnswererNotProved, match="its challenge has 3 bytes"):
        calling.proof(b"abc")


def test_nd06_a_claim_for_another_node_or_an_earlier_life_of_this_one_is_refused() -> None:
    for to in (NodeLife(3, 9, ""), NodeLife(2, 8, "")):
        with pytest.raises(TokenRefused, match=rf"it means node {to.node_id} in epoch {to.node_epoch}"):
            exchange().claimed(call(to=to).claim)


def test_a_claim_of_another_version_or_with_a_short_nonce_is_refused() -> None:
    good = msgspec.msgpack.decode(call().claim, type=NodeClaim)
    for wrong in (msgspec.structs.replace(good, version=2), msgspec.structs.replace(good, nonce=b"short")):
        with pytest.raises(TokenRefused, match="another version"):
            exchange().claimed(msgspec.msgpack.encode(wrong))
    with pytest.raises(TokenRefused, match="is the most"):
        exchange().claimed(b"\0" * (CLAIM_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "token",
    [
        b"\x97\x01\x01\x01\xa2\xff\xfe\x01\x01\xc4\x20" + NONCE,  # an incarnation that is not UTF-8
        b"\x91" * CLAIM_BYTES_MAX,
        b"\xdd\xff\xff\xff\xff",
        b"\x97\x01\x01\x01\xdb\xff\xff\xff\xff",
        b"",
    ],
)
def test_a_claim_that_cannot_be_decoded_is_refused(token: bytes) -> None:
    with pytest.raises(TokenRefused, match="not one of a node"):
        exchange().claimed(token)


@given(st.binary(max_size=200), st.binary(max_size=80))
def test_no_bytes_prove_anything(claim: bytes, proof: bytes) -> None:
    answering = exchange()
    with pytest.raises(TokenRefused):
        answering.claimed(claim)
    answering.claimed(call().claim)
    with pytest.raises(TokenRefused):
        answering.final(proof)
