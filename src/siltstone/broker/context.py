"""What a handler knows of a request besides its message."""

import msgspec

from siltstone.broker.request import ConnectionContext


class RequestContext(msgspec.Struct, frozen=True):
    connection: ConnectionContext
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    @property
    def client_host(self) -> str:
        return self.connection.client_host
