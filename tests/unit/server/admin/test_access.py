"""Who is let in at an admin listener: by password, token, certificate; what probes see without any of it."""

import asyncio
import base64
from pathlib import Path

import pytest

from siltstone.broker.security.sasl.plain import PasswordClaim
from siltstone.model.access import Principal
from siltstone.model.secret import Secret
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.server.admin.access import AdminAccess, MetricsToken
from siltstone.server.admin.endpoints import Endpoints
from siltstone.server.admin.http_request import HttpCaller, HttpRequest, RequestRefused, request_of
from siltstone.server.network.listener_settings import InvalidListenerSetting
from support.scenarios import in_loop

TOKEN = "t0ken-of-the-scrape"
ADA, CERTIFIED = Principal("ada"), Principal("CN=monitor")


class Users:
    """ada has a password; ``seeing`` may describe the cluster."""

    def __init__(self, *seeing: Principal) -> None:
        self.seeing = seeing

    async def principal_of(self, host: str, claim: PasswordClaim) -> Principal | None:
        return ADA if claim == PasswordClaim("ada", Secret("pencil:with:colons")) else None

    def may_describe(self, host: str, principal: Principal) -> bool:
        return principal in self.seeing


def basic(user: str = "ada", password: str = "pencil:with:colons") -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def request(
    path: str = "/metrics", authorization: str = "", certificate: Principal | None = None
) -> HttpRequest:
    return HttpRequest(
        "GET", path, "127.0.0.1", "", Secret(authorization), HttpCaller("10.0.0.1", certificate)
    )


def status(access: AdminAccess, asked: HttpRequest) -> int:
    try:
        asyncio.run(access.check(asked))
    except RequestRefused as refusal:
        return refusal.status
    return 200


def access_with(users: Users | None, token: MetricsToken | None = None) -> AdminAccess:
    made = AdminAccess(wants_login=True, token=token)
    made.users = users
    return made


def token_file(folder: Path, text: str = f"{TOKEN}\nanother line\n", mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def token_of(path: Path) -> MetricsToken:
    return MetricsToken(path, InlineCalls(), ManualClock())


def test_a_user_with_the_right_is_let_in_by_its_password() -> None:
    access = access_with(Users(ADA))
    assert status(access, request(authorization=basic())) == 200
    assert status(access, request("/clients", basic())) == 200


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic %%%",
        "Basic YWRh",
        basic(password="no"),
        basic(user=""),
        "Digest x",
        f"Bearer {TOKEN}",
        "Basic /w==",
    ],
)
def test_nobody_else_is(header: str) -> None:
    assert status(access_with(Users(ADA)), request(authorization=header)) == 401


def test_a_user_without_the_right_is_told_which() -> None:
    with pytest.raises(RequestRefused, match="siltstone acls add User:ada describe --cluster") as refused:
        asyncio.run(access_with(Users()).check(request(authorization=basic())))
    assert refused.value.status == 403


def test_before_the_broker_runs_a_token_is_enough_and_a_user_has_to_come_back(tmp_path: Path) -> None:
    access = access_with(None, token_of(token_file(tmp_path)))
    assert status(access, request(authorization=basic())) == 503
    assert status(access, request(authorization=f"Bearer {TOKEN}")) == 200
    assert status(access, request("/clients", f"Bearer {TOKEN}")) == 401, "it is for scrapes"
    assert status(access, request(authorization="Bearer another-token-of-a-scrape")) == 401


def test_a_new_token_counts_at_once_and_a_broken_file_changes_nothing(tmp_path: Path, caplog) -> None:
    path = token_file(tmp_path)
    access = access_with(None, token_of(path))
    token_file(tmp_path, "the-second-token-of-all\n")
    assert status(access, request(authorization=f"Bearer {TOKEN}")) == 401
    path.chmod(0o644)
    for _ in range(2):
        assert status(access, request(authorization="Bearer the-second-token-of-all")) == 200
    assert caplog.text.count("every user of this machine may read") == 1
    assert "second-token" not in caplog.text


@pytest.mark.parametrize(("text", "mode"), [("short\n", 0o600), ("", 0o600), (f"{TOKEN}\n", 0o644)])
def test_sp08_a_token_that_is_short_or_that_others_may_read_is_refused(
    tmp_path: Path, text: str, mode: int
) -> None:
    with pytest.raises(InvalidListenerSetting, match=r"admin\.metrics_token_file") as refused:
        token_of(token_file(tmp_path, text, mode))
    assert TOKEN not in str(refused.value)


def test_the_owner_of_a_certificate_needs_the_right_too() -> None:
    access = AdminAccess()
    assert status(access, request(certificate=CERTIFIED)) == 200, (
        "before the broker runs there is nothing to see"
    )
    access.users = Users()
    assert status(access, request(certificate=CERTIFIED)) == 403
    access.users = Users(CERTIFIED)
    assert status(access, request(certificate=CERTIFIED)) == 200
    assert status(access, request()) == 200, "an open listener asks nobody"


@in_loop
async def test_probes_see_the_status_without_a_login_and_the_reasons_with_one() -> None:
    endpoints = Endpoints(ManualClock(), (), access_with(Users(ADA)))
    assert (await endpoints.answer(request("/livez"))).status == 200
    unready = await endpoints.answer(request("/readyz"))
    assert (unready.status, unready.body) == (503, b"not ready\nlog in to see why\n")
    told = await endpoints.answer(request("/readyz", basic()))
    assert (told.status, told.body) == (503, b"not ready\nthe process is starting\n")
    for path in ("/metrics", "/clients", "//metrics", "/metrics/", "/%6detrics"):
        with pytest.raises(RequestRefused) as refused:
            await endpoints.answer(request(path))
        assert refused.value.status in (401, 404)


def test_wc03_the_header_is_read_once_and_shown_nowhere() -> None:
    lines = [(b"host", b"h"), (b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"method": "GET", "path": "/metrics", "headers": lines}
    parsed = request_of(scope, HttpCaller())
    assert parsed.authorization == Secret(f"Bearer {TOKEN}")
    assert TOKEN not in repr(parsed)
    with pytest.raises(RequestRefused, match="authorization is sent twice"):
        request_of({**scope, "headers": [*lines, (b"authorization", b"Basic x")]}, HttpCaller())
