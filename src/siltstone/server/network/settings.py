"""The settings of the network: frozen values, with Kafka's names where Kafka has one (dots become underscores).

``model.limits`` has every default and its reason.
"""

import msgspec

from siltstone.model import serving_limits
from siltstone.model.errors import InvalidRequest

TLS_SIZE_BYTES = 0x1603_0000
"""A TLS handshake that is misread as the size of a frame gives at least this. The limit stays below it, so TLS (and
HTTP, which gives more) is recognised as too large."""


class InvalidNetworkSetting(InvalidRequest):
    """A setting of the network has a value that cannot work."""


class NetworkSettings(msgspec.Struct, frozen=True):
    """``connection_*`` limit each connection; ``queued_max_request_bytes`` and ``answer_bytes_max`` limit all
    connections together."""

    max_connections: int = serving_limits.MAX_CONNECTIONS
    max_connections_per_ip: int = serving_limits.MAX_CONNECTIONS_PER_IP
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
            if getattr(self, name) < 1:
                raise InvalidNetworkSetting(f"network.{name} is {getattr(self, name)}: it must be at least 1")
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
