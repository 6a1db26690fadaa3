"""SaslAuthenticate: one step of a login.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Bytes, Int16, Int64, Message, Versions


class SaslAuthenticateRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 2

    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 2

    error_code: Int16 = 0
    error_message: str | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, Versions(1)] = 0
