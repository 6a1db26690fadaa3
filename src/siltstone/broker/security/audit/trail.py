"""Hears of what happens, and says in whose name: the place at which the rest of the broker tells the audit something.

A handler knows nothing of it. Commands are heard where they are executed (``MetadataService``). The request behind a
command is found by a context variable, which each task of Python inherits. A command without a request is the node's
own, and no event.
"""

import logging
from collections.abc import Container
from contextvars import ContextVar
from typing import Any

from msgspec.structs import replace

from siltstone.broker.request import ConnectionContext, Question, RequestContext
from siltstone.broker.security.acls.matching import AclVerdict, Caller
from siltstone.broker.security.audit.gathering import AuditGathering
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.metadata.changes import changes_of
from siltstone.metadata.commands import Command
from siltstone.metadata.image import MetadataImage
from siltstone.model.access import ANONYMOUS, NODE, Principal
from siltstone.model.audit import AuditEvent, AuditKind, AuditLevel, shortened
from siltstone.runtime.clock import Clock

CERTIFICATE = "TLS"
BASIC = "BASIC"
"""What stands as the mechanism where there is none of SASL."""

WRONG_PASSWORD = "the password is wrong, or there is no such user"  # noqa: S105  a reason

REQUEST: ContextVar[RequestContext | None] = ContextVar("the request under way", default=None)

log = logging.getLogger(__name__)


class AuditTrail:
    """``level`` OFF: it hears nothing."""

    def __init__(self, level: AuditLevel, clock: Clock, node_id: int) -> None:
        self.level = level
        self.gathering = AuditGathering(node_id)
        self._clock = clock

    @property
    def is_on(self) -> bool:
        return self.level is not AuditLevel.OFF

    @property
    def has_all(self) -> bool:
        return self.level is AuditLevel.ALL

    def add(self, event: AuditEvent, time_ms: int | None = None) -> None:
        self.gathering.add(event, self._clock.now_ms() if time_ms is None else time_ms)

    def executed(self, command: Command[Any], before: MetadataImage, after: MetadataImage) -> None:
        """A command of this node has been executed. Changes are in the node's log, too."""
        context = REQUEST.get()
        if context is None or context.connection.principal is NODE:
            return
        for event in changes_of(command, before, after):
            self.changed(context, event)

    def changed(self, context: RequestContext, event: AuditEvent) -> None:
        event = replace(event, **_asker(context.connection), api=ApiKey(context.api_key).title)
        log.info(
            "%s of %s by %s at %s: %r → %r",
            event.event, event.resource, event.principal, event.host, event.before, event.after,
        )  # fmt: skip
        self.add(event)

    # -- logins ------------------------------------------------------------------------------------------

    def came(self, connection: ConnectionContext) -> None:
        """A client has sent its first request. Where nobody logs in, the owner of a certificate is known by now."""
        connection.is_told = True
        protocol = connection.listener.protocol
        if connection.principal is not ANONYMOUS and protocol.is_encrypted and not protocol.wants_login:
            self.logged_in(connection, CERTIFICATE, connection.principal)

    def logged_in(self, connection: ConnectionContext, mechanism: str, principal: Principal) -> None:
        self._login(mechanism, str(principal), connection.client_host, connection.listener.name)

    def login_failed(
        self, connection: ConnectionContext, mechanism: str, reason: str, user: str, users: Container[str]
    ) -> None:
        """A name is written only if there is such a user: people type passwords there."""
        principal = str(Principal(user)) if user in users else ""
        self._login(mechanism, principal, connection.client_host, connection.listener.name, reason)

    def certificate_refused(self, listener: str, host: str, reason: str) -> None:
        """A client has shown a certificate that is not taken, or none where one is required: nobody is named."""
        self._login(CERTIFICATE, "", host, listener, reason)

    def asked_admin(
        self, listener: str, host: str, user: str, users: Container[str], *, is_proved: bool
    ) -> None:
        """Somebody has sent a password to an admin listener."""
        principal = str(Principal(user)) if user in users else ""
        self._login(BASIC, principal, host, listener, "" if is_proved else WRONG_PASSWORD)

    def _login(self, mechanism: str, principal: str, host: str, listener: str, reason: str = "") -> None:
        """``reason``: why it failed; empty: it succeeded."""
        if not self.has_all:
            return
        self.add(
            AuditEvent(
                event=AuditKind.LOGIN,
                outcome="failed" if reason else "succeeded",
                principal=shortened(principal),
                host=host,
                listener=listener,
                operation=mechanism,
                rule=shortened(reason),
            )
        )

    # -- rights ------------------------------------------------------------------------------------------

    def denied(
        self,
        connection: ConnectionContext,
        caller: Caller,
        api_key: int,
        question: Question,
        verdict: AclVerdict,
        *,
        is_refused: bool,
    ) -> None:
        if not self.has_all:
            return
        kind = question.resource_type.name.lower()
        self.add(
            AuditEvent(
                event=AuditKind.DENIED,
                outcome="refused" if is_refused else "passed",
                principal=shortened(caller.principal),
                host=caller.host,
                listener=connection.listener.name,
                api=ApiKey(api_key).title,
                operation=question.operation.name,
                resource=f"{kind} {'any' if question.name is None else shortened(question.name)}",
                rule="no ACL allows it" if verdict.binding is None else shortened(str(verdict.binding)),
            )
        )


def _asker(connection: ConnectionContext) -> dict[str, str]:
    return {
        "principal": shortened(str(connection.principal)),
        "host": connection.client_host,
        "listener": connection.listener.name,
    }
