"""The errors that the stream engine raises."""

from siltstone.model.errors import Fenced, InvalidRequest, Stale, Unavailable


class EngineNotRunning(Fenced):
    """The engine accepts no more appends: it is closing, or it has failed. Opening it again recovers."""


class EngineOverloaded(Unavailable):
    """More bytes of appends would wait for room than may wait. Try again when some appends have been answered."""


class PayloadNotBytes(InvalidRequest):
    """The payload is text, an array, or another type that is not a plain buffer of bytes."""


class AppendTooLarge(InvalidRequest):
    """The payload is larger than ``append_bytes_max``."""


class StreamHandleClosed(InvalidRequest):
    """This stream handle was closed, or another engine made it: open the stream at this engine."""


class StreamAlreadyOpen(InvalidRequest):
    """This engine has the stream open already, or is opening it."""


class OffsetBeyondEnds(InvalidRequest):
    """The offset lies before the start of the stream or after its confirmed end."""


class RangeNotCovered(Stale):
    """The metadata names no object for offsets of the stream: the image is behind, or data is missing."""
