"""The errors of decoding and encoding messages, one class per cause."""

from siltstone.model.errors import InvalidRequest


class MalformedMessage(InvalidRequest):
    """The bytes are not a message of the expected class and version: the reader closes the connection."""


class UnknownVersion(InvalidRequest):
    """The message is not described in that version: announce, and ask for, only the versions that are described."""


class UnknownApi(InvalidRequest):
    """The request names an API that ``messages`` does not describe: the broker closes the connection."""

    def __init__(self, number: int, version: int) -> None:
        super().__init__(
            f"api key {number} is unknown: use an API that is announced (its version was {version})"
        )
        self.number = number
        self.version = version


class UnencodableMessage(InvalidRequest):
    """The message holds a value that the version cannot express: a number out of range, or null in a field that is not
    nullable."""
