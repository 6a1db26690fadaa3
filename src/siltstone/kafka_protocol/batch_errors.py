"""What can be wrong with a record batch, one class per cause.

The classes say what the producer does next (InvalidRequest: gives up or corrects; CorruptData: sends again);
the broker has the one table from these causes to Kafka's error codes. Read next: ``batch_checks``.
"""

from siltstone.model.errors import CorruptData, InvalidRequest

# -- bytes that are not what was sent or stored ------------------------------------------------------------


class TruncatedBatch(CorruptData):
    """Fewer bytes than the header, or than the header says."""


class BatchLengthWrong(CorruptData):
    """The length in the header is impossible, or not that of the bytes given."""


class BatchChecksumWrong(CorruptData):
    """The CRC-32C in the header is not that of the bytes from the attributes on."""


class MalformedRecords(CorruptData):
    """The records behind the header cannot be read as such."""


class DecompressionFailed(CorruptData):
    """The records behind the header are not what its codec writes."""


# -- batches that are whole and refused ----------------------------------------------------------------------


class NotOneBatch(InvalidRequest):
    """None or several where exactly one is expected."""


class UnsupportedMagic(InvalidRequest):
    """A batch format that this program does not read: only magic 2 is."""


class BatchTooLarge(InvalidRequest):
    """Larger than the topic allows."""


class OffsetNotZero(InvalidRequest):
    """A producer has to leave offsets to the broker."""


class RecordCountWrong(InvalidRequest):
    """The number of records is not positive, or not that of the offsets, or not that of the records there."""


class ControlBatchFromClient(InvalidRequest):
    """Only a transaction coordinator writes control batches."""


class LogAppendTimeFromClient(InvalidRequest):
    """Only the broker says when a batch was appended."""


class SequenceMissing(InvalidRequest):
    """A producer id without a sequence number."""


class UnknownCodec(InvalidRequest):
    """A codec number that Kafka has not given out."""


class CodecNotAllowed(InvalidRequest):
    """zstd in a produce request older than version 7: consumers of that time cannot read it."""


class OffsetDeltaWrong(InvalidRequest):
    """The offsets of a producer's records are not 0, 1, 2 …"""


class DecompressedTooLarge(InvalidRequest):
    """The records pass the limit of what is decompressed."""
