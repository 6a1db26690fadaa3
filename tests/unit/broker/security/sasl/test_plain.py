import pytest

from siltstone.broker.security.sasl.plain import (
    PASSWORD_BYTES_MAX,
    TokenRefused,
    is_password,
    password_claim,
)
from siltstone.model.access import ScramMechanism
from siltstone.model.secret import Secret
from support.security.credentials import credential


@pytest.mark.parametrize("token", [b"\0ada\0pencil", b"ada\0ada\0pencil"])
def test_sa08_a_claim(token: bytes) -> None:
    claim = password_claim(token)
    assert (claim.user, claim.password) == ("ada", Secret("pencil"))
    assert "pencil" not in repr(claim)


@pytest.mark.parametrize(
    "token",
    [
        b"", b"ada", b"ada\0pencil", b"\0ada\0pencil\0", b"\0\0pencil", b"\0ada\0", b"eve\0ada\0pencil",
        b"\0\xff\0pencil", b"\0ada\0\xff", b"\0" + b"x" * 256 + b"\0pencil",
        b"\0ada\0" + b"x" * (PASSWORD_BYTES_MAX + 1),
    ],
)  # fmt: skip
def test_sa08_what_is_refused(token: bytes) -> None:
    with pytest.raises(TokenRefused) as refused:
        password_claim(token)
    assert "pencil" not in str(refused.value)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_password_is_compared_with_the_key_of_scram(mechanism: ScramMechanism) -> None:
    kept = credential("pencil", mechanism, 8)
    assert is_password(Secret("pencil"), kept)
    assert not is_password(Secret("Pencil"), kept)
