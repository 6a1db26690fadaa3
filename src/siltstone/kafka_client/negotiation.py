"""In which version each request is written: the highest that both sides speak.

We write the versions of Apache Kafka 3.0 and later (``LOWEST``), whose shapes are the same to this day, and leave out
those that name topics by id (``HIGHEST``): people name them by name.
"""

from collections.abc import Iterable, Mapping

from siltstone.kafka_client.failures import RequestNotSpoken
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.messages.api_versions import ApiVersion
from siltstone.kafka_protocol.notation import Message

LOWEST: Mapping[ApiKey, int] = {
    ApiKey.METADATA: 10,  # topic ids
    ApiKey.LIST_OFFSETS: 7,  # the offset of the newest time
    ApiKey.OFFSET_FETCH: 8,  # several groups at once
    ApiKey.FIND_COORDINATOR: 4,  # the same
    ApiKey.DELETE_TOPICS: 6,  # one shape for names and ids
    ApiKey.LIST_GROUPS: 4,  # the state of a group
    ApiKey.PRODUCE: 7,  # zstd
    ApiKey.FETCH: 10,  # zstd
}
HIGHEST: Mapping[ApiKey, int] = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}
ASKED_IN = 3
"""The version of ApiVersions in which a broker is asked: since Kafka 2.4 one that does not know it answers in version 0
which ones it does."""


class SpokenVersions:
    """What one broker has said that it speaks."""

    def __init__(self, where: str, rows: Iterable[ApiVersion]) -> None:
        self._where = where
        self._ranges = {row.api_key: (row.min_version, row.max_version) for row in rows}

    def version_for(self, request: type[Message]) -> int:
        """Raises RequestNotSpoken."""
        key = request.api_key
        if key not in self._ranges:
            raise RequestNotSpoken(
                f"the broker at {self._where} does not know {key.name}: this needs another broker"
            )
        theirs_lowest, theirs_highest = self._ranges[key]
        lowest = max(LOWEST.get(key, request.versions[0]), theirs_lowest)
        highest = min(HIGHEST.get(key, ANNOUNCED[key][1]), request.versions[1], theirs_highest)
        if lowest > highest:
            raise RequestNotSpoken(
                f"the broker at {self._where} speaks {key.name} {theirs_lowest} to {theirs_highest}, which is not what "
                "this program writes: Apache Kafka 3.0 or later does"
            )
        return highest
