"""The errors of record batches: each cause has a class.

The base class says what the producer does next: after InvalidRequest it gives up or corrects the batch, after
CorruptData it sends the batch again. The broker maps these classes to Kafka's error codes. Read next:
``batch_checks``.
"""

from siltstone.model.errors import CorruptData, InvalidRequest

# -- damaged bytes: the producer sends the batch again -------------------------------------------------------


class TruncatedBatch(CorruptData):
    """The bytes end before the header does, or before the length in the header says."""


class BatchLengthWrong(CorruptData):
    """The length in the header is impossible, or differs from the number of bytes received."""


class BatchChecksumWrong(CorruptData):
    """The CRC-32C in the header differs from the CRC of the bytes from the attributes on."""


class MalformedRecords(CorruptData):
    """The bytes after the header cannot be read as records."""


class DecompressionFailed(CorruptData):
    """The bytes after the header cannot be decompressed with the codec that the header names."""


# -- intact batches that are refused -------------------------------------------------------------------------


class NotOneBatch(InvalidRequest):
    """There is no batch, or more than one, where exactly one is expected."""


class UnsupportedMagic(InvalidRequest):
    """The batch has an older format than magic 2, the only one that is supported."""


class BatchTooLarge(InvalidRequest):
    """The batch has more bytes than the topic allows, or more records than any batch may have."""


class OffsetNotZero(InvalidRequest):
    """The base offset is not 0: the broker assigns offsets, a producer sends 0."""


class RecordCountWrong(InvalidRequest):
    """The record count in the header is not positive, or contradicts the offsets in the header or the records."""


class ControlBatchFromClient(InvalidRequest):
    """A client sent a control batch, which only a transaction coordinator may write."""


class LogAppendTimeFromClient(InvalidRequest):
    """A client sent a batch with log append time, which only the broker may set."""


class SequenceMissing(InvalidRequest):
    """The batch has a producer id and no sequence number."""


class UnknownCodec(InvalidRequest):
    """The header names a compression codec that Kafka does not define."""


class CodecNotAllowed(InvalidRequest):
    """The batch is compressed with zstd in a Produce request older than version 7, whose consumers cannot read zstd."""


class OffsetDeltaWrong(InvalidRequest):
    """The offset deltas of a producer's records are not 0, 1, 2 …"""


class DecompressedTooLarge(InvalidRequest):
    """The records are larger after decompression than the limit allows."""
