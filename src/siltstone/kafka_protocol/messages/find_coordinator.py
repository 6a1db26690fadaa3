"""FindCoordinator: the broker that coordinates a consumer group or a transactional id.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int8, Int16, Int32, Message, Structure, Versions


class FindCoordinatorRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    versions: ClassVar[tuple[int, int]] = (0, 6)
    flexible_since: ClassVar[int | None] = 3

    key: Annotated[str, Versions(0, 3)] = ""
    key_type: Annotated[Int8, Versions(1)] = 0
    coordinator_keys: Annotated[list[str], Versions(4)] = []


class Coordinator(Structure, frozen=True, kw_only=True):
    key: str = ""
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


class FindCoordinatorResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    versions: ClassVar[tuple[int, int]] = (0, 6)
    flexible_since: ClassVar[int | None] = 3

    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Annotated[Int16, Versions(0, 3)] = 0
    error_message: Annotated[str | None, Versions(1, 3)] = ""
    node_id: Annotated[Int32, Versions(0, 3)] = 0
    host: Annotated[str, Versions(0, 3)] = ""
    port: Annotated[Int32, Versions(0, 3)] = 0
    coordinators: Annotated[list[Coordinator], Versions(4)] = []
