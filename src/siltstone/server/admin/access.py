"""Who sees what at an admin listener.

    /livez, and the status of /readyz               everybody: a probe logs in nowhere
    /metrics, /clients, and the reasons of /readyz  callers that are let in

A listener with a login (``listener.ADMIN.protocol`` SASL_SSL or SASL_PLAINTEXT) lets in the users of the store, by the
Basic scheme of HTTP, and for ``/metrics`` the bearer of ``admin.metrics_token_file``. A listener that requires
certificates lets in their owners. While authorization is on, both need DESCRIBE of the cluster. A listener with neither
is open, and therefore is on an address of this machine alone. Read next: ``endpoints``, ``users``.
"""

import base64
import binascii
import hmac
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from siltstone.broker.request import Question
from siltstone.broker.security.sasl.plain import PasswordClaim, TokenRefused, password_claim
from siltstone.model.access import Principal
from siltstone.model.secret import Secret
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit
from siltstone.server.admin.http_request import HttpCaller, HttpRequest, RequestRefused
from siltstone.server.network.listener_settings import InvalidListenerSetting
from siltstone.server.network.tls import read_file

UNAUTHORIZED, FORBIDDEN, NOT_NOW = 401, 403, 503
TOKEN_SETTING = "admin.metrics_token_file"  # noqa: S105  the name of a setting
TOKEN_CHARACTERS_MIN = 16

log = logging.getLogger(__name__)


class AdminUsers(Protocol):
    """The users of the store and their rights: ``admin.users``."""

    async def principal_of(self, host: str, claim: PasswordClaim) -> Principal | None:
        """Returns who proves a name by its password; None: nobody. Raises RequestRefused."""
        ...

    def may_describe(self, host: str, principal: Principal) -> bool:
        """Whether it may see the cluster. Raises RequestRefused."""
        ...

    @property
    def may_see_all(self) -> bool:
        """Whether no right is asked about: authorization is off."""
        ...

    def may(self, host: str, principal: Principal, question: Question) -> bool:
        """Whether it has a right. Raises RequestRefused."""
        ...


def read_metrics_token(path: Path) -> Secret:
    """Returns the token in the first line of a file. Raises InvalidListenerSetting."""
    lines = read_file(TOKEN_SETTING, path, is_secret=True).decode("utf-8", "replace").splitlines()
    token = lines[0].strip() if lines else ""
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise InvalidListenerSetting(
            f"{TOKEN_SETTING}: the first line of {path} is the token, and has at least {TOKEN_CHARACTERS_MIN} "
            "characters: write a random one"
        )
    return Secret(token)


class MetricsToken:
    """The first line of a file, which is looked at again with each request, in ``calls``."""

    def __init__(self, path: Path, calls: BlockingCalls, clock: Clock) -> None:
        """Raises InvalidListenerSetting."""
        self._path = path
        self._calls = calls
        self._limit = LogLimit(clock)
        self._token = self._read()

    def _read(self) -> Secret:
        return read_metrics_token(self._path)

    async def is_it(self, given: str) -> bool:
        try:
            self._token = await self._calls.run(self._read)
        except InvalidListenerSetting as refusal:
            if self._limit.is_due("read"):
                log.error("%s; the token before is in force", refusal)
        return hmac.compare_digest(self._token.revealed().encode(), given.encode("utf-8", "surrogatepass"))


class AdminAccess:
    """``users`` is None until the broker runs, and stays so in a process without a broker."""

    def __init__(self, *, wants_login: bool = False, token: MetricsToken | None = None) -> None:
        self._wants_login = wants_login
        self._token = token
        self.users: AdminUsers | None = None

    async def check(self, request: HttpRequest) -> None:
        """Raises RequestRefused if the caller may not see what the request asks for."""
        if self._wants_login:
            await self._check_login(request)
        elif request.caller.certificate is not None and self.users is not None:
            self._check_right(self.users, request.caller, request.caller.certificate)

    @property
    def wants_login(self) -> bool:
        return self._wants_login

    async def principal_of(self, request: HttpRequest) -> Principal | None:
        """Returns who has logged in, or has shown a certificate; None at a listener with neither. Raises
        RequestRefused."""
        return await self._logged_in(request) if self._wants_login else request.caller.certificate

    async def _check_login(self, request: HttpRequest) -> None:
        scheme, _, given = request.authorization.revealed().partition(" ")
        if scheme.lower() == "bearer" and self._token is not None and request.path == "/metrics":
            if await self._token.is_it(given.strip()):
                return
            raise RequestRefused(UNAUTHORIZED, f"the token is not that of {TOKEN_SETTING}")
        principal = await self._logged_in(request)
        assert self.users is not None, "somebody has logged in"
        self._check_right(self.users, request.caller, principal)

    async def _logged_in(self, request: HttpRequest) -> Principal:
        """Raises RequestRefused."""
        scheme, _, given = request.authorization.revealed().partition(" ")
        if scheme.lower() != "basic":
            raise RequestRefused(UNAUTHORIZED, "log in as a user of the store")
        if self.users is None:
            raise RequestRefused(
                NOT_NOW,
                f"this process does not know the users (yet); {TOKEN_SETTING} lets a scrape in without one",
            )
        principal = await self.users.principal_of(request.caller.host, _claim_of(given.strip()))
        if principal is None:
            raise RequestRefused(UNAUTHORIZED, "the login failed: user or password is wrong")
        return principal

    def _check_right(self, users: AdminUsers, caller: HttpCaller, principal: Principal) -> None:
        if not users.may_describe(caller.host, principal):
            raise RequestRefused(
                FORBIDDEN,
                f"{principal} may not see the cluster: siltstone acls add {principal} describe --cluster",
            )


def _claim_of(given: str) -> PasswordClaim:
    """Raises RequestRefused."""
    try:
        user, colon, password = base64.b64decode(given, validate=True).partition(b":")
        if not colon:
            raise TokenRefused("there is no colon")
        return password_claim(b"\0" + user + b"\0" + password)
    except (binascii.Error, ValueError, TokenRefused):
        raise RequestRefused(
            UNAUTHORIZED, "the header Authorization is not Basic with a user and a password"
        ) from None


def of_listener(
    principal_of: Callable[[bytes | None], Principal], certificate_der: bytes | None
) -> Principal | None:
    """Returns the owner of a client's certificate; None: it showed none. Raises NoPrincipal."""
    return principal_of(certificate_der) if certificate_der else None
