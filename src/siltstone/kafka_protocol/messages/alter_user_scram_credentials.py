"""AlterUserScramCredentials: set and remove the credentials with which users log in by SCRAM.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Bytes, Int8, Int16, Int32, Message, Structure


class ScramCredentialDeletion(Structure, frozen=True, kw_only=True):
    name: str = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Structure, frozen=True, kw_only=True):
    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


class AlterUserScramCredentialsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = 0

    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


class AlterUserScramCredentialsResult(Structure, frozen=True, kw_only=True):
    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = ""


class AlterUserScramCredentialsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = []
