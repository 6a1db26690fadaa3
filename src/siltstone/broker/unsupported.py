"""Refuses requests for APIs and versions that this broker does not support, with a line in the log for the operator.

The protocol has no answer for them, so the connection is closed (item 6). A client that does not look at ApiVersions
first then reports a bare end of file, perhaps five times a second; the log says what it asked for, once in
LOG_INTERVAL_MS for each API.
"""

import logging

from siltstone.broker.request import CloseConnection, ConnectionContext
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit

log = logging.getLogger(__name__)


class UnsupportedRequests:
    """Logs the requests of one broker's clients that it does not support."""

    def __init__(self, clock: Clock) -> None:
        self._limit = LogLimit(clock)
        """Numbers that are no API's count as one subject."""

    def refusal(self, connection: ConnectionContext, number: int, version: int) -> CloseConnection:
        """Returns the error that closes the connection of a request with this API key and version. Logs it if that is
        due."""
        asked = _asked(number, version)
        if self._limit.is_due(_known(number)):
            log.warning(
                "a client at %s asked for %s, so its connection was closed. Update the client or do without this "
                "request: the page differences-from-kafka lists the supported APIs. The same request is logged at most "
                "once a minute",
                connection.client_host, asked,
            )  # fmt: skip
        return CloseConnection(f"the client asked for {asked}")


def _known(number: int) -> ApiKey | None:
    return ApiKey(number) if number in ApiKey.__members__.values() else None


def _asked(number: int, version: int) -> str:
    api = _known(number)
    if api is None:
        return f"API {number}, which is none of Kafka's"
    name = f"{api.title} (API {number}, version {version})"
    if api not in ANNOUNCED:
        return f"{name}, which this broker does not support"
    lowest, highest = ANNOUNCED[api]
    return f"{name}, which this broker supports in versions {lowest} to {highest}"
