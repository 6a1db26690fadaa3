"""The users of a broker, for its admin listener: their passwords, and whether they may see the cluster.

A scrape comes every few seconds and sends its password each time. So a password that was right counts for a minute
without being hashed again, as long as the user's credential has not changed; it is kept as a keyed hash.
"""

import hmac

import msgspec

from siltstone.broker.broker import KafkaBroker
from siltstone.broker.request import Question
from siltstone.broker.security.acls.matching import Caller
from siltstone.broker.security.authorizer import plain_host
from siltstone.broker.security.sasl.plain import PasswordClaim
from siltstone.metadata.users import ScramCredential
from siltstone.model.access import Principal
from siltstone.model.acls import CLUSTER_NAME, AclOperation, AclResourceType, AuthorizationMode
from siltstone.model.limits import MINUTE_MS
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.server.admin.addresses import NAME
from siltstone.server.admin.http_request import RequestRefused

KEPT_MS = 1 * MINUTE_MS
KEPT_MAX = 1_000
CHECKS_MAX = 16
"""The most passwords that are checked, or wait because they were wrong: a quarter of the connections that an admin
listener may have, so that wrong ones keep no probe out."""

KEY_BYTES = 32
_SEEING = Question(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)


class _Kept(msgspec.Struct, frozen=True):
    credential: ScramCredential
    until_ms: float


class BrokerUsers:
    """``rng`` makes the key under which passwords that were right are kept."""

    def __init__(self, broker: KafkaBroker, clock: Clock, rng: Random) -> None:
        self._broker = broker
        self._clock = clock
        self._key = rng.getrandbits(8 * KEY_BYTES).to_bytes(KEY_BYTES, "big")
        self._kept: dict[bytes, _Kept] = {}
        self._checks = 0

    async def principal_of(self, host: str, claim: PasswordClaim) -> Principal | None:
        """Returns who proves a name by its password, after a pause if nobody does. Raises RequestRefused."""
        self._refuse_when_stale()
        authenticator = self._broker.authenticator
        credential = authenticator.strongest_credential(claim.user)
        said = f"{claim.user}\0{claim.password.revealed()}".encode("utf-8", "surrogatepass")
        key = hmac.digest(self._key, said, "sha256")
        kept, now_ms = self._kept.get(key), self._clock.monotonic_ms()
        if kept is not None and kept.until_ms > now_ms and kept.credential == credential:
            return Principal(claim.user)
        if self._checks >= CHECKS_MAX:
            raise RequestRefused(
                503, "too many passwords are being checked: come back, or use a token or a certificate"
            )
        self._checks += 1
        try:
            is_proved = await authenticator.proves(host, claim)
        finally:
            self._checks -= 1
        users = self._broker.parts.metadata.image.users
        self._broker.trail.asked_admin(NAME, host, claim.user, users, is_proved=is_proved)
        if not is_proved:
            self._kept.pop(key, None)
            await authenticator.pause(host, claim.user)  # not among the checks: others are let in meanwhile
            return None
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[key] = _Kept(credential, now_ms + KEPT_MS)
        return Principal(claim.user)

    def may_describe(self, host: str, principal: Principal) -> bool:
        """Raises RequestRefused."""
        return self.may(host, principal, _SEEING)

    @property
    def may_see_all(self) -> bool:
        return self._broker.authorizer.mode is not AuthorizationMode.ON

    def may(self, host: str, principal: Principal, question: Question) -> bool:
        """Returns what the rights of the store say; without authorization everything is allowed. Raises
        RequestRefused."""
        self._refuse_when_stale()
        if self.may_see_all:
            return True
        return self._broker.authorizer.verdict(Caller(str(principal), plain_host(host)), question).is_allowed

    def _refuse_when_stale(self) -> None:
        if self._broker.staleness.is_over:
            raise RequestRefused(503, self._broker.staleness.reason)
