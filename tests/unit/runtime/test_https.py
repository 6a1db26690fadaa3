"""Questions over https: bounded, without redirects, and only of servers that are certified."""

from pathlib import Path
from typing import Any

import pytest

from siltstone.runtime import https
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.https import ANSWER_BYTES_MAX, HttpsNotAnswered, https_answer, is_https
from support.security.https_server import https_server
from support.tls.authority import Authority


class JumpingClock(SystemClock):
    """A minute passes between two looks at it."""

    def __init__(self) -> None:
        self._now_ms = 0.0

    def monotonic_ms(self) -> float:
        self._now_ms += 60_000
        return self._now_ms


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def answers(path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
    if path == "/redirect":
        return 302, {"Location": "/keys"}, b""
    if path == "/large":
        return 200, {}, b"x" * (ANSWER_BYTES_MAX + 1)
    if path == "/form":
        return 200, {}, headers["authorization"].encode() + b" " + body
    return (200, {}, b"keys") if path in ("/keys", "/keys?a=b") else (404, {}, b"")


def test_sa17_what_is_asked_for_is_answered_and_nothing_else_is(authority: Authority) -> None:
    clock, trusted = SystemClock(), str(authority.file)
    with https_server(authority.issue("issuer"), answers) as url:
        assert https_answer(f"{url}/keys", trusted, clock) == b"keys"
        assert https_answer(f"{url}/keys?a=b", trusted, clock) == b"keys"
        form = https_answer(f"{url}/form", trusted, clock, b"a=b", {"Authorization": "Basic x"})
        assert form == b"Basic x a=b"
        for path, why in (
            ("/redirect", "answers 302"),
            ("/none?token=pencil", "answers 404"),
            ("/large", "too large"),
        ):
            with pytest.raises(HttpsNotAnswered, match=why) as refused:
                https_answer(url + path, trusted, clock)
            assert "pencil" not in str(refused.value)
        with pytest.raises(HttpsNotAnswered, match="too slowly"):
            https_answer(f"{url}/keys", trusted, JumpingClock())
        with pytest.raises(HttpsNotAnswered, match="certificate"):
            https_answer(f"{url}/keys", "", clock)
    with pytest.raises(HttpsNotAnswered, match="cannot be asked"):
        https_answer(f"{url}/keys", trusted, clock)
    with pytest.raises(HttpsNotAnswered, match="cannot be asked"):
        https_answer(f"{url}/keys", str(Path(trusted).with_name("none.pem")), clock)


def test_sa17_a_server_with_a_certificate_of_another_host_is_refused(authority: Authority) -> None:
    pair = authority.issue("elsewhere", hosts=("issuer.example",))
    with https_server(pair, answers) as url, pytest.raises(HttpsNotAnswered, match="certificate"):
        https_answer(f"{url}/keys", str(authority.file), SystemClock())


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("https://issuer.example/keys", True), ("HTTPS://issuer.example", True), ("http://issuer.example", False),
        ("https://", False), ("https://u:p@issuer.example", False), ("file:///etc/passwd", False), ("", False),
    ],
)  # fmt: skip
def test_which_urls_are_https(url: str, is_one: Any) -> None:
    assert is_https(url) is is_one
    assert https.ANSWER_MS_MAX == 10_000
