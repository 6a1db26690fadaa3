"""The settings of the network: frozen values, with Kafka's names where Kafka has one (dots become underscores).

``model.limits`` has every default and its reason.
"""

import msgspec

from siltstone.model import serving_limits
from siltstone.model.errors import InvalidRequest
from siltstone.server.network.addresses import is_ip, written_host

TLS_SIZE_BYTES = 0x1603_0000
"""A TLS handshake that is misread as the size of a frame gives at least this. The limit stays below it, so TLS (and
HTTP, which gives more) is recognised as too large."""


class InvalidNetworkSetting(InvalidRequest):
    """A setting of the network has a value that cannot work."""


OVERRIDES = "max_connections_per_ip_overrides"


def parse_overrides(text: str) -> dict[str, int]:
    """Returns the most connections of each host that the text names: ``10.0.0.1:200,fd00::1:5``, where the last colon
    is before the number, as in Kafka. An IPv6 address may have brackets. Raises InvalidNetworkSetting."""
    limits: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        written, _, count = (part.strip() for part in entry.rpartition(":"))
        address = written.removeprefix("[").removesuffix("]")
        if not (is_ip(address) and count.isascii() and count.isdigit()):
            raise InvalidNetworkSetting(
                f"network.{OVERRIDES}: {entry!r} is not ADDRESS:COUNT, such as 10.0.0.1:200 or [::1]:200; an address "
                "is a number, and names of hosts are not looked up"
            )
        host = written_host((address, 0))
        if host in limits:
            raise InvalidNetworkSetting(
                f"network.{OVERRIDES}: {host} is there twice; give each host one limit"
            )
        limits[host] = int(count)
    return limits


class NetworkSettings(msgspec.Struct, frozen=True):
    """``connection_*`` limit each connection; ``queued_max_request_bytes`` and ``answer_bytes_max`` limit all
    connections together."""

    max_connections: int = serving_limits.MAX_CONNECTIONS
    max_connections_per_ip: int = serving_limits.MAX_CONNECTIONS_PER_IP
    max_connections_per_ip_overrides: str = serving_limits.MAX_CONNECTIONS_PER_IP_OVERRIDES
    connections_max_idle_ms: int = serving_limits.CONNECTIONS_IDLE_MS_MAX
    socket_request_max_bytes: int = serving_limits.SOCKET_REQUEST_BYTES_MAX
    queued_max_request_bytes: int = serving_limits.QUEUED_REQUEST_BYTES_MAX
    connection_request_bytes_max: int = serving_limits.CONNECTION_REQUEST_BYTES_MAX
    connection_requests_max: int = serving_limits.CONNECTION_REQUESTS_MAX
    connection_answer_bytes_max: int = serving_limits.CONNECTION_ANSWER_BYTES_MAX
    answer_bytes_max: int = serving_limits.ANSWER_BYTES_MAX
    answer_stalled_ms_max: int = serving_limits.ANSWER_STALLED_MS_MAX
    request_stalled_ms_max: int = serving_limits.REQUEST_STALLED_MS_MAX
    authentication_ms_max: int = serving_limits.AUTHENTICATION_MS_MAX
    unauthenticated_connections_max: int = serving_limits.UNAUTHENTICATED_CONNECTIONS_MAX
    close_time_limit_ms: int = serving_limits.CLOSE_TIME_LIMIT_MS

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if name != OVERRIDES and getattr(self, name) < 1:
                raise InvalidNetworkSetting(f"network.{name} is {getattr(self, name)}: it must be at least 1")
        parse_overrides(self.max_connections_per_ip_overrides)
        if self.socket_request_max_bytes >= TLS_SIZE_BYTES:
            raise InvalidNetworkSetting(
                f"network.socket_request_max_bytes ({self.socket_request_max_bytes}) must be below {TLS_SIZE_BYTES}: "
                "larger sizes cannot be distinguished from TLS and HTTP"
            )
        if self.socket_request_max_bytes > self.queued_max_request_bytes:
            raise InvalidNetworkSetting(
                f"network.queued_max_request_bytes ({self.queued_max_request_bytes}) must hold the largest request, "
                f"network.socket_request_max_bytes ({self.socket_request_max_bytes})"
            )
