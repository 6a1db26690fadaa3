"""Logs clients in: it gets every request of a connection that is not logged in, and walks ``sasl.states``.

``KafkaBroker.handle`` asks it before it looks for a handler, so no handler is reached before a login, and no body of
such a request is decoded. An answer to a wrong login is the same for every cause, and waits (``failed_logins``). The
log names the cause, once a minute for each host, and never a password, a salt, a proof or a token.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from siltstone.broker.request import (
    Answer,
    CloseConnection,
    ConnectionContext,
    EncodedBody,
    RequestContext,
    frame_of,
)
from siltstone.broker.request_measures import RequestMeasures
from siltstone.broker.security.audit.trail import AuditTrail
from siltstone.broker.security.bearer.tokens import BearerTokens
from siltstone.broker.security.failed_logins import FailedLogins
from siltstone.broker.security.made_up import MadeUpCredentials
from siltstone.broker.security.node_logins import NodeLogins
from siltstone.broker.security.sasl.node import NodeExchange
from siltstone.broker.security.sasl.oauthbearer import INVALID_TOKEN, BearerClaim, BearerExchange
from siltstone.broker.security.sasl.plain import PasswordClaim, TokenRefused, is_password, password_claim
from siltstone.broker.security.sasl.scram import ScramExchange
from siltstone.broker.security.sasl.states import (
    LOGIN_MOVES,
    LoginAnswer,
    LoginEvent,
    LoginMove,
    may_log_in_again,
)
from siltstone.broker.versions_answer import versions_answer
from siltstone.kafka_protocol.announced import ANNOUNCED, unsupported_version_body
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.metadata.entities import NodeLife
from siltstone.metadata.service import MetadataService
from siltstone.metadata.users import ScramCredential
from siltstone.model.access import (
    NODE,
    RESERVED_USERS,
    LoginMechanism,
    NodeMechanism,
    Principal,
    ScramMechanism,
    SessionState,
)
from siltstone.model.serving_limits import FAILED_LOGIN_MS_MIN, PASSWORD_CHECKS_MAX, SASL_FRAMES_MAX
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit
from siltstone.runtime.randomness import Random
from siltstone.runtime.tasks import ends_in_time

NONCE_BITS = 160
FAILED = "the login failed: user, password or mechanism is wrong"
"""What every client reads whose login fails, for whatever cause."""

SHOWN_CHARACTERS = 64
_MECHANISMS: tuple[LoginMechanism | NodeMechanism, ...] = (*LoginMechanism, *NodeMechanism)
_OF_LOGINS = frozenset({int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)})
_RAW_TOKENS = 0
"""The version of a handshake after which tokens come without a frame of Kafka's."""

Claim = PasswordClaim | BearerClaim | NodeLife
"""What a client says of itself, and has not proved yet."""

log = logging.getLogger(__name__)


class LoginStatistics(msgspec.Struct, frozen=True):
    """``succeeded`` and ``failed`` by mechanism; ``expired``: connections that were closed since they had not logged in
    again."""

    succeeded: dict[LoginMechanism | NodeMechanism, int]
    failed: dict[LoginMechanism | NodeMechanism, int]
    expired: int


class _Finished(msgspec.Struct, frozen=True):
    """A login has proved that the client is ``user``; ``token`` is for the client. ``expires_ms``: when its
    proof expires, in ms since 1970; None: never."""

    user: str
    token: bytes
    node: NodeLife | None = None
    expires_ms: int | None = None


class Authenticator:
    """``password_calls`` checks passwords of PLAIN in threads of its own. ``nodes``: the logins of other nodes; None:
    this broker has no others. ``bearers``: listener → the tokens that it takes."""

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        rng: Random,
        measures: RequestMeasures,
        made_up: MadeUpCredentials,
        password_calls: BlockingCalls,
        trail: AuditTrail,
        nodes: NodeLogins | None = None,
        bearers: Mapping[str, BearerTokens] = MappingProxyType({}),
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._rng = rng
        self._measures = measures
        self._made_up = made_up
        self._password_calls = password_calls
        self._nodes = nodes
        self.bearers = bearers
        self._trail = trail
        self._failed_logins = FailedLogins()
        self._ending = asyncio.Event()
        self._limit = LogLimit(clock)
        self._checks_waiting = self._expired = 0
        self._succeeded: dict[LoginMechanism | NodeMechanism, int] = dict.fromkeys(_MECHANISMS, 0)
        self._failed: dict[LoginMechanism | NodeMechanism, int] = dict.fromkeys(_MECHANISMS, 0)

    @staticmethod
    def is_wanted(context: RequestContext) -> bool:
        """Whether a request is for the authenticator, and for no handler: the client is not logged in, its session has
        expired, or the request is one of logins."""
        session = context.connection.session
        return (
            session.state is not SessionState.AUTHENTICATED
            or context.api_key in _OF_LOGINS
            or context.begun_ms >= session.expires_ms
        )

    def handle(self, context: RequestContext, body: memoryview) -> Answer | Coroutine[Any, Any, Answer]:
        """Answers a request for which ``is_wanted`` is true. Raises CloseConnection, MalformedMessage."""
        connection = context.connection
        session = connection.session
        if session.state is SessionState.AUTHENTICATED and context.api_key != ApiKey.SASL_HANDSHAKE:
            if context.begun_ms >= session.expires_ms:
                self._expired += 1
                raise CloseConnection("the session has expired, and the client has not logged in again")
        elif session.state is not SessionState.AUTHENTICATED:
            session.requests += 1
            if session.requests > SASL_FRAMES_MAX:
                raise CloseConnection(f"more than {SASL_FRAMES_MAX} requests came before the login")
        if context.api_key in ANNOUNCED:
            self._measures.begin(context.api_key)
        if context.api_key == ApiKey.API_VERSIONS:
            return self._versions(context, body)
        if context.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(context, body)
        if context.api_key == ApiKey.SASL_AUTHENTICATE:
            return self._authenticate(context, body)
        self._move(connection, LoginEvent.OTHER)
        raise AssertionError("no state takes another request")

    def _move(self, connection: ConnectionContext, event: LoginEvent) -> LoginMove:
        """Changes the state as the table says. Raises CloseConnection."""
        state = connection.session.state
        move = LOGIN_MOVES.get((state, event))
        if move is None:
            raise CloseConnection(f"{event.value} is not expected in a login that is at its {state.value}")
        connection.session.state = move.state
        return move

    # -- the three requests ------------------------------------------------------------------------------

    def _versions(self, context: RequestContext, body: memoryview) -> Answer:
        lowest, highest = ANNOUNCED[ApiKey.API_VERSIONS]
        if not lowest <= context.api_version <= highest:
            self._move(context.connection, LoginEvent.VERSIONS_UNKNOWN)
            return frame_of(context, unsupported_version_body())
        request = decode(ApiVersionsRequest, context.api_version, body)
        answer = versions_answer(context, request, self._metadata.image)
        is_list = isinstance(answer, EncodedBody)
        self._move(context.connection, LoginEvent.VERSIONS if is_list else LoginEvent.SOFTWARE_UNFIT)
        return self._answered(context, answer)

    def _handshake(self, context: RequestContext, body: memoryview) -> Answer:
        _refuse_version(context)
        connection, session = context.connection, context.connection.session
        mechanism = decode(SaslHandshakeRequest, context.api_version, body).mechanism
        is_node = mechanism == NodeMechanism.SILTSTONE_NODE and context.api_version != _RAW_TOKENS
        if is_node and self._nodes is not None and self._nodes.takes(connection):
            event = LoginEvent.NODE_HANDSHAKE
        elif session.state is SessionState.AUTHENTICATED and not may_log_in_again(session, context.begun_ms):
            event = LoginEvent.TOO_EARLY
        elif context.api_version == _RAW_TOKENS or mechanism not in connection.listener.mechanisms:
            event = LoginEvent.HANDSHAKE_UNFIT
        else:
            event = LoginEvent.HANDSHAKE
        move = self._move(connection, event)
        if move.reply is LoginAnswer.ILLEGAL:
            if not connection.listener.protocol.wants_login:
                self._tell_no_login(connection)
            return self._answered(context, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        offered = [str(each) for each in connection.listener.mechanisms]
        if move.reply is LoginAnswer.MECHANISMS_REFUSED:
            self._tell_unfit(connection, mechanism, context.api_version)
            refusal = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return self._answered(context, SaslHandshakeResponse(error_code=refusal, mechanisms=offered))
        if event is LoginEvent.NODE_HANDSHAKE:
            assert self._nodes is not None
            session.mechanism, session.exchange = (
                NodeMechanism.SILTSTONE_NODE,
                self._nodes.exchange(connection),
            )
        else:
            self._begin_exchange(connection, LoginMechanism(mechanism))
        return self._answered(context, SaslHandshakeResponse(mechanisms=offered))

    def _begin_exchange(self, connection: ConnectionContext, mechanism: LoginMechanism) -> None:
        session = connection.session
        is_change = session.state is SessionState.REAUTHENTICATE and mechanism is not session.mechanism
        session.mechanism, session.exchange = mechanism, None
        if is_change:
            session.exchange = TokenRefused("a session logs in again by the same mechanism")
        elif mechanism.scram is not None:
            nonce = f"{self._rng.getrandbits(NONCE_BITS):x}"
            session.exchange = ScramExchange(mechanism.scram, self._credential_of, nonce)
        elif mechanism is LoginMechanism.OAUTHBEARER:
            session.exchange = BearerExchange()

    def _authenticate(
        self, context: RequestContext, body: memoryview
    ) -> Answer | Coroutine[Any, Any, Answer]:
        _refuse_version(context)
        session = context.connection.session
        if session.state is SessionState.AUTHENTICATED:
            self._move(context.connection, LoginEvent.UNASKED)
            return self._answered(
                context,
                SaslAuthenticateResponse(
                    error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="a SaslHandshake comes first"
                ),
            )
        if session.state not in (SessionState.EXCHANGE, SessionState.REAUTHENTICATE):
            self._move(context.connection, LoginEvent.UNASKED)
        token = bytes(decode(SaslAuthenticateRequest, context.api_version, body).auth_bytes)
        try:
            outcome = self._step(session.exchange, token)
            if isinstance(outcome, _Finished):
                _refuse_other_user(context.connection, outcome)
        except TokenRefused as refusal:
            return self._fail(context, str(refusal))
        if isinstance(outcome, Claim):
            return self._checked(context, session.exchange, outcome)
        if isinstance(outcome, _Finished):
            return self._succeed(context, outcome)
        self._move(context.connection, LoginEvent.GOES_ON)
        return self._answered(context, SaslAuthenticateResponse(error_message=None, auth_bytes=outcome))

    def _checked(self, context: RequestContext, exchange: Any, claim: Claim) -> Coroutine[Any, Any, Answer]:
        if isinstance(claim, PasswordClaim):
            return self._check(context, claim)
        if isinstance(claim, BearerClaim):
            return self._check_token(context, exchange, claim)
        return self._challenge_node(context, exchange, claim)

    def _step(self, exchange: Any, token: bytes) -> bytes | _Finished | Claim:
        """Returns a challenge, a user who has proved its name, or what a client claims and is to be checked. Raises
        TokenRefused."""
        if isinstance(exchange, TokenRefused):
            raise exchange
        if isinstance(exchange, NodeExchange):
            if exchange.caller is None:
                return exchange.claimed(token)
            return _Finished(NODE.name, exchange.final(token), exchange.caller)
        if isinstance(exchange, BearerExchange):
            return exchange.first(token)
        if exchange is None:
            return password_claim(token)
        assert isinstance(exchange, ScramExchange)
        if exchange.credential is None:
            return exchange.first(token)
        answer = exchange.final(token)
        self._refuse_changed(exchange.user, exchange.credential)
        return _Finished(exchange.user, answer)

    async def _challenge_node(
        self, context: RequestContext, exchange: NodeExchange, caller: NodeLife
    ) -> Answer:
        """A node that has just started may call before this one has read its secret."""
        assert self._nodes is not None
        if self._nodes.is_to_be_learned(caller):
            await self._nodes.learn()
        self._move(context.connection, LoginEvent.GOES_ON)
        return self._answered(
            context, SaslAuthenticateResponse(error_message=None, auth_bytes=exchange.challenge)
        )

    async def _check(self, context: RequestContext, claim: PasswordClaim) -> Answer:
        if self._checks_waiting >= PASSWORD_CHECKS_MAX:
            raise CloseConnection("too many passwords are being checked: the client has to come back")
        credential = self.strongest_credential(claim.user)
        is_right = await self._is_password(claim, credential)
        try:
            if not is_right:
                raise TokenRefused("the password is wrong, or there is no such user")
            self._refuse_changed(claim.user, credential)
            finished = _Finished(claim.user, b"")
            _refuse_other_user(context.connection, finished)
        except TokenRefused as refusal:
            return await self._fail(context, str(refusal), claim.user)
        return self._succeed(context, finished)

    async def _is_password(self, claim: PasswordClaim, credential: ScramCredential) -> bool:
        self._checks_waiting += 1
        try:
            return await self._password_calls.run(is_password, claim.password, credential)
        finally:
            self._checks_waiting -= 1

    async def proves(self, host: str, claim: PasswordClaim) -> bool:
        """Returns whether the password is that of the user, for logins at other listeners than Kafka's. The answer
        to a wrong one waits in ``pause``, as it does there."""
        credential = self.strongest_credential(claim.user)
        is_right = self._checks_waiting < PASSWORD_CHECKS_MAX and await self._is_password(claim, credential)
        if is_right and self.strongest_credential(claim.user) == credential:
            self._failed_logins.succeeded(host, claim.user)
            return True
        return False

    async def pause(self, host: str, user: str, pause_ms: float | None = None) -> None:
        pause_ms = pause_ms or self._failed_logins.pause_ms(host, user, self._clock.monotonic_ms())
        await ends_in_time(self._ended(), self._clock, pause_ms)

    async def _check_token(
        self, context: RequestContext, exchange: BearerExchange, claim: BearerClaim
    ) -> Answer:
        """A token that is refused is answered with a challenge first, as RFC 7628 wants it."""
        if self._checks_waiting >= PASSWORD_CHECKS_MAX:
            raise CloseConnection("too many tokens are being checked: the client has to come back")
        self._checks_waiting += 1
        try:
            accepted = await self.bearers[context.connection.listener.name].accepted(claim)
            finished = _Finished(accepted.user, b"", expires_ms=accepted.expires_ms)
            _refuse_other_user(context.connection, finished)
        except TokenRefused as refusal:
            exchange.refusal = str(refusal)
            self._move(context.connection, LoginEvent.GOES_ON)
            return self._answered(
                context, SaslAuthenticateResponse(error_message=None, auth_bytes=INVALID_TOKEN)
            )
        finally:
            self._checks_waiting -= 1
        return self._succeed(context, finished)

    # -- users -------------------------------------------------------------------------------------------

    def _credential_of(self, name: str, mechanism: ScramMechanism) -> ScramCredential:
        users = self._metadata.image.users
        # Also for a known user: the time of an answer would tell who is known.
        made_up = self._made_up.of(name, mechanism, users)
        user = users.get(name)
        credential = None if user is None else user.credential(mechanism)
        return credential or made_up

    def strongest_credential(self, name: str) -> ScramCredential:
        """Returns the strongest credential that the user has, or a made-up one."""
        user = self._metadata.image.users.get(name)
        known = () if user is None else [each.mechanism for each in user.credentials]
        return self._credential_of(name, max(known, default=ScramMechanism.SCRAM_SHA_512))

    def _refuse_changed(self, name: str, credential: ScramCredential) -> None:
        """Refuses a login that began with a credential that has been changed or removed meanwhile. Raises
        TokenRefused."""
        if self._credential_of(name, credential.mechanism) != credential or name.startswith(RESERVED_USERS):
            raise TokenRefused("the credential was changed during the login")

    # -- ends of a login ---------------------------------------------------------------------------------

    def _succeed(self, context: RequestContext, finished: _Finished) -> Answer:
        connection, session = context.connection, context.connection.session
        self._move(connection, LoginEvent.COMPLETE)
        assert session.mechanism is not None
        self._succeeded[session.mechanism] += 1
        self._failed_logins.succeeded(connection.client_host, finished.user)
        connection.principal = Principal(finished.user) if finished.node is None else NODE
        self._trail.logged_in(connection, session.mechanism, connection.principal)
        session.exchange, session.requests, session.node = None, 0, finished.node
        lifetime_ms = self._lifetime_ms(connection, finished)
        session.began_ms = self._clock.monotonic_ms()
        session.expires_ms = session.began_ms + lifetime_ms if lifetime_ms else float("inf")
        return self._answered(
            context,
            SaslAuthenticateResponse(
                error_message=None, auth_bytes=finished.token, session_lifetime_ms=lifetime_ms
            ),
        )

    def _lifetime_ms(self, connection: ConnectionContext, finished: _Finished) -> int:
        """Returns how long a session lasts: until its token expires, and at most as long as its listener says; 0: as
        long as its connection. A node's lasts so."""
        longest_ms = connection.listener.reauthentication_ms_max if finished.node is None else 0
        if finished.expires_ms is None:
            return longest_ms
        left_ms = max(finished.expires_ms - self._clock.now_ms(), 1)
        return min(left_ms, longest_ms or left_ms)

    async def _fail(self, context: RequestContext, reason: str, user: str = "") -> Answer:
        connection, session = context.connection, context.connection.session
        assert session.mechanism is not None
        user = user or getattr(session.exchange, "user", "")
        is_node = isinstance(session.exchange, NodeExchange)
        session.exchange = None
        self._failed[session.mechanism] += 1
        self._tell_failure(connection, session.mechanism, user, reason)
        self._trail.login_failed(connection, session.mechanism, reason, user, self._metadata.image.users)
        # Nobody guesses the 256 bits of a node, and one that was early is back at once.
        await self.pause(connection.client_host, user, FAILED_LOGIN_MS_MIN if is_node else None)
        self._move(connection, LoginEvent.WRONG)
        return self._answered(
            context,
            SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=FAILED),
        )

    def _answered(self, context: RequestContext, answer: Message | EncodedBody) -> Answer:
        if isinstance(answer, EncodedBody):
            body = answer.body
        else:
            self._measures.count_errors(context.api_key, answer)
            body = encode(answer, context.api_version)
        seconds = (self._clock.monotonic_ms() - context.begun_ms) / 1000
        self._measures.answered(context.api_key, seconds)
        return frame_of(context, body)

    # -- the log -----------------------------------------------------------------------------------------

    def _tell_failure(
        self, connection: ConnectionContext, mechanism: LoginMechanism | NodeMechanism, user: str, reason: str
    ) -> None:
        is_due = self._limit.is_due((connection.listener.name, connection.client_host))
        log.log(
            logging.WARNING if is_due else logging.DEBUG,
            "a login from %s at listener %s by %s as %r failed: %s. This is logged once a minute for each host",
            connection.client_host, connection.listener.name, mechanism, user[:SHOWN_CHARACTERS], reason,
        )  # fmt: skip

    def _tell_unfit(self, connection: ConnectionContext, mechanism: str, version: int) -> None:
        if not self._limit.is_due(("mechanism", connection.client_host)):
            return
        offered = ", ".join(connection.listener.mechanisms)
        wanted = (
            "raw tokens (SaslHandshake 0)" if version == _RAW_TOKENS else repr(mechanism[:SHOWN_CHARACTERS])
        )
        log.warning(
            "a client at %s wants to log in at listener %s by %s, and the listener takes %s: set sasl.mechanism in the "
            "client, or listener.%s.sasl_mechanisms",
            connection.client_host, connection.listener.name, wanted, offered, connection.listener.name,
        )  # fmt: skip

    def _tell_no_login(self, connection: ConnectionContext) -> None:
        if self._limit.is_due(("no login", connection.client_host)):
            log.warning(
                "a client at %s wants to log in (SASL), and listener %s has no login: set its security.protocol to %s",
                connection.client_host, connection.listener.name, connection.listener.protocol,
            )  # fmt: skip

    async def _ended(self) -> None:
        await self._ending.wait()

    def end_waits(self) -> None:
        """Answers the wrong passwords that wait, because the node is closing."""
        self._ending.set()

    def statistics(self) -> LoginStatistics:
        return LoginStatistics(dict(self._succeeded), dict(self._failed), self._expired)


def _refuse_other_user(connection: ConnectionContext, finished: _Finished) -> None:
    """Refuses names that no client may have, and another user in a second login. Raises TokenRefused."""
    if finished.node is None and finished.user.startswith(RESERVED_USERS):
        raise TokenRefused("it claims a name of the nodes")
    is_again = connection.session.state is SessionState.REAUTHENTICATE
    if is_again and Principal(finished.user) != connection.principal:
        raise TokenRefused("a session logs in again as the same user")


def _refuse_version(context: RequestContext) -> None:
    """Raises CloseConnection."""
    lowest, highest = ANNOUNCED[ApiKey(context.api_key)]
    if not lowest <= context.api_version <= highest:
        raise CloseConnection(f"version {context.api_version} of a request of logins is not supported")
