"""How long a node continues with the users and rights that it knows, when it cannot read the metadata log any more.

A user that was dismissed must not read all day because a node is cut off, and two minutes without the database must not
stop a broker. So a node continues for a stated time, and then answers nothing that a user or a right decides: it says
that partitions and groups are led elsewhere, and closes everything else. The codes for missing rights
are not used: clients hand those to their users and do not look for another node.
"""

import logging
from collections.abc import Callable

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.model.limits import SECOND_MS

ANSWERED_WHEN_STALE = frozenset({
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT,
})  # fmt: skip
"""These are answered that the node is not the leader (6) or not the coordinator (16), and clients look elsewhere. Any
other request closes its connection."""

log = logging.getLogger(__name__)


class Staleness:
    """``age_ms`` returns how long ago the metadata log was read to its head, since the sending of that read.
    ``is_guarded``: whether there is a login or a right that could have changed meanwhile."""

    def __init__(
        self, age_ms: Callable[[], float], limit_ms: float, is_guarded: Callable[[], bool] = lambda: True
    ) -> None:
        self._age_ms = age_ms
        self._limit_ms = limit_ms
        self._is_guarded = is_guarded
        self._was_over = False

    @property
    def is_over(self) -> bool:
        """Whether what this node knows of users and rights is too old to go by."""
        is_over = self._age_ms() > self._limit_ms and self._is_guarded()
        if is_over is not self._was_over:
            self._was_over = is_over
            if is_over:
                log.error("%s: clients are turned away until it can be read", self.reason)
            else:
                log.warning(
                    "the metadata log was read again: clients are served by the newest users and rights"
                )
        return is_over

    @property
    def reason(self) -> str:
        """Says why clients are turned away."""
        return (
            f"the metadata log could not be read for {self._limit_ms / SECOND_MS:g} s, and users or rights may have "
            "changed (broker.security_stale_ms_max)"
        )
