"""Says what clients may do, from the bindings of the newest metadata image.

``acls.matching`` has the rule. A super user may do everything. In the mode REPORT everybody may, and what ON would
refuse is counted and logged. The mode is the store's, but never less strict than this node's setting (``floor``).

An answer is kept with its connection until any right changes, so a client that produces costs one look into a dict for
each request. While the mode is OFF nothing is looked up.
"""

import logging
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from siltstone.broker.request import Asked, ConnectionContext, KeptVerdicts, Question
from siltstone.broker.request_measures import RequestMeasures
from siltstone.broker.security.acls.matching import DENIED_BY_DEFAULT, AclIndex, AclVerdict, Caller
from siltstone.broker.security.audit.trail import AuditTrail
from siltstone.broker.security.node_rights import may_node
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.metadata.image import MetadataImage
from siltstone.model.access import NODE
from siltstone.model.acls import Authorization, AuthorizationMode
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import SECOND_MS
from siltstone.model.serving_limits import DENIALS_LOGGED_PER_SECOND_MAX, VERDICTS_MAX
from siltstone.runtime.clock import Clock

log = logging.getLogger(__name__)


class AuthorizationTooWeak(InvalidRequest):
    """The settings of a node ask for a stricter mode than its store has."""


def refuse_weaker_mode(floor: AuthorizationMode, standing: Authorization) -> None:
    """Raises AuthorizationTooWeak."""
    if standing.mode.is_below(floor):
        super_user = "" if standing.super_users else " --super-user User:NAME"
        raise AuthorizationTooWeak(
            f"broker.authorization is {floor}, and authorization of this store is {standing.mode}: switch it on first "
            f"(siltstone authorization {floor}{super_user if floor is AuthorizationMode.ON else ''}), or take the "
            "setting away"
        )


class Authorizer:
    """``image`` returns the newest image."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        clock: Clock,
        measures: RequestMeasures,
        floor: AuthorizationMode = AuthorizationMode.OFF,
        trail: AuditTrail | None = None,
    ) -> None:
        self._newest = image
        self._measures = measures
        self._floor = floor
        self._trail = trail
        self._image = MetadataImage()
        self._index = AclIndex()
        self._log = RefusalLog(clock)
        self._version = 0
        self._mode = floor
        self._super_users: frozenset[str] = frozenset()

    @property
    def mode(self) -> AuthorizationMode:
        self._follow()
        return self._mode

    @property
    def version(self) -> int:
        """See Rights."""
        self._follow()
        return self._version

    @property
    def is_open(self) -> bool:
        """See Rights."""
        return self.mode is AuthorizationMode.OFF

    def _follow(self) -> None:
        image, before = self._newest(), self._image
        if image is before:
            return
        self._image = image
        if image.authorization != before.authorization:
            self._version += 1
            standing = image.authorization
            self._mode = self._floor if standing.mode.is_below(self._floor) else standing.mode
            self._super_users = frozenset(standing.super_users)
            if self._mode is not standing.mode:
                log.warning(
                    "authorization of the store is %s; this node keeps to %s, as broker.authorization says",
                    standing.mode, self._floor,
                )  # fmt: skip
        if not image.acls.is_unchanged_from(before.acls):
            self._version += 1
            gone = [binding for key, binding in before.acls.changed_from(image.acls) if key not in image.acls]
            for binding in gone:
                self._index.remove(binding)
            for _, binding in image.acls.changed_from(before.acls):
                self._index.add(binding)

    def is_known(self, connection: ConnectionContext, asked: Asked) -> bool:
        """See Rights."""
        if self._newest() is not self._image:
            self._follow()
        if self._mode is AuthorizationMode.OFF:
            return True
        kept = connection.verdicts
        return (
            kept.version == self._version
            and kept.principal is connection.principal
            and kept.allowed.get(asked, False)
        )

    def may(self, connection: ConnectionContext, api_key: int, question: Question) -> bool:
        """See Rights."""
        self._follow()
        if self._mode is AuthorizationMode.OFF:
            return True
        if connection.principal is NODE:
            return may_node(api_key, question)
        kept = connection.verdicts
        if kept.version != self._version or kept.principal is not connection.principal:
            kept = connection.verdicts = KeptVerdicts(self._version, connection.principal)
        asked = (question.operation, question.resource_type, question.name)
        is_allowed = kept.allowed.get(asked)
        if is_allowed:
            return True
        caller = Caller(str(connection.principal), plain_host(connection.client_host))
        verdict = self.verdict(caller, question)
        if is_allowed is None and len(kept.allowed) < VERDICTS_MAX:
            kept.allowed[asked] = verdict.is_allowed
        if not verdict.is_allowed:
            self._denied(connection, caller, api_key, question, verdict)
        return verdict.is_allowed or self._mode is AuthorizationMode.REPORT

    def verdict(self, caller: Caller, question: Question) -> AclVerdict:
        """Returns what the bindings say of the newest image, whatever the mode."""
        self._follow()
        if caller.principal in self._super_users:
            return AclVerdict(True)
        if question.name is None:
            return self._index.verdict_of_any(caller, question.operation, question.resource_type)
        if not question.name:
            return DENIED_BY_DEFAULT
        return self._index.verdict(caller, question.operation, question.resource_type, question.name)

    def _denied(
        self,
        connection: ConnectionContext,
        caller: Caller,
        api_key: int,
        question: Question,
        verdict: AclVerdict,
    ) -> None:
        if question.is_named:
            if self._trail is not None:
                is_refused = self._mode is AuthorizationMode.ON
                self._trail.denied(connection, caller, api_key, question, verdict, is_refused=is_refused)
            self._measures.denied(api_key, is_refused=self._mode is AuthorizationMode.ON)
        self._log.write(
            "%s %s from %s: %s of %s on %s %s: %s",
            "denied" if self._mode is AuthorizationMode.ON else "would be denied", caller.principal, caller.host,
            question.operation.name, ApiKey(api_key).name, question.resource_type.name,
            "any" if question.name is None else repr(question.name[:300]),
            "no ACL allows it" if verdict.binding is None else f"by the ACL {verdict.binding}",
            level=logging.INFO if question.is_named else logging.DEBUG,
        )  # fmt: skip


def plain_host(host: str) -> str:
    """Returns the address as ACLs name it: one of IPv4 that came over IPv6 is that of IPv4."""
    if not host.lower().startswith("::ffff:"):
        return host
    address = ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return host if mapped is None else str(mapped)


class RefusalLog:
    """Logs refusals, so many a second; the others are counted in one line."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = 0
        self._written = 0
        self._dropped = 0

    def write(self, text: str, *values: object, level: int) -> None:
        if not log.isEnabledFor(level):
            return
        second = int(self._clock.monotonic_ms() // SECOND_MS)
        if second != self._second:
            if self._dropped:
                log.info("%d more refusals were not logged", self._dropped)
            self._second, self._written, self._dropped = second, 0, 0
        if self._written >= DENIALS_LOGGED_PER_SECOND_MAX:
            self._dropped += 1
            return
        self._written += 1
        log.log(level, text, *values)
