"""The states of a login as a table: state and event give answer and next state [Kafka: SaslServerAuthenticator].

A pair that is not in the table closes the connection without an answer. On a listener with a login a connection begins
in START, and no handler sees a request of it before AUTHENTICATED. A node logs in wherever nodes reach each other; on a
listener without a login it begins in AUTHENTICATED.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

import msgspec

from siltstone.broker.request import LoginSession
from siltstone.model.access import SessionState
from siltstone.model.limits import SECOND_MS

_START, _VERSIONS = SessionState.START, SessionState.VERSIONS
_EXCHANGE, _DONE = SessionState.EXCHANGE, SessionState.AUTHENTICATED
_AGAIN, _CLOSING = SessionState.REAUTHENTICATE, SessionState.CLOSING


class LoginEvent(Enum):
    """What a request is, at its state of the login."""

    VERSIONS = "ApiVersions"
    VERSIONS_UNKNOWN = "ApiVersions in an unknown version"
    SOFTWARE_UNFIT = "ApiVersions with a name of software that is not allowed"
    HANDSHAKE = "SaslHandshake with a mechanism of the listener"
    HANDSHAKE_UNFIT = "SaslHandshake with another mechanism, or in version 0"
    NODE_HANDSHAKE = "SaslHandshake of a node, at the listener of the nodes, where nobody has logged in yet"
    TOO_EARLY = "SaslHandshake of a session that does not expire, or began less than a second ago"
    GOES_ON = "SaslAuthenticate, with more to come"
    COMPLETE = "SaslAuthenticate, the last"
    WRONG = "SaslAuthenticate that proves nothing"
    UNASKED = "SaslAuthenticate without a SaslHandshake before it"
    OTHER = "another request"


class LoginAnswer(Enum):
    """What the client is answered."""

    VERSIONS = "the list of APIs"
    VERSIONS_REFUSED = "version 0, code 35"
    SOFTWARE_REFUSED = "code 42"
    MECHANISMS = "code 0 and the mechanisms"
    MECHANISMS_REFUSED = "code 33 and the mechanisms"
    CHALLENGE = "code 0 and bytes"
    SUCCESS = "code 0, bytes, and how long the session lasts"
    FAILURE = "code 58, in the same words for every cause, after a pause"
    ILLEGAL = "code 34"


class LoginMove(msgspec.Struct, frozen=True):
    """The answer, and the state after it."""

    reply: LoginAnswer
    state: SessionState


_BEFORE = {
    LoginEvent.VERSIONS_UNKNOWN: LoginMove(LoginAnswer.VERSIONS_REFUSED, _START),
    LoginEvent.SOFTWARE_UNFIT: LoginMove(LoginAnswer.SOFTWARE_REFUSED, _START),
    LoginEvent.VERSIONS: LoginMove(LoginAnswer.VERSIONS, _VERSIONS),
}
_HANDSHAKES = {
    LoginEvent.HANDSHAKE: LoginMove(LoginAnswer.MECHANISMS, _EXCHANGE),
    LoginEvent.NODE_HANDSHAKE: LoginMove(LoginAnswer.MECHANISMS, _EXCHANGE),
    LoginEvent.HANDSHAKE_UNFIT: LoginMove(LoginAnswer.MECHANISMS_REFUSED, _CLOSING),
}
_STEPS = {
    LoginEvent.COMPLETE: LoginMove(LoginAnswer.SUCCESS, _DONE),
    LoginEvent.WRONG: LoginMove(LoginAnswer.FAILURE, _CLOSING),
}

LOGIN_MOVES: Mapping[tuple[SessionState, LoginEvent], LoginMove] = MappingProxyType({
    **{(_START, event): move for event, move in (_BEFORE | _HANDSHAKES).items()},
    **{(_VERSIONS, event): move for event, move in _HANDSHAKES.items()},
    **{(_EXCHANGE, event): move for event, move in _STEPS.items()},
    (_EXCHANGE, LoginEvent.GOES_ON): LoginMove(LoginAnswer.CHALLENGE, _EXCHANGE),
    (_DONE, LoginEvent.HANDSHAKE): LoginMove(LoginAnswer.MECHANISMS, _AGAIN),
    (_DONE, LoginEvent.NODE_HANDSHAKE): LoginMove(LoginAnswer.MECHANISMS, _EXCHANGE),
    (_DONE, LoginEvent.HANDSHAKE_UNFIT): LoginMove(LoginAnswer.MECHANISMS_REFUSED, _CLOSING),
    (_DONE, LoginEvent.TOO_EARLY): LoginMove(LoginAnswer.ILLEGAL, _DONE),
    (_DONE, LoginEvent.UNASKED): LoginMove(LoginAnswer.ILLEGAL, _DONE),
    **{(_AGAIN, event): move for event, move in _STEPS.items()},
    (_AGAIN, LoginEvent.GOES_ON): LoginMove(LoginAnswer.CHALLENGE, _AGAIN),
})  # fmt: skip


REAUTHENTICATION_INTERVAL_MS = 1 * SECOND_MS
"""A session may log in again this long after it began [Kafka]."""


def may_log_in_again(session: LoginSession, now_ms: float) -> bool:
    """Whether a session that is logged in may begin another login. One that never expires needs none."""
    return session.expires_ms != float("inf") and now_ms >= session.began_ms + REAUTHENTICATION_INTERVAL_MS
