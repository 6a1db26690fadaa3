"""What the engine says no with."""

from siltstone.model.errors import Fenced, InvalidRequest, Stale, Unavailable


class EngineNotRunning(Fenced):
    """The engine has stopped taking appends: it is closing, or it has failed. Open it again to recover."""


class EngineOverloaded(Unavailable):
    """More appends wait for room than may wait. Try again when some have been answered."""


class PayloadNotBytes(InvalidRequest):
    """The payload is text, an array, or something else whose bytes are not plain."""


class AppendTooLarge(InvalidRequest):
    """The payload is larger than ``append_bytes_max``."""


class StreamHandleClosed(InvalidRequest):
    """This handle was closed, or is another engine's: open the stream here."""


class StreamAlreadyOpen(InvalidRequest):
    """This engine has the stream open already."""


class OffsetBeyondEnds(InvalidRequest):
    """The offset lies before the start of the stream or after its end."""


class RangeNotCovered(Stale):
    """The metadata does not name an object for offsets that exist: the image lags, or data is missing."""
