"""What can be wrong with bytes that should be a message, and with a message that should become bytes."""

from siltstone.model.errors import InvalidRequest


class MalformedMessage(InvalidRequest):
    """The bytes are no message of that class and version: close the connection they came from."""


class UnknownVersion(InvalidRequest):
    """The message has no such version: announce and ask for those it has."""


class UnknownApi(InvalidRequest):
    """A request for an API that is not described here: close the connection it came from."""


class UnencodableMessage(InvalidRequest):
    """A value has no place in the version to be written: a number out of range, a null that may not be."""
