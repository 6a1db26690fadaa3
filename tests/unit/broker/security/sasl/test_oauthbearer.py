"""The message of OAUTHBEARER, as clients write it and as nobody should."""

import pytest

from siltstone.broker.security.sasl.oauthbearer import (
    EXTENSIONS_BYTES_MAX,
    TOKEN_BYTES_MAX,
    BearerExchange,
    bearer_claim,
)
from siltstone.broker.security.sasl.plain import TokenRefused

GOOD = b"n,,\x01auth=Bearer a.b.c\x01\x01"


def test_a_token_and_the_name_that_is_asked_for() -> None:
    claim = bearer_claim(GOOD)
    assert (claim.token.revealed(), claim.authzid) == ("a.b.c", "")
    assert "a.b.c" not in repr(claim)
    assert bearer_claim(b"n,a=b=2Co=3Db,\x01auth=bearer a.b.c\x01\x01").authzid == "b,o=b"


def test_sa27_extensions_are_not_looked_at() -> None:
    message = b"n,,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01identityPoolId=pool-1\x01\x01"
    assert bearer_claim(message).token.revealed() == "a.b.c"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"n,,",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"p=tls-exporter,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,ada,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer a.b.c",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01host=x\x01\x01",
        b"n,,\x01host=x\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer d.e.f\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01k1=x\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01name\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * (TOKEN_BYTES_MAX + 1) + b"\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01k=" + b"a" * EXTENSIONS_BYTES_MAX + b"\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01" + b"\x01" * 100_000,
    ],
)
def test_sa27_what_is_no_such_message_is_refused(message: bytes) -> None:
    with pytest.raises(TokenRefused) as refusal:
        bearer_claim(message)
    assert "a.b.c" not in str(refusal.value)


def test_every_beginning_of_a_message_is_refused() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(TokenRefused):
            bearer_claim(GOOD[:size])


def test_after_a_refused_token_nothing_is_a_login() -> None:
    exchange = BearerExchange()
    exchange.refusal = "it has expired"
    for message in (b"\x01", GOOD):
        with pytest.raises(TokenRefused, match="it has expired"):
            exchange.first(message)
