"""Keys of an issuer: which are taken, when they are read again, and what an issuer cannot do to a broker."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from siltstone.broker.security.bearer.key_set import KEY_SET_BYTES_MAX, KeySetUnusable, parse_key_set
from siltstone.broker.security.bearer.keys import VOID_MS, IssuerKeys, KeysNotRead, read_keys
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from support.scenarios import in_loop
from support.security.issuer import WHERE, Issuer

HOUR_MS = 3_600_000


def written(*rows: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"keys": list(rows)})


def test_keys_by_their_ids_with_the_algorithms_that_fit_them() -> None:
    issuer = Issuer()
    issuer.add_others()
    keys = parse_key_set(issuer.key_set(), WHERE)
    assert {key_id: key.algorithms[0] for key_id, key in keys.items()} == {
        "one": "RS256",
        "ec": "ES256",
        "ed": "EdDSA",
    }
    (row, *_) = issuer.rows()
    assert parse_key_set(written({**row, "alg": "PS512"}), WHERE)["one"].algorithms == ("PS512",)
    del row["kid"]
    assert list(parse_key_set(written(row), WHERE)) == [""]


def spoilt() -> list[bytes]:
    (row,) = Issuer().rows()
    short = Issuer()
    short.keys = {"short": (rsa.generate_private_key(65_537, 1_024), "RS256")}
    private = jwt.algorithms.RSAAlgorithm.to_jwk(rsa.generate_private_key(65_537, 2_048), as_dict=True)
    return [
        b"", b"[]", b"{}", b"null", b"\xff", b'{"keys":{}}', b'{"keys":[]}', b'{"keys":[1,null,"x"]}', b"[" * 100_000,
        written({**row, "use": "enc"}), written({**row, "alg": "HS256"}), written({**row, "alg": "none"}),
        written({**row, "kty": "oct", "k": "AAAA"}), written({"kty": "oct", "k": "AAAA", "crv": "P-256"}),
        written({**row, "n": "!"}), written({**row, "n": 7}), written({"kty": "RSA"}), written(private),
        written({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}), written({"kty": "EC", "crv": "secp256k1"}),
        short.key_set(), b'{"keys":[' + b"{}," * 101 + b"{}]}", b" " * (KEY_SET_BYTES_MAX + 1),
    ]  # fmt: skip


@pytest.mark.parametrize("content", spoilt())
def test_what_is_no_key_set_or_has_no_key_for_us_is_refused(content: bytes) -> None:
    with pytest.raises(KeySetUnusable):
        parse_key_set(content, WHERE)


class Keys:
    def __init__(self, read: Callable[..., bytes] | None = None) -> None:
        self.issuer, self.clock = Issuer(), ManualClock()
        self.keys = IssuerKeys(WHERE, self.clock, InlineCalls(), read=read or self.issuer.read)


@in_loop
async def test_sa17_a_new_key_is_taken_when_a_token_names_it_and_asked_for_twice_a_minute() -> None:
    world = Keys()
    assert await world.keys.key("one") is not None
    world.issuer.add("two", ec.generate_private_key(ec.SECP256R1()), "ES256")
    for _ in range(100):  # an unknown key makes no traffic
        assert await world.keys.key("two") is None
    assert world.issuer.reads == 1
    world.clock.advance_ms(30_000)
    assert await world.keys.key("two") is not None
    assert await world.keys.key("one") is not None
    assert world.issuer.reads == 2


@in_loop
async def test_keys_are_read_again_each_hour_and_one_that_left_is_void() -> None:
    world = Keys()
    await world.keys.key("one")
    world.issuer.keys = {"two": world.issuer.keys["one"]}
    world.clock.advance_ms(HOUR_MS - 1)
    assert await world.keys.key("one") is not None
    world.clock.advance_ms(1)
    assert await world.keys.key("one") is None


@in_loop
async def test_an_issuer_that_does_not_answer_leaves_the_keys_for_a_day() -> None:
    world = Keys()
    await world.keys.key("one")

    def fails(*_: object) -> bytes:
        raise KeysNotRead("no answer")

    world.keys._read = fails
    world.clock.advance_ms(VOID_MS - 1)
    assert await world.keys.key("one") is not None
    world.clock.advance_ms(60_000)
    assert await world.keys.key("one") is None


@in_loop
async def test_a_token_without_a_key_id_has_the_only_key() -> None:
    world = Keys()
    assert await world.keys.key(None) is not None
    world.issuer.add("two", ec.generate_private_key(ec.SECP256R1()), "ES256")
    world.clock.advance_ms(HOUR_MS)
    assert await world.keys.key(None) is None


@in_loop
async def test_logins_with_known_keys_do_not_wait_for_a_slow_issuer() -> None:
    world = Keys()
    await world.keys.key("one")
    released = asyncio.Event()

    class Slow(InlineCalls):
        async def run(self, call: Any, *arguments: Any, **named: Any) -> Any:
            await released.wait()
            return await super().run(call, *arguments, **named)

    world.keys._calls = Slow()
    world.clock.advance_ms(31_000)
    waiting = asyncio.ensure_future(world.keys.key("unknown"))
    await asyncio.sleep(0)
    assert await world.keys.key("one") is not None
    assert not waiting.done()
    released.set()
    assert await waiting is None
    await world.keys.close()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeysNotRead, match="cannot be read"):
        read_keys(str(tmp_path / "none"), "", ManualClock())


@in_loop
async def test_sa17_a_key_that_is_taken_back_is_void_when_the_keys_are_read_again() -> None:
    world = Keys()
    world.issuer.add("two", ec.generate_private_key(ec.SECP256R1()), "ES256")
    assert await world.keys.key("one") is not None
    del world.issuer.keys["two"]
    assert await world.keys.key("two") is not None, "for an hour at most"
    world.keys.read_again()
    assert await world.keys.key("two") is None
    assert await world.keys.key("one") is not None
    assert world.issuer.reads == 2


@in_loop
async def test_keys_that_cannot_be_read_again_stay_and_are_asked_for_twice_a_minute() -> None:
    answers: list[bytes | Exception] = []
    reads = 0

    def read(*_: object) -> bytes:
        nonlocal reads
        reads += 1
        if isinstance(answers[-1], Exception):
            raise answers[-1]
        return answers[-1]

    world = Keys(read)
    answers.append(world.issuer.key_set())
    assert await world.keys.key("one") is not None
    answers.append(KeysNotRead("no answer"))
    world.keys.read_again()
    for _ in range(10):
        assert await world.keys.key("one") is not None
    assert reads == 2
    answers.append(world.issuer.key_set())
    world.clock.advance_ms(30_000)
    assert await world.keys.key("one") is not None
    assert await world.keys.key("one") is not None
    assert reads == 3
