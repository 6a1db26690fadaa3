"""Defines the errors that the stream engine raises."""

from siltstone.model.errors import CorruptData, Fenced, InvalidRequest, Stale, Unavailable
from siltstone.model.objects import object_key


class EngineNotRunning(Fenced):
    """The engine accepts no more appends: it is closing, or it has failed. Opening the engine again recovers the
    log."""


class EngineOverloaded(Unavailable):
    """More bytes of appends would wait for room than may wait. Try again when some appends have been answered."""


class LogDiskFull(Unavailable):
    """The disk of the write-ahead log is full, and the space that is reserved has no room for the append. Nothing of it
    was taken. Try again when there is space."""


class PayloadNotBytes(InvalidRequest):
    """The payload is text, an array, or another type that is not a plain buffer of bytes."""


class AppendTooLarge(InvalidRequest):
    """The payload is larger than ``append_bytes_max``."""


class StreamHandleClosed(InvalidRequest):
    """This stream handle was closed, or another engine made it: open the stream at this engine."""


class StreamHeld(Stale):
    """The stream takes no appends while its partition is handed over to another node."""


class StreamAlreadyOpen(InvalidRequest):
    """This engine has the stream open already, or is opening it."""


class OffsetBeyondEnds(InvalidRequest):
    """The offset is before the start of the stream or after its confirmed end."""


class DamagedRange(CorruptData):
    """Offsets [``start_offset``, ``end_offset``) of a stream cannot be read, because the object that holds them is
    missing, damaged or truncated. The offsets before them and from ``end_offset`` on may still be readable."""

    def __init__(
        self,
        stream_id: int,
        start_offset: int,
        end_offset: int,
        object_id: int,
        bucket_id: int,
        what_is_wrong: object,
    ) -> None:
        super().__init__(
            f"offsets {start_offset} to {end_offset - 1} of stream {stream_id} cannot be read from object {object_id} "
            f"({object_key(object_id)} in bucket {bucket_id}): {what_is_wrong}; run siltstone check"
        )
        self.stream_id = stream_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.object_id = object_id
        self.bucket_id = bucket_id
        self.what_is_wrong = str(what_is_wrong)


class ReadRangeNotCovered(Stale):
    """The metadata names no object for offsets of the stream: the image is behind, or data is missing."""
